"""A process group: processes that are started together, and all ended together."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.processes.environ import spark_environ
from headrace.processes.owned import OwnedProcess
from headrace.processes.scratch import Scratch


@contextmanager
def process_group(
    commands: Mapping[str, list[str]], folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[dict[str, OwnedProcess]]:
    """The processes by name, none started. All of them are killed at the end, however the block ends.

    Args:
        commands: Their command lines.
        folder: Where they run, and their logs lie.
        environ: What is added to the environment of each.
    """
    # Sockets lie in the scratch folder, and their paths must be short; what a killed JVM leaves lies there too.
    scratch = Scratch()
    own = {**spark_environ(scratch.path), **(environ or {})}
    processes = {name: OwnedProcess(name, command, folder, own) for name, command in commands.items()}
    try:
        yield processes
    finally:
        # An impatient second Ctrl-C waits until nothing is left.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        for process in processes.values():
            process.kill()
        scratch.remove()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def headrace(*arguments: str) -> list[str]:
    """The command line of `headrace` with these arguments."""
    return [sys.executable, "-m", "headrace.cli", *arguments]
