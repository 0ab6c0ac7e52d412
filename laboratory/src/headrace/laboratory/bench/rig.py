"""The processes of a benchmark: a gateway, a connector, and the Spark session of this process."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
from pyspark.sql.streaming.query import StreamingQuery

from headrace.processes import OwnedProcess
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

START_S = 30.0
_LISTENS_S = 120.0
STOP_S = 15.0
_LOOKS_EVERY_S = 1.0
_STATUS_S = 30.0
SOURCES = "headrace.laboratory.bench.sources"
KEYED_SOURCES = "headrace.laboratory.bench.pipelines.connectors"
"""The modules of connectors; the second one sends messages with keys."""
LINES_TO_COUNTS = """
[gateway]
listen = "{listen}"
http_listen = "{http}"

[connectors.lines]
connector = "file"
path = "in/*.txt"
source = "lines"
format = "lines"

[connectors.counts]
connector = "file-sink"
path = "out"
sink = "counts"
"""
"""The beginning of a deployment's file: a gateway at `listen` and `http`, a source of files `lines`, a sink of files `counts`."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway in a separate process."""

    address: str
    process: psutil.Process
    admin: admin_pb2_grpc.AdminServiceStub
    """On a connection of its own: sessions by the thousand that begin at once leave no room for new ones of strangers."""

    def status(self) -> admin_pb2.GetStatusResponse:
        """Returns its status."""
        return self.admin.GetStatus(admin_pb2.GetStatusRequest(), timeout=_STATUS_S)

    def cpu_s(self) -> float:
        """Returns the processor time that it has used, in seconds."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss_mb(self) -> float:
        """Returns its resident memory, in MB of 10^6 bytes."""
        return float(self.process.memory_info().rss) / 1e6


def status(address: str, ca: Path | None = None) -> admin_pb2.GetStatusResponse:
    """Returns the status of the gateway at an address, which serves TLS if there is an authority to trust."""
    plain, secure = grpc.insecure_channel, grpc.secure_channel
    with plain(address) if ca is None else secure(address, grpc.ssl_channel_credentials(ca.read_bytes())) as channel:
        return admin_pb2_grpc.AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=_STATUS_S)


GATEWAY = ("headrace.cli", "gateway", "--log-level", "error")
"""The module of a gateway, with its arguments."""


_wrapper: ContextVar[tuple[str, ...]] = ContextVar("wrapper", default=())


@contextmanager
def wrapped(*arguments: str) -> Iterator[None]:
    """Has Python run all processes that are started in the block by a module: `-m MODULE`, before their own arguments."""
    before = _wrapper.set(arguments)
    try:
        yield
    finally:
        _wrapper.reset(before)


def python(*arguments: str) -> list[str]:
    """Returns the command with which Python runs these arguments, by the module that `wrapped` names."""
    return [sys.executable, *_wrapper.get(), *arguments]


@contextmanager
def gateway(*options: str, module: Sequence[str] = GATEWAY) -> Iterator[RunningGateway]:
    """Runs a gateway on a free port, with its default limits unless the options say otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = python("-m", *module, "--listen", "127.0.0.1:0")
        process = subprocess.Popen([*command, "--ready-file", str(ready), *options])
        try:
            wait_for("the gateway to listen", lambda: ready.exists() and ready.read_text().strip() != "", _LISTENS_S)
            address = ready.read_text().strip()
            with grpc.insecure_channel(address) as channel:
                running = RunningGateway(address, psutil.Process(process.pid), admin_pb2_grpc.AdminServiceStub(channel))
                running.status()
                yield running
        finally:
            process.terminate()
            process.wait(STOP_S)


def end(process: "subprocess.Popen[Any]") -> None:
    """Has a process terminate, and kills it if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def sink_command(address: str, folder: Path, form: str = "lines") -> list[str]:
    """Returns the command of the bundled two-phase file sink, named `bench`; by default, it writes lines."""
    options = ["--path", str(folder), "--sink", "bench", "--format", form, "--gateway", address]
    return ["-m", "headrace.cli", "connector", "run", "file-sink", *options]


def source_command(kind: str, address: str, *, module: str = SOURCES, **options: Any) -> list[str]:
    """Returns the command of one of the connectors in `sources`, or in another module."""
    arguments = [part for name, value in options.items() for part in _flag(name, value)]
    return ["-m", module, kind, "--gateway", address, *arguments]


class Restartable:
    """A process that can be killed, with its children, and restarted."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """Takes the arguments of Python, and its environment, by default the environment of this process. Starts nothing."""
        self.arguments = tuple(arguments)
        self._environ = environ

    def kill_and_restart(self) -> None:
        """Kills it, and restarts it immediately."""
        self.kill()
        self.start()

    def __enter__(self) -> "Restartable":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.kill()

    def start(self) -> None:
        """Starts it, or restarts it after it has ended."""
        # Its output would be mixed with the figures.
        self.process = subprocess.Popen(
            python(*self.arguments), env=self._environ, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def kill(self) -> None:
        """Kills it with its children, and waits until it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def owned(process: OwnedProcess) -> Iterator[OwnedProcess]:
    """Starts a process, and kills it when the block ends."""
    process.start()
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def connector(address: str, kind: str, **options: Any) -> Iterator["RunningConnector"]:
    """Runs one of the connectors of `source_command`, and kills it if it has not ended when the block ends."""
    process = subprocess.Popen(python(*source_command(kind, address, **options)), stdout=subprocess.PIPE)
    try:
        yield RunningConnector(process)
    finally:
        process.kill()
        process.wait(STOP_S)


def _flag(name: str, value: Any) -> list[str]:
    if value is False:
        return []
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


@dataclass(frozen=True, slots=True)
class RunningConnector:
    """A connector in a separate process."""

    process: "subprocess.Popen[bytes]"

    def result(self, timeout_s: float, query: StreamingQuery | None = None) -> dict[str, Any]:
        """Waits until it has ended, and returns its measurements.

        Args:
            timeout_s: How long to wait, in seconds.
            query: The query that reads its messages. If it fails, its exception is raised, since the connector would wait.

        Raises:
            RuntimeError: The connector failed.
        """
        output = self._output(timeout_s, query)
        if self.process.returncode:
            raise RuntimeError(f"the connector ended with {self.process.returncode}; its errors are above")
        result: dict[str, Any] = json.loads(output)
        return result

    def _output(self, timeout_s: float, query: StreamingQuery | None) -> bytes:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.process.communicate(timeout=_LOOKS_EVERY_S)[0]
            except subprocess.TimeoutExpired:
                if query is not None and (failure := query.exception()):
                    raise failure from None
                if time.monotonic() > deadline:
                    raise


def acknowledged_rate(moments: Sequence[tuple[float, int]]) -> float:
    """Returns the messages per second after the first quarter, from the times and numbers of acknowledgements.

    Raises:
        StatisticsError: There are fewer than two.
    """
    if len(moments) < 2:
        raise statistics.StatisticsError(f"{len(moments)} acknowledgements have no rate")
    total = moments[-1][1]
    begin = next(moment for moment in moments if moment[1] >= total // 4)
    if begin is moments[-1]:
        begin = moments[0]
    return (total - begin[1]) / (moments[-1][0] - begin[0])


def wait_for(what: str, condition: Callable[[], bool], timeout_s: float) -> None:
    """Waits for a condition.

    Raises:
        TimeoutError: It did not become true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(0.05)
