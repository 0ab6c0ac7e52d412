"""A process group: processes that all end together."""

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
    """Yields processes by name, none of them started. All are killed when the block ends, even by an error.

    If this process is killed, the block does not end. Only commands that watch for that end then, such as `supervised` ones.

    Args:
        commands: Their command lines, by name.
        folder: Their working directory, which also has their logs.
        environ: Variables to add to the environment of each.
    """
    # The scratch folder holds sockets, whose paths must be short, and what a killed JVM leaves behind.
    scratch = Scratch()
    own = {**spark_environ(scratch.path), **(environ or {})}
    processes = {name: OwnedProcess(name, command, folder, own, ends_with_parent=True) for name, command in commands.items()}
    try:
        yield processes
    finally:
        # A second Ctrl-C has no effect until all of them are gone.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        for process in processes.values():
            process.kill()
        scratch.remove()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def headrace(*arguments: str) -> list[str]:
    """Returns the command line of `headrace` with these arguments."""
    return [sys.executable, "-m", "headrace.cli", *arguments]


def supervised(*arguments: str) -> list[str]:
    """Returns the command line of `headrace` with these arguments, for an `OwnedProcess` that `ends_with_parent`."""
    return [sys.executable, "-m", "headrace.cli.supervised", *arguments]
