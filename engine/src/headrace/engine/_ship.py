"""Brings an application's modules to the Python workers."""

import atexit
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

_NOT_CODE = {"__pycache__", "checkpoints", "node_modules", "venv", "tests"}


def ship(spark: SparkSession, folder: Path) -> None:
    """Has every worker of a session find the modules and packages that lie in a folder, as the driver does."""
    scratch = Path(tempfile.mkdtemp(prefix="headrace-application-"))
    # Executors that join later fetch it then.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    archive = scratch / "application.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(_modules(folder)):
            packed.write(path, path.relative_to(folder))
    spark.sparkContext.addPyFile(str(archive))
    # The Python processes that plan, next to the driver, are not given the archive.
    environ = spark.sparkContext.environment
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environ.get("PYTHONPATH")]))


def _modules(folder: Path) -> list[Path]:
    """The modules of a folder, and those of its packages."""
    packages = [
        path.parent
        for path in folder.glob("*/__init__.py")
        if path.parent.name not in _NOT_CODE and not path.parent.name.startswith(".")
    ]
    return [*folder.glob("*.py"), *(module for package in packages for module in package.rglob("*.py"))]
