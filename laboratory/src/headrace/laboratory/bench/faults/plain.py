"""A driver of a query without a sink: it reports nothing but what it reads."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import running
from headrace.laboratory.bench.faults.limits import signal_driver
from headrace.laboratory.bench.rig import Restartable, owned, source_command, status, wait_for
from headrace.processes import OwnedProcess

_RATE = 10
_SECONDS = 3_600
_DEADLINE_S = 300.0


@contextmanager
def _run(_: SparkSession, __: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
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


PLAIN = Site(("frozen_without_sink",), _run)
