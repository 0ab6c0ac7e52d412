"""The programs of the examples, each loaded as `headrace run` and `python` do: with its folder first on the path."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples"


class Example:
    """The modules of one example: `Example("alerts").app` is its module `app`."""

    def __init__(self, name: str) -> None:
        self.folder = FOLDER / name
        with _first_on_path(self.folder):
            self._modules = {path.stem: importlib.import_module(path.stem) for path in sorted(self.folder.glob("*.py"))}

    def __getattr__(self, module: str) -> Any:
        return self._modules[module]


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Names such as `app` belong to this folder, and afterwards to none."""
    own = {path.stem for path in folder.glob("*.py")}
    before: dict[str, ModuleType] = {name: sys.modules.pop(name) for name in own if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in own:
            sys.modules.pop(name, None)
        sys.modules.update(before)
