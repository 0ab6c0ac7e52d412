"""Projects that build with a checkout of Headrace, as on a machine where it is developed, or before its release.

What they need is in files that Git ignores, and in the first commands: whoever clones such a project builds with the release.
"""

import json
import shlex
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.scaffold.names import NotAnSdk

REQUIREMENTS = "headrace-checkout.txt"
"""The file of a project in Python that has pip install Headrace from a checkout."""
_DISTRIBUTIONS = ("base", "sdk/python", "connectors", "gateway", "conformance")
_DISTRIBUTIONS_OF_APPS = (*_DISTRIBUTIONS, "pipelines", "engine", ".")


def with_checkout(language: str, sdk: Path, build: tuple[str, ...]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Returns the files that a project needs to build with the SDK of a checkout, and the commands that build it.

    Args:
        language: The name of its language.
        sdk: The absolute path of the SDK.
        build: The commands that build it with the release.

    Raises:
        NotAnSdk: The SDK for Python is not in a checkout.
    """
    match language:
        case "python":
            return {REQUIREMENTS: requirements(sdk, app=False)}, (f"pip install -r {REQUIREMENTS} -e '.[dev]'",)
        case "go":
            # `go mod tidy` does not know workspaces, and would look for the release.
            replaced = f"replace github.com/headrace/headrace/sdk/go => {_quoted(str(sdk))}"
            return {"go.work": f"go 1.26.0\n\nuse .\n\n{replaced}\n"}, tuple(one for one in build if one != "go mod tidy")
        case "rust":
            return {".cargo/config.toml": f"[patch.crates-io]\nheadrace = {{ path = {_quoted(str(sdk))} }}\n"}, build
        case "typescript":
            return {}, (f"npm install --no-save {shlex.quote(f'@headrace/sdk@file:{sdk}')}", *build[1:])
        case _:
            installed = f"mvn --file {shlex.quote(str(sdk))} --projects protocol,sdk --also-make install -DskipTests"
            return {}, (installed, *build)


def requirements(sdk: Path, *, app: bool) -> str:
    """Returns what pip installs Headrace from a checkout with; `sdk` is the SDK for Python in it.

    Raises:
        NotAnSdk: The SDK is not in a checkout.
    """
    root = sdk.parents[1]
    folders = [root / name for name in (_DISTRIBUTIONS_OF_APPS if app else _DISTRIBUTIONS)]
    missing = next((folder for folder in folders if not (folder / "pyproject.toml").is_file()), None)
    if missing is not None:
        raise NotAnSdk(f"{sdk} is not in a checkout of Headrace: there is no {missing / 'pyproject.toml'}")
    lines = ["# Headrace from a checkout, in place of its release."]
    return "\n".join((*lines, *(f"-e {folder.resolve()}" for folder in folders), ""))


def checkout_of(installed: Distribution) -> Path | None:
    """Returns the folder that a distribution runs from, if it was installed to be edited there (PEP 610); else None."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _quoted(text: str) -> str:
    """Returns a string in quotes, in the notation that TOML and the files of Go share."""
    return json.dumps(text, ensure_ascii=False)
