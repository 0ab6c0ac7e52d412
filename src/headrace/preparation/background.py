"""Runs the preparation in the background."""

import os
import shutil
import subprocess

from headrace.engine.spark.class_archive import class_archive
from headrace.processes import headrace


def prepare_in_background() -> bool:
    """Starts `headrace prepare --if-missing` as a detached process of the lowest priority.

    It outlives this process. If two run, the second waits for the first, and has nothing to do. The log is next to the archive.

    Returns:
        Whether it was started. It is not if there is an archive already, if the environment variable CI is set, or if this
        Python environment is read-only.
    """
    archive = class_archive()
    if archive.exists() or os.environ.get("CI") or not os.access(archive.parent, os.W_OK):
        return False
    nice = ["nice", "-n", "19"] if shutil.which("nice") else []
    with archive.with_suffix(".log").open("wb") as log:
        subprocess.Popen(
            [*nice, *headrace("prepare", "--if-missing")],
            cwd=archive.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return True
