"""Creates a project from templates: all of it, or nothing.

A template has the name of the file that it becomes, with the suffix `.template`. The suffix keeps tools and plugin searches
from treating it as part of Headrace. In it and in its path, `@@name` is replaced: `@@` occurs in none of the languages.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Literal

from headrace.machine.owned_folder import remove
from headrace.scaffold.checkouts import REQUIREMENTS, checkout_of, requirements, with_checkout
from headrace.scaffold.languages import SCAFFOLDS, Scaffold
from headrace.scaffold.names import FolderNotEmpty, checked_connector_name, checked_name

_SUFFIX = ".template"
Kind = Literal["source", "sink"]
_KINDS = {
    "source": {"path": "lines.txt", "does": "reads a file line by line, and follows it", "input": "seq 100 > lines.txt\n"},
    "sink": {"path": "out", "does": "writes each micro-batch to a folder of text files, exactly once", "input": ""},
}
"""What the pages and commands of a project say: a path, what the connector does, and what makes its input."""


class _Placeholders(Template):
    delimiter = "@@"


def rendered(layers: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    """Returns the files of a project by path, sorted. A file of a later layer replaces the file of an earlier one.

    Args:
        layers: Folders of `templates/`.
        values: The values of the placeholders.

    Raises:
        KeyError: A placeholder has no value, which is a mistake in a template.
    """
    templates = resources.files("headrace.scaffold") / "templates"
    files = {}
    for layer in layers:
        for path, file in _files(templates.joinpath(*layer.split("/"))):
            text = file.read_text(encoding="utf-8")
            files[_Placeholders(path).substitute(values)] = _Placeholders(text).substitute(values)
    return dict(sorted(files.items()))


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yields the templates below a folder, each with the path of the file that it becomes."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name.removesuffix(_SUFFIX)}", entry


@dataclass(frozen=True, slots=True)
class Created:
    """A project that was created.

    Attributes:
        name: Its name.
        kind: `source`, `sink` or `app`.
        language: The language that it is written in, for people.
        folder: Where it is, an absolute path.
        files: Its files, relative to the folder.
        commands: What to type next.
        hint: What to know before that, if this Headrace may not be released; else empty.
    """

    name: str
    kind: str
    language: str
    folder: Path
    files: tuple[str, ...]
    commands: tuple[str, ...]
    hint: str


def new_connector(kind: Kind, scaffold: Scaffold, name: str, into: Path, sdk: Path | None = None) -> Created:
    """Creates the project of a source or sink, in the folder `name` of `into`.

    Args:
        kind: Its kind.
        scaffold: How projects in its language are created.
        name: Its name, also as a connector.
        into: The folder that its folder is created in; created itself if it is missing.
        sdk: The SDK in a checkout of Headrace, in place of the released one.

    Raises:
        ScaffoldError: The name or the SDK is not valid, or there is something already. Nothing is written.
        OSError: It cannot be written.
    """
    language = scaffold.language
    package = scaffold.package_of(checked_connector_name(name))
    sdk = None if sdk is None else scaffold.sdk(sdk)
    version = metadata.version("headrace")
    values = {"name": name, "kind": kind, "title": language.title, "version": version}
    values |= {"package": package, **_KINDS[kind]}
    values |= {"command": scaffold.command.format(name=name, package=package, folder="{folder}")}
    # A plugin in Python has an entry point in place of a manifest.
    manifest = [f"manifest/{kind}"] if scaffold.command else []
    files = rendered([f"connector/{kind}", *manifest, f"{language.name}/shared", f"{language.name}/{kind}"], values)
    build = scaffold.build
    if sdk is not None:
        added, build = with_checkout(language.name, sdk, build)
        files |= added
    folder = _written(files, into, name)
    found = [] if not manifest else [f"export HEADRACE_CONNECTORS={shlex.quote(str(folder.parent))}"]
    commands = (f"cd {shlex.quote(str(folder))}", *build, *found, f"headrace connector describe {name}")
    return Created(name, kind, language.title, folder, tuple(sorted(files)), commands, _hint(sdk, language.name))


def new_app(name: str, into: Path, sdk: Path | None = None) -> Created:
    """Creates the project of an application, in the folder `name` of `into`.

    Args:
        name: Its name.
        into: The folder that its folder is created in; created itself if it is missing.
        sdk: The SDK for Python in a checkout of Headrace, which is used in place of the released one.

    Raises:
        ScaffoldError: The name or the SDK is not valid, or there is something already. Nothing is written.
        OSError: It cannot be written.
    """
    python = SCAFFOLDS["python"]
    python.package_of(checked_name(name))
    values = {"name": name, "version": metadata.version("headrace")}
    files = rendered(["app"], values)
    install = "pip install -e '.[dev]'"
    if sdk is not None:
        files[REQUIREMENTS] = requirements(python.sdk(sdk), app=True)
        install = f"pip install -r {REQUIREMENTS} -e '.[dev]'"
    folder = _written(files, into, name)
    commands = (f"cd {shlex.quote(str(folder))}", install, "pytest", "python feed.py > lines.txt", "headrace run deploy.toml")
    return Created(name, "app", python.language.title, folder, tuple(sorted(files)), commands, _hint(sdk, "python"))


def _hint(sdk: Path | None, language: str) -> str:
    """Returns how to build with the SDK of the checkout that this Headrace runs from; empty if it has none, or it was named."""
    root = None if sdk is not None else checkout_of(metadata.distribution("headrace"))
    if root is None or not (root / "sdk" / language).is_dir():
        return ""
    sdk_there = shlex.quote(str(root / "sdk" / language))
    return f"this Headrace runs from a checkout: until its version is released, add --sdk {sdk_there}"


def _written(files: Mapping[str, str], into: Path, name: str) -> Path:
    """Writes the files of a project to a new folder, which appears with all of them. Returns its path.

    Raises:
        FolderNotEmpty: There is something of its name that is not an empty folder.
    """
    folder = into.absolute() / name
    if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink() and not os.listdir(folder)):
        raise FolderNotEmpty(f"{folder} is there already, and is not an empty folder; remove it, or use --into")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        # Headrace refuses manifests that other users can change, so nothing is writable by them, whatever the umask.
        unfinished.chmod(0o755)
        for path, text in files.items():
            _write(unfinished / path, text)
        unfinished.rename(folder)
    except BaseException:
        remove(unfinished)
        raise
    return folder


def _write(path: Path, text: str) -> None:
    for folder in _missing(path.parent):
        folder.mkdir(mode=0o755)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _missing(folder: Path) -> Sequence[Path]:
    """Returns the folders above and including this one that do not exist, the outermost first."""
    return [path for path in reversed((folder, *folder.parents)) if not path.exists()]
