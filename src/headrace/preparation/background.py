"""Prepares after the command that a user waits for."""

import os
import shutil
import subprocess

from headrace.engine.spark._class_archive import class_archive
from headrace.processes import headrace


def prepare_in_background() -> bool:
    """Starts `headrace prepare --if-missing` as a process of its own, which yields the processor to all others.

    It outlives this process; a second one waits for the first, and finds its work done. What it says is beside the archive.

    Returns:
        Whether it was started: not where there is an archive, where the environment variable CI is set, or where this Python
        environment cannot be written to.
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
