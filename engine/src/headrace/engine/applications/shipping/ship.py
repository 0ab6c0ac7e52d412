"""Distributes an application's modules to the Python workers, and lets Spark send the classes that a program defines itself.

Workers cannot import what is in `__main__`, so Spark sends it whole.
"""

import atexit
import hashlib
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.cloudpickle import cloudpickle
from pyspark.sql import SparkSession

from headrace.machine.owned_folder import remove

_NOT_CODE = {"__pycache__", "checkpoints", "node_modules", "venv", "tests"}


def ship(spark: SparkSession, folder: Path) -> None:
    """Makes the modules and packages of a folder importable in every worker of a session.

    Modules that were already shipped in this session are not shipped again. Modules that have changed since are shipped for
    workers that start later.

    Args:
        spark: The session.
        folder: The folder that the driver imports the modules from.
    """
    context = spark.sparkContext
    modules = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(_modules(folder))}
    # Spark identifies an archive by its name, and a session may have several applications.
    name = f"application-{_digest(modules)}.zip"
    if modules and name not in (context._python_includes or ()):
        scratch = Path(tempfile.mkdtemp(prefix="headrace-application-"))
        # Keep it while the program runs: executors that join later fetch it.
        atexit.register(remove, scratch)
        with zipfile.ZipFile(scratch / name, "w") as packed:
            for path, text in modules.items():
                packed.writestr(path, text)
        context.addPyFile(str(scratch / name))
    # The planner processes on the driver's machine do not receive the archive.
    known = list(filter(None, context.environment.get("PYTHONPATH", "").split(os.pathsep)))
    if str(folder) not in known:
        context.environment["PYTHONPATH"] = os.pathsep.join([str(folder), *known])


def _digest(modules: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, text in modules.items():
        digest.update(f"{path}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def _modules(folder: Path) -> list[Path]:
    """The modules in a folder and in its packages."""
    packages = [
        path.parent
        for path in folder.glob("*/__init__.py")
        if path.parent.name not in _NOT_CODE and not path.parent.name.startswith(".")
    ]
    return [*folder.glob("*.py"), *(module for package in packages for module in package.rglob("*.py"))]


_CACHE = "__msgspec_cache__"
"""Where msgspec keeps, in a dataclass, NamedTuple, TypedDict or Enum that it has read or written, what it knows of it."""


def send_program_classes() -> None:
    """Has Spark leave out of a class that it sends what msgspec keeps in it, and refuse a Struct, whose fields would be lost.

    pyspark's copy of cloudpickle has no public hook for either.
    """
    if cloudpickle._extract_class_dict is not _class_dict:
        cloudpickle._extract_class_dict = _class_dict


_of_cloudpickle: Callable[[type], dict[str, Any]] = cloudpickle._extract_class_dict


def _class_dict(cls: type) -> dict[str, Any]:
    """Returns what Spark sends of a class.

    Raises:
        PicklingError: The class is a Struct.
    """
    if hasattr(cls, "__struct_config__"):
        where = f"{cls.__qualname__} is a Struct of the program itself, and Spark's workers cannot import it"
        raise pickle.PicklingError(f"{where}; define it in a module beside the program, or as a dataclass")
    found = _of_cloudpickle(cls)
    found.pop(_CACHE, None)
    return found
