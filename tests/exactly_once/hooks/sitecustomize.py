"""Has a process die at armed fault points. Python loads it in every process whose PYTHONPATH names this folder first.

The table of points is `points.py`, one folder up. Each function in it is wrapped once its module is imported. Whoever gets to a
point first takes the file that arms it, writes its process id into it, and kills itself by SIGKILL, or, for a point of the
driver, the driver with everything that it has started. If the file names another process, it kills that one, and continues.
"""

import importlib.util
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FAULTS = os.environ.get("HEADRACE_FAULTS", "")


def load_points() -> ModuleType:
    """The table, as a module of its own: the folder that it lies in is not importable everywhere."""
    spec = importlib.util.spec_from_file_location(
        "headrace_fault_points", os.path.join(os.path.dirname(__file__), "..", "points.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def die_if_armed(point: Any) -> None:
    """Dies here, where the point is armed and nobody else has got to it before, unless another process is to die."""
    reached = os.path.join(FAULTS, "reached", point.name)
    try:
        os.rename(os.path.join(FAULTS, "armed", point.name), reached)
    except FileNotFoundError:
        return
    with open(reached, "r+") as file:
        other = int(file.read() or 0)
        file.seek(0)
        file.write(f"{other or os.getpid()}\n")
    if other:
        os.killpg(other, signal.SIGKILL)
        return
    if point.role == "driver":
        with open(os.environ["HEADRACE_FAULTS_DRIVER"]) as file:
            os.killpg(int(file.read()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """The points of one function."""

    def __init__(self, points: Sequence[Any]) -> None:
        self._points = points

    def at(self, place: str, arguments: tuple[Any, ...], result: Any = None) -> None:
        """Dies here, where one of the points lies here and is armed."""
        for point in self.that_apply(place, arguments, result):
            die_if_armed(point)

    def that_apply(self, place: str, arguments: tuple[Any, ...], result: Any = None) -> list[Any]:
        """The points at this place that mean this call."""
        return [point for point in self._points if point.at.name == place and point.applies(arguments, result)]

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its points."""
        if inspect.iscoroutinefunction(function):

            async def watched(*arguments: Any, **named: Any) -> Any:
                self.at("ENTRY", arguments)
                result = await function(*arguments, **named)
                self.at("RETURN", arguments, result)
                return result

        elif inspect.isgeneratorfunction(function):

            def watched(*arguments: Any, **named: Any) -> Any:  # type: ignore[misc]
                self.at("ENTRY", arguments)
                for item in function(*arguments, **named):
                    self.at("ITEM", arguments, item)
                    yield item
                    self.at("ITEM_TAKEN", arguments, item)
                self.at("RETURN", arguments)

        else:

            def watched(*arguments: Any, **named: Any) -> Any:  # type: ignore[misc]
                self.at("ENTRY", arguments)
                begun = self.that_apply("DONE", arguments)
                result = function(*arguments, **named)
                self.at("RETURN", arguments, result)
                for point in begun:
                    die_if_armed(point)
                return result

        return wraps(function)(watched)


def watch(module: ModuleType, points: Sequence[Any]) -> None:
    """Wraps the functions of a module that has just been imported."""
    for name in dict.fromkeys(point.function for point in points):
        *path, last = name.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part)
        of_it = [point for point in points if point.function == name]
        setattr(owner, last, Watched(of_it).wrap(inspect.getattr_static(owner, last)))


class Finder:
    """Finds modules as the others do, and has modules with points wrapped once they are imported."""

    def __init__(self, points: Sequence[Any]) -> None:
        self._points = points
        self._modules = {point.module for point in points}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As Python asks."""
        if name not in self._modules:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            load, points = spec.loader.exec_module, [point for point in self._points if point.module == name]

            def exec_module(module: ModuleType) -> None:
                load(module)
                watch(module, points)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if FAULTS:
    sys.meta_path.insert(0, Finder((*(table := load_points()).POINTS, *table.REAL_TIME_POINTS)))
