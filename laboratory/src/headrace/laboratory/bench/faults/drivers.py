"""A driver as a process, and a gateway with a configuration file: faults of drivers, of files, and of what is not connected."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.fault import Fault
from headrace.laboratory.bench.faults.gateway import Gateway, running
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import Restartable, sink_command, source_command, status, wait_for
from headrace.processes import OwnedProcess

_RATE = 10
_SECONDS = 3_600
_DEADLINE_S = 300.0
_APP = """
from headrace.pipelines import Pipeline

app = Pipeline("bench")
app.source("bench/*", decode=len).map(str, name="size").sink("bench")
"""


@contextmanager
def drivers(_: SparkSession, __: Say) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the HTTP address of the gateway, and the faults; the driver has committed a micro-batch."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        config = folder / "gateway.toml"
        config.write_text("")
        gateway = stack.enter_context(running(folder, "--config", str(config)))
        stack.enter_context(Restartable(source_command("stamped", gateway.address, rate=_RATE, seconds=_SECONDS)))
        stack.enter_context(Restartable(sink_command(gateway.address, folder / "out")))
        (folder / "app.py").write_text(_APP)
        site = _Site(gateway, _driver(gateway, folder, "first"), _driver(gateway, folder, "second"))
        stack.callback(site.end)
        site.first.start()
        wait_for("a commit", lambda: any((folder / "checkpoint" / "commits").glob("[0-9]*")), _DEADLINE_S)
        part = "pipeline bench"
        yield (
            gateway.http,
            [
                Fault(
                    "configuration_invalid",
                    frozenset({"configuration-invalid"}),
                    "file ",
                    partial(config.write_text, "[nonsense]\n"),
                    partial(config.write_text, ""),
                ),
                Fault(
                    "driver_frozen",
                    frozenset({"pipeline-silent"}),
                    part,
                    partial(site.signal, signal.SIGSTOP),
                    partial(site.signal, signal.SIGCONT),
                ),
                Fault(
                    "driver_killed",
                    frozenset({"pipeline-silent", "pipeline-away"}),
                    part,
                    site.first.kill,
                    site.restart,
                ),
                # The last one, since the first driver has ended then.
                Fault(
                    "second_driver",
                    frozenset({"second-driver"}),
                    part,
                    partial(site.start, site.second),
                    site.first.kill,
                    begins=site.is_replaced,
                    is_remembered=True,
                ),
            ],
        )


def _driver(gateway: Gateway, folder: Path, name: str) -> OwnedProcess:
    options = ["--checkpoint", str(folder / "checkpoint"), "--gateway", gateway.address]
    command = [sys.executable, "-m", "headrace.cli", "run", str(folder / "app.py"), *options]
    return OwnedProcess(name, command, folder, os.environ, ends_with_parent=True)


@dataclass
class _Site:
    gateway: Gateway
    first: OwnedProcess
    second: OwnedProcess
    _run: int = 0
    """The run before the last start."""

    def start(self, driver: OwnedProcess) -> None:
        """Starts a driver, and does not wait for it."""
        self._run = self._current()
        driver.start()

    def restart(self) -> None:
        """Starts the first driver again, and waits until its query is attached: a start of Spark takes its time."""
        self.start(self.first)
        wait_for("the driver to be attached", self.is_replaced, _DEADLINE_S)

    def is_replaced(self) -> bool:
        """Whether the gateway knows the run of the driver that was started last."""
        return self._current() > self._run

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the driver and its JVM, and not to the planner, which renews the lease."""
        first = psutil.Process(self.first.pid)
        for process in (first, *(one for one in first.children(recursive=True) if "java" in one.name())):
            process.send_signal(number)

    def end(self) -> None:
        """Kills both."""
        self.first.kill()
        self.second.kill()

    def _current(self) -> int:
        return max((pipeline.run for pipeline in status(self.gateway.address).pipelines), default=0)
