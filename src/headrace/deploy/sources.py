"""The files that decide whether applications can be imported, as far as they are known without an import."""

import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

MAX_FOLDERS = 500
_INSTALLED = ("site-packages", "dist-packages")


def sources_beside(files: Iterable[Path]) -> Sequence[Path]:
    """Returns the files, the Python files in their folders and in the packages there, and the folders of what is installed.

    A folder below is a package if it contains Python files: checkpoints and logs have none.
    """
    given = list(files)
    paths = [Path(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    waiting = deque(dict.fromkeys([*(file.parent for file in given), *paths]))
    known, found = set[Path](), list[Path]()
    while waiting and len(known) < MAX_FOLDERS:
        folder = waiting.popleft()
        if folder not in known:
            known.add(folder)
            modules, below = _listed(folder)
            found += modules
            waiting += below if modules else ()
    return [*given, *found, *(Path(entry) for entry in sys.path if Path(entry).name in _INSTALLED)]


def _listed(folder: Path) -> tuple[list[Path], list[Path]]:
    """Returns the Python files of a folder, and the folders in it that may be packages; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
            modules = [Path(entry.path) for entry in listed if entry.name.endswith(".py")]
            return modules, [Path(entry.path) for entry in listed if _may_be_package(entry.name) and entry.is_dir()]
    except OSError:
        return [], []


def _may_be_package(name: str) -> bool:
    return name.isidentifier() and name != "__pycache__"
