"""Forks connectors of a process that has loaded what they import: `python -m tests.conformance.fork_server MODULE...`.

Each line of standard input is a connector to start. Lines of standard output say which process it is, and how it has ended.
"""

import importlib
import json
import os
import runpy
import signal
import sys

PROGRAM = "headrace.connectors_cli"


def main() -> None:
    for module in (f"{PROGRAM}.run", "grpc.aio", "headrace.sdk", *sys.argv[1:]):
        importlib.import_module(module)
    # The processes that wait for connectors are waited for by nobody.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        if os.fork() == 0:
            start(**json.loads(line))
            return


def start(number: int, arguments: list[str], environ: dict[str, str], output: str, log: str) -> None:
    """Forks a connector and waits for its end; returns, or exits, as the connector."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        say(number, pid=pid)
        say(number, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    os.setsid()
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        file = os.open(path, flags, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [PROGRAM, *arguments]
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)


def say(number: int, **what: int) -> None:
    """Writes a line at once, so that lines of several processes do not mix."""
    os.write(1, json.dumps({"number": number, **what}).encode() + b"\n")


if __name__ == "__main__":
    main()
