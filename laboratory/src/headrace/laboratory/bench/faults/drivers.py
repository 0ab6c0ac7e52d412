"""Drivers that are processes: faults of drivers, of a function, and of a sink that ends the application."""

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

from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import Gateway, running
from headrace.laboratory.bench.faults.limits import limit_files, signal_driver
from headrace.laboratory.bench.rig import Restartable, owned, sink_command, source_command, status, wait_for
from headrace.processes import OwnedProcess

_RATE = 10
_SECONDS = 3_600
_DEADLINE_S = 300.0
_APP = """
from pathlib import Path

from headrace.pipelines import Pipeline


def size(value):
    if Path({flag!r}).exists():
        Path({begun!r}).touch()
    while Path({flag!r}).exists():
        pass
    return str(len(value))


app = Pipeline("bench")
app.source("bench/*", decode=bytes).map(size, name="size").sink("bench")
"""


@contextmanager
def _run(_: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; the driver has committed a micro-batch."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        gateway = stack.enter_context(running(folder))
        stack.enter_context(Restartable(source_command("stamped", gateway.address, rate=_RATE, seconds=_SECONDS)))
        sink = stack.enter_context(Restartable(sink_command(gateway.address, folder / "out")))
        (folder / "app.py").write_text(_APP.format(flag=str(folder / "endless"), begun=str(folder / "begun")))
        site = _Application(gateway, folder, sink, _driver(gateway, folder, "first"), _driver(gateway, folder, "second"))
        stack.callback(site.end)
        site.first.start()
        wait_for("a commit", lambda: any((folder / "checkpoint" / "commits").glob("[0-9]*")), _DEADLINE_S)
        yield gateway.url, [fault for fault in _faults(site) if fault.name in names]


def _faults(site: "_Application") -> list[Fault]:
    part, flag = "pipeline bench", site.folder / "endless"
    return [
        Fault(
            "driver_frozen",
            frozenset({"pipeline-silent"}),
            part,
            partial(site.signal, signal.SIGSTOP),
            partial(site.signal, signal.SIGCONT),
        ),
        Fault("driver_killed", frozenset({"pipeline-silent", "pipeline-away"}), part, site.first.kill, site.restart),
        Fault(
            "endless_function",
            frozenset({"batch-stuck"}),
            part,
            flag.touch,
            flag.unlink,
            "size",
            begins=(site.folder / "begun").exists,
        ),
        # The part is the application, whose remedy would else be to correct it.
        Fault(
            "sink_ends_application",
            frozenset({"sink-fails"}),
            part,
            partial(limit_files, 0, site.sink),
            site.repair_sink,
            root="sink bench",
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
    ]


DRIVERS = Site(("driver_frozen", "driver_killed", "endless_function", "sink_ends_application", "second_driver"), _run)


def _driver(gateway: Gateway, folder: Path, name: str) -> OwnedProcess:
    options = ["--checkpoint", str(folder / "checkpoint"), "--gateway", gateway.address]
    command = [sys.executable, "-m", "headrace.cli", "run", str(folder / "app.py"), *options]
    return OwnedProcess(name, command, folder, os.environ, ends_with_parent=True)


@dataclass
class _Application:
    gateway: Gateway
    folder: Path
    sink: Restartable
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

    def repair_sink(self) -> None:
        """Has the sink write again, and starts the driver again, which the sink has ended."""
        limit_files(psutil.RLIM_INFINITY, self.sink)
        self.first.kill()
        self.restart()

    def is_replaced(self) -> bool:
        """Whether the gateway knows the run of the driver that was started last."""
        return self._current() > self._run

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the driver and its JVM, and not to the planner, which renews the lease."""
        signal_driver(number, self.first)

    def end(self) -> None:
        """Kills both."""
        self.first.kill()
        self.second.kill()

    def _current(self) -> int:
        return max((pipeline.run for pipeline in status(self.gateway.address).pipelines), default=0)


@contextmanager
def _run_without_sink(_: SparkSession, __: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the fault; the query has committed a micro-batch."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        gateway = stack.enter_context(running(folder))
        stack.enter_context(Restartable(source_command("stamped", gateway.address, rate=_RATE, seconds=_SECONDS)))
        command = [sys.executable, "-m", "headrace.laboratory.bench.driver", name, gateway.address, "noop"]
        driver = stack.enter_context(owned(OwnedProcess("driver", command, folder, os.environ, ends_with_parent=True)))

        def has_acknowledged() -> bool:
            return any(stream.acknowledged_messages for stream in status(gateway.address).streams)

        wait_for("an acknowledgement", has_acknowledged, _DEADLINE_S)
        fault = Fault(
            "frozen_without_sink",
            frozenset({"pipeline-silent"}),
            "pipeline ",
            partial(signal_driver, signal.SIGSTOP, driver),
            partial(signal_driver, signal.SIGCONT, driver),
        )
        yield gateway.url, [fault]


WITHOUT_SINK = Site(("frozen_without_sink",), _run_without_sink)
"""A driver of a query without a sink: it reports nothing but what it reads."""
