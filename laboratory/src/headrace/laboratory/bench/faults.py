"""How long it takes until `/readyz` names the first cause of a fault, and until it is clear again after the repair."""

import json
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import psutil
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, sink_query
from headrace.laboratory.bench.rig import Restartable, RunningGateway, gateway, sink_command, source_command, wait_for
from headrace.processes import free_address
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

TARGET_S = 10.0
_RATE = 10
_SECONDS = 3_600
_DEADLINE_S = 120.0
_TIMEOUT_S = 10.0
_RAISES = "cast(raise_error('no price') as binary) as value"


@dataclass
class _Scene:
    """A source, a query and a sink around a gateway, all of them well at first."""

    spark: SparkSession
    gateway: RunningGateway
    http: str
    folder: Path
    source: Restartable
    sink: Restartable
    query: StreamingQuery | None = None

    def problems(self) -> dict[str, str]:
        """Returns the kind of each problem at `/readyz`, by part."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=_TIMEOUT_S) as response:
                document = json.load(response)
        except urllib.error.HTTPError as degraded:
            document = json.load(degraded)
        return {problem["part"]: problem["kind"] for problem in document["problems"]}

    def start_query(self, column: str = "value") -> None:
        """Starts the query in the checkpoint of the one before, which it stops."""
        self.stop_query()
        frame = headrace(self.spark, self.gateway.address).selectExpr(column)
        self.query = sink_query(frame, self.gateway.address, self.folder)

    def stop_query(self) -> None:
        """Stops the query, if there is one."""
        if self.query is not None:
            self.query.stop()
            with suppress(StreamingQueryException):
                self.query.awaitTermination()


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault, as which kinds of problems it may be named, and how it is made and repaired."""

    name: str
    kinds: frozenset[str]
    inject: Callable[[_Scene], None]
    repair: Callable[[_Scene], None]


def readyz_names_cause(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The longest time until a fault is named at `/readyz`, and until it is clear after the repair, of several faults."""
    named, cleared = list[float](), list[float]()
    with _scene(spark) as scene:
        for fault in _FAULTS[:1] if quick else _FAULTS:
            wait_for(f"all to be well before: {fault.name}", lambda: not scene.problems(), _DEADLINE_S)
            named.append(_until(scene, fault.inject, fault.kinds, f"{fault.name} to be named"))
            cleared.append(_until(scene, fault.repair, frozenset(), f"{fault.name} to be clear"))
            say(f"  {fault.name}: named after {named[-1]:.1f} s, clear after {cleared[-1]:.1f} s")
            yield Figure(f"names_{fault.name}_s", named[-1], "s")
            yield Figure(f"clears_{fault.name}_s", cleared[-1], "s")
    for name, worst in (("readyz_names_cause_s", max(named)), ("readyz_clears_s", max(cleared))):
        yield Figure(name, worst, "s", None, f"<= {TARGET_S:.0f}", worst <= TARGET_S)


def _until(scene: _Scene, change: Callable[[_Scene], None], kinds: frozenset[str], what: str) -> float:
    """Changes something; returns after how many seconds a problem of these kinds is listed, or no problem if there are none."""

    def holds() -> bool:
        found = set(scene.problems().values())
        return bool(found & kinds) if kinds else not found

    begun = time.monotonic()
    change(scene)
    wait_for(what, holds, _DEADLINE_S)
    return time.monotonic() - begun


@contextmanager
def _scene(spark: SparkSession) -> Iterator[_Scene]:
    http = free_address()
    with tempfile.TemporaryDirectory() as name, gateway("--http-listen", http) as running:
        folder = Path(name)
        source = Restartable(source_command("stamped", running.address, rate=_RATE, seconds=_SECONDS))
        sink = Restartable(sink_command(running.address, folder / "out"))
        with source, sink:
            scene = _Scene(spark, running, http, folder, source, sink)
            try:
                scene.start_query()
                wait_for("the sink to have committed", lambda: _has_committed(running), _DEADLINE_S)
                yield scene
            finally:
                scene.stop_query()


def _has_committed(running: RunningGateway) -> bool:
    return any(sink.committed_transactions for sink in running.status().sinks)


def _processes(of: Restartable) -> list[psutil.Process]:
    first = psutil.Process(of.process.pid)
    return [first, *first.children(recursive=True)]


def _signal(number: signal.Signals, to: Restartable) -> None:
    for process in _processes(to):
        process.send_signal(number)


def _limit_files(most: int, scene: _Scene) -> None:
    """Sets how large the files may be that the sink writes, in bytes."""
    for process in _processes(scene.sink):
        process.rlimit(psutil.RLIMIT_FSIZE, (most, psutil.RLIM_INFINITY))


def _free_disk(scene: _Scene) -> None:
    _limit_files(psutil.RLIM_INFINITY, scene)
    scene.start_query()


def _pause(paused: bool, scene: _Scene) -> None:
    """Pauses the pipeline, or resumes it."""
    kind, name = admin_pb2.PART_KIND_PIPELINE, scene.gateway.status().pipelines[0].pipeline
    with grpc.insecure_channel(scene.gateway.address) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        if paused:
            admin.Pause(admin_pb2.PauseRequest(kind=kind, name=name), timeout=_TIMEOUT_S)
        else:
            admin.Resume(admin_pb2.ResumeRequest(kind=kind, name=name), timeout=_TIMEOUT_S)


_FAULTS = (
    _Fault("paused_pipeline", frozenset({"paused"}), partial(_pause, True), partial(_pause, False)),
    # It sends nothing and reads nothing, as behind a network that is cut.
    _Fault(
        "connector_cut_off",
        frozenset({"connector-silent"}),
        lambda scene: _signal(signal.SIGSTOP, scene.source),
        lambda scene: _signal(signal.SIGCONT, scene.source),
    ),
    _Fault(
        "sink_hanging",
        frozenset({"sink-slow", "connector-silent"}),
        lambda scene: _signal(signal.SIGSTOP, scene.sink),
        lambda scene: _signal(signal.SIGCONT, scene.sink),
    ),
    _Fault("disk_full_at_the_sink", frozenset({"sink-fails"}), partial(_limit_files, 0), _free_disk),
    _Fault(
        "function_raises",
        frozenset({"pipeline-fails"}),
        lambda scene: scene.start_query(_RAISES),
        lambda scene: scene.start_query(),
    ),
)
"""The faults; a quick run has the first one only."""
