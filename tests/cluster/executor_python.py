"""A Python environment for executors, other than the driver's: what a machine has on which `headrace-engine` was installed."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
_SOURCES = {f"headrace-{name}": ROOT / name / "src" for name in ("base", "engine", "pipelines")}
"""What is installed here so that edits take effect at once, which has no files of its own among the packages."""
_LEFT_OUT = {"jars"}
"""A worker's JVM has Spark's jars from where it was started."""


def make_executor_python(folder: Path) -> Path:
    """Makes an environment with `headrace-engine` and what that needs.

    Its files are copies: linked ones would change, as tar sees it, whenever somebody else makes or removes another link.

    Returns:
        Its Python.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in _needed("headrace-engine", {}).values():
        _install(each, packages)
    return folder / "bin" / "python"


def _needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution and its requirements, by name."""
    if name not in found:
        found[name] = distribution(name)
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                _needed(requirement.name, found)
    return found


def _install(each: Distribution, packages: Path) -> None:
    source = _SOURCES.get(each.name)
    if source is not None:
        shutil.copytree(source, packages, dirs_exist_ok=True)
    for top in {Path(file).parts[0] for file in each.files or ()} - {".."}:
        path = Path(str(each.locate_file(top)))
        if path.is_dir():
            shutil.copytree(path, packages / top, copy_function=_copy, dirs_exist_ok=True, ignore=_left_out)
        elif path.suffix != ".pth":
            _copy(str(path), str(packages / top))


def _copy(source: str, target: str) -> None:
    if not os.path.exists(target):
        shutil.copy2(source, target)


def _left_out(folder: str, names: list[str]) -> set[str]:
    return _LEFT_OUT & set(names) if Path(folder).name == "pyspark" else set()
