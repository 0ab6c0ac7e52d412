"""Distributes the programs of an application to the executors, and finds them there."""

import atexit
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from headrace.machine.owned_folder import remove
from headrace.pipelines.runtime import Graph


def ship_programs(spark: SparkSession, folder: Path | None, graph: Graph) -> str | None:
    """Copies the files of an application's programs to every executor of a session.

    Files that have changed since an earlier call are shipped again, beside those.

    Args:
        spark: The session.
        folder: The folder of the application; None if it is not known.
        graph: The application.

    Returns:
        What `shipped_programs` finds them by; None if no program needs files.
    """
    named = sorted({file for program in graph.programs for file in program.files})
    if not named or folder is None:
        return None
    files = sorted({path for file in named for path in _files(folder / file)})
    name = f"programs-{_digest(folder, files)}.tar.gz"
    context = spark.sparkContext
    if not any(archive.endswith(f"/{name}") for archive in context.listArchives):
        scratch = Path(tempfile.mkdtemp(prefix="headrace-programs-"))
        # Keep it while the program runs: executors that join later fetch it.
        atexit.register(remove, scratch)
        with tarfile.open(scratch / name, "w:gz", compresslevel=1) as archive:
            for path in files:
                archive.add(path, str(path.relative_to(folder)))
        context.addArchive(str(scratch / name))
    return name


def shipped_programs(name: str | None) -> Path | None:
    """The folder with the files of programs, in a task; None if there are none."""
    return None if name is None else Path(SparkFiles.get(name))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    else:
        yield path


def _digest(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        mode = path.stat().st_mode & 0o777
        digest.update(f"{path.relative_to(folder)}\0{mode}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
