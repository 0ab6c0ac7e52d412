"""The programs that this process has started: one process for each step, which lives as long as this process."""

import threading
from pathlib import Path

from headrace.pipelines.programs.process import Process
from headrace.pipelines.programs.program import Program

_RUNNING: dict[tuple[str, str], Process] = {}
_LOCK = threading.Lock()


def running(program: Program, folder: Path | None) -> Process:
    """The process of a program, which is started if there is none.

    Raises:
        ProgramError: It cannot be started.
    """
    at = program.pipeline, program.step
    with _LOCK:
        process = _RUNNING.pop(at, None)
        if process is None or not process.is_usable or (process.program, process.folder) != (program, folder):
            if process is not None:
                process.end()
            process = Process(program, folder)
        _RUNNING[at] = process
        return process
