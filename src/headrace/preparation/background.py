"""Runs the preparation in the background."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from headrace.engine.master import is_this_machine
from headrace.engine.spark.class_archive import class_archive
from headrace.processes import headrace

PREPARE = "HEADRACE_PREPARE"
"""The environment variable that says with `0` that nothing is prepared in the background."""
_AGAIN_AFTER_S = 3600.0
"""After how long another attempt follows one that has made no archive."""


def prepare_in_background(master: str = "local") -> bool:
    """Starts `headrace prepare --if-missing` as a detached process of the lowest priority.

    It outlives this process. If two run, the second waits for the first, and has nothing to do. The log is next to the archive.

    Args:
        master: The Spark master of the session that would start faster.

    Returns:
        Whether it was started. It is not if there is an archive already, if an attempt began in the last hour, if the
        environment variable CI is set or HEADRACE_PREPARE is `0`, if this Python environment is read-only or its disk full, or
        if Spark runs elsewhere.
    """
    archive = class_archive()
    log = archive.with_suffix(".log")
    if archive.exists() or _is_recent(log) or not is_this_machine(master) or not os.access(archive.parent, os.W_OK):
        return False
    if os.environ.get("CI") or os.environ.get(PREPARE) == "0":
        return False
    try:
        _start(archive, log)
    except OSError:
        return False
    return True


def _is_recent(log: Path) -> bool:
    """Whether an attempt has written its log lately: it still runs, or has failed."""
    try:
        return 0 <= time.time() - log.stat().st_mtime < _AGAIN_AFTER_S
    except OSError:
        return False


def _start(archive: Path, log_file: Path) -> None:
    nice = ["nice", "-n", "19"] if shutil.which("nice") else []
    with log_file.open("wb") as log:
        subprocess.Popen(
            [*nice, *headrace("prepare", "--if-missing")],
            cwd=archive.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
