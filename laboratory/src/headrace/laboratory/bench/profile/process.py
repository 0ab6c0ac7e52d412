"""Runs a Python program and samples it: `python -m headrace.laboratory.bench.profile.process -m MODULE ...`, or a file.

Of Spark's daemons, it samples the workers that they fork.
"""

import os
import runpy
import sys
from pathlib import Path

from headrace.laboratory.bench.profile.sampler import start

MODULE = "headrace.laboratory.bench.profile.process"
WORKER = "worker"
_ROLES = (("daemon", WORKER), ("pyspark", WORKER), ("file-sink", "sink"), ("gateway", "gateway"))
"""Words of the arguments, and what a process is in which one occurs; the first one counts."""


def role_of(arguments: list[str]) -> str:
    """Returns what a process with these arguments is."""
    words = " ".join(arguments[:6])
    if "bench.sources" in words or "pipelines.connectors" in words:
        return "connector"
    return next((role for word, role in _ROLES if word in words), WORKER)


def main() -> None:
    """Runs what the arguments name."""
    arguments = sys.argv[1:]
    if arguments[0] != "-m" and not Path(arguments[0]).is_file():
        # A line of code, such as one that asks for the version of Python.
        os.execv(sys.executable, [sys.executable, *arguments])
    role = role_of(arguments)
    if any(argument.endswith("daemon") for argument in arguments[:4]):
        os.register_at_fork(after_in_child=lambda: start(role))
    else:
        start(role)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
