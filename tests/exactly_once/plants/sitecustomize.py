"""Plants faults. Python loads it in every process whose PYTHONPATH names this folder first."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def load_plants() -> ModuleType:
    """The plants, as a module of its own: the folder that it lies in is not importable everywhere."""
    path = os.path.join(os.path.dirname(__file__), "..", "plants.py")
    spec = importlib.util.spec_from_file_location("headrace_plants", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Finder:
    """Finds modules as the others do, and sows plants in modules that have some once they are imported."""

    def __init__(self, plants: ModuleType) -> None:
        self._plants = {plant.module: plant for plant in plants.ALL}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As Python asks."""
        plant = self._plants.get(name)
        if plant is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                # Modules of one archive share a loader.
                if module.__name__ == name:
                    plant.sow(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get("HEADRACE_PLANTS"):
    sys.meta_path.insert(0, Finder(load_plants()))
