"""Files with `@@name` in them and in their paths, in which that is replaced.

A template has the name of the file that it becomes, with the suffix `.template`. The suffix keeps tools and plugin searches
from treating it as part of Headrace. `@@` occurs in none of the languages.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from string import Template

_SUFFIX = ".template"


class _Placeholders(Template):
    delimiter = "@@"


def rendered(layers: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    """Returns the files of a project by path, sorted. A file of a later layer replaces that of an earlier one.

    Args:
        layers: Folders of `templates/`.
        values: What the placeholders stand for.

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
