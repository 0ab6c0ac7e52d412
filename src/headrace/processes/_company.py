"""The processes of a run: started together, and none of them left behind."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.processes._environ import spark_environ
from headrace.processes._owned import OwnedProcess


@contextmanager
def company(
    commands: Mapping[str, list[str]], folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[dict[str, OwnedProcess]]:
    """The processes by name, none started; whatever happens, none is left.

    Args:
        commands: Their command lines.
        folder: Where they run, and their logs lie.
        environ: What is added to the environment of each.
    """
    # Sockets lie in the scratch folder, and their paths must be short; what a killed JVM leaves lies there too.
    scratch = Path(tempfile.mkdtemp(prefix="headrace-"))
    own = {**spark_environ(scratch), **(environ or {})}
    processes = {name: OwnedProcess(name, command, folder, own) for name, command in commands.items()}
    try:
        yield processes
    finally:
        # An impatient second Ctrl-C waits until nothing is left.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        for process in processes.values():
            process.kill()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        shutil.rmtree(scratch, ignore_errors=True)


def headrace(*arguments: str) -> list[str]:
    """The command line of `headrace` with these arguments."""
    return [sys.executable, "-m", "headrace.cli", *arguments]
