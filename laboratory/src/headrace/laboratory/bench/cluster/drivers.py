"""The drivers of the benchmark, each a separate process: one that stays, and one that is submitted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headrace.laboratory.bench.pipelines import driver as program
from headrace.laboratory.cluster import SparkCluster
from headrace.processes import OwnedProcess

LOCAL = "local[2]"
"""The baseline of two workers with one core each."""
_STOPS_WITHIN_S = 60.0


class Driver:
    """A driver that runs Market Spread on request, in one Spark session."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._asks: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    @contextmanager
    def running(self, address: str, folder: Path) -> Iterator[None]:
        """Runs Market Spread between a gateway's streams and sinks until the block ends, with its checkpoint in a folder.

        Raises:
            RuntimeError: The driver has ended.
        """
        self._say(json.dumps({"gateway": address, "folder": str(folder)}))
        while (answer := self._answers.readline()) != f"{program.RUNS}\n":
            if not answer:
                raise RuntimeError("the driver has ended; its errors are above")
        yield
        self._say("")

    def _say(self, line: str) -> None:
        self._asks.write(f"{line}\n")
        self._asks.flush()


@contextmanager
def driver(master: str, environ: Mapping[str, str]) -> Iterator[Driver]:
    """Yields a driver that runs until the block ends."""
    command = [sys.executable, "-m", program.__name__, master]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ, start_new_session=True)
    try:
        yield Driver(process)
    finally:
        # Normally, it ends when its input does.
        with suppress(subprocess.TimeoutExpired, BrokenPipeError):
            process.communicate(timeout=_STOPS_WITHIN_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def submitted(cluster: SparkCluster, address: str, folder: Path, master: str | None = None) -> OwnedProcess:
    """Returns a driver, not started, that spark-submit runs: it passes stamped messages through a state.

    Args:
        cluster: The cluster.
        address: The gateway's address.
        folder: The folder of its checkpoint and its log.
        master: The master to submit it to; None for the cluster.
    """
    words = [*cluster.submit, *(("--master", master) if master else ()), str(program.__file__), address, str(folder)]
    return OwnedProcess("driver", words, folder, {**cluster.environ, "PYSPARK_PYTHON": sys.executable})
