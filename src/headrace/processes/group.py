"""A process group: processes that all end together, even if the process that has started them is killed."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.logs.output import VERBOSE_VARIABLE
from headrace.processes.owned import OwnedProcess
from headrace.processes.scratch import Scratch

_ENDS_WITHIN_S = 60.0


@contextmanager
def process_group(
    commands: Mapping[str, list[str]], folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[dict[str, OwnedProcess]]:
    """Yields processes by name, none of them started. All are killed when the block ends, even by an error.

    If this process is killed, the block does not end. Only commands of `under_supervisor` end then.

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


def under_supervisor(*arguments: str) -> list[str]:
    """Returns the command line of `headrace` with these arguments, for an `OwnedProcess` that `ends_with_parent`."""
    return [sys.executable, "-m", "headrace.cli.under_supervisor", *arguments]


def spark_environ(scratch: Path) -> dict[str, str]:
    """Returns the environment of a Spark driver: its JVM starts fast, and temporary files go to `scratch`.

    Variables of Headrace are not inherited, so that none names another gateway.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_") or name == VERBOSE_VARIABLE
    }
    # In a run this short, the JVM's optimising compiler and parallel collector cost more time than they save.
    java = f"{inherited.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    own = {
        "JDK_JAVA_OPTIONS": f"{java.strip()} -Djava.io.tmpdir={scratch}",
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "no_grpc_proxy": "127.0.0.1",
    }
    return {**inherited, **own}


def end_with_supervisor() -> int:
    """Sends SIGTERM to this process once its supervisor has ended, and ends it by force a minute later.

    Standard input must be a pipe whose other end only the supervisor holds, as of an `OwnedProcess` that `ends_with_parent`. From
    now on, it is empty: who reads it, such as an application that is imported, is at its end, and waits for nobody.

    Returns:
        The descriptor of the pipe.
    """
    pipe = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    threading.Thread(target=_watch, args=(pipe,), name="supervisor watchdog", daemon=True).start()
    return pipe


def _watch(pipe: int) -> None:
    while os.read(pipe, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)
