"""Distributes an application's modules to the Python workers."""

import atexit
import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

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
