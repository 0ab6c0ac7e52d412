"""A query of Spark between a source and a file sink: faults of the query, of its connectors, and of the gateway."""

import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.faults.disk import fill, freeze, is_missing, own_disk, thaw
from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import Gateway, running
from headrace.laboratory.bench.faults.limits import (
    leave_few_descriptors,
    limit_descriptors,
    limit_files,
    return_descriptors,
    send,
)
from headrace.laboratory.bench.queries import headrace, sink_query, stop
from headrace.laboratory.bench.rig import Restartable, sink_command, source_command, status, wait_for
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

_RATE = 10
_SECONDS = 3_600
_DEADLINE_S = 120.0
_TIMEOUT_S = 10.0
_CLOCK_WRONG_BY_S = 7_200
_TOO_FEW = 4
"""Descriptors that a process has in use as soon as it runs, so that it can have no further one."""
_VISITORS = 200
"""Connections that take descriptors of the gateway, and send nothing."""
_FEW = 12
"""Descriptors that are left to it: less than a tenth, and enough to be asked how it is."""
_RAISES = "cast(raise_error('no price') as binary) as value"


@contextmanager
def _run(spark: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; all is well, and the sink has committed."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        commits = folder / "checkpoint" / "commits"
        if names & {*_OF_DISK}:
            stack.enter_context(own_disk(commits))
        gateway = stack.enter_context(running(folder))
        source = stack.enter_context(Restartable(source_command("stamped", gateway.address, rate=_RATE, seconds=_SECONDS)))
        sink = stack.enter_context(Restartable(sink_command(gateway.address, folder / "out")))
        site = _Query(spark, gateway, folder)
        stack.callback(site.stop_query)
        site.start_query()
        wait_for("the sink to have committed", site.has_committed, _DEADLINE_S)
        yield gateway.url, [fault for fault in (*_faults(site, source, sink), *_of_disk(site, commits)) if fault.name in names]


def _lacks() -> dict[str, str]:
    lacks = is_missing()
    return dict.fromkeys(_OF_DISK, f"{lacks}, for a file system of the commit log alone") if lacks else {}


def _faults(site: "_Query", source: Restartable, sink: Restartable) -> list[Fault]:
    gateway, pipeline = site.gateway, "pipeline "
    visitors = _Visitors(gateway)
    return [
        Fault("paused_pipeline", frozenset({"paused"}), pipeline, partial(site.pause, True), partial(site.pause, False)),
        # It sends nothing and reads nothing, as behind a network that is cut.
        Fault(
            "network_cut",
            frozenset({"connector-silent"}),
            "connector bench",
            partial(send, signal.SIGSTOP, source),
            partial(send, signal.SIGCONT, source),
        ),
        Fault(
            "sink_hanging",
            frozenset({"sink-slow", "connector-silent"}),
            "",
            partial(send, signal.SIGSTOP, sink),
            partial(send, signal.SIGCONT, sink),
        ),
        Fault(
            "disk_full_at_the_sink",
            frozenset({"sink-fails"}),
            "sink bench",
            partial(limit_files, 0, sink),
            partial(_free_disk, sink, site),
        ),
        Fault(
            "descriptors_at_the_sink",
            frozenset({"sink-fails"}),
            "sink bench",
            partial(limit_descriptors, sink, _TOO_FEW),
            partial(_free_descriptors, sink, site),
            "Too many open files",
        ),
        Fault(
            "descriptors_at_the_gateway",
            frozenset({"descriptors-exhausted"}),
            "descriptors",
            visitors.come,
            visitors.leave,
            "descriptors of the gateway are in use",
        ),
        Fault(
            "function_raises",
            frozenset({"pipeline-fails"}),
            pipeline,
            partial(site.start_query, _RAISES),
            site.start_query,
            "no price",
        ),
        Fault(
            "clock_set",
            frozenset({"clock-jumped"}),
            "gateway",
            partial(gateway.set_clock, _CLOCK_WRONG_BY_S),
            partial(gateway.set_clock, 0),
        ),
        Fault(
            "gateway_restarted",
            frozenset({"stopping"}),
            "gateway",
            partial(_stop_undrained, gateway, sink),
            partial(_let_it_drain, gateway, sink),
        ),
    ]


def _of_disk(site: "_Query", commits: Path) -> list[Fault]:
    pipeline, filler = "pipeline ", commits / "filler"

    def make_room() -> None:
        filler.unlink()
        site.start_query()

    return [
        Fault("slow_commit_log", frozenset({"commit-slow"}), pipeline, partial(freeze, commits), partial(thaw, commits)),
        # An error without the path would not tell which disk is full.
        Fault(
            "checkpoint_disk_full",
            frozenset({"pipeline-fails"}),
            pipeline,
            partial(fill, filler),
            make_room,
            str(commits.parent),
        ),
    ]


_OF_DISK = ("slow_commit_log", "checkpoint_disk_full")
QUERY = Site(
    (
        "paused_pipeline",
        "network_cut",
        "sink_hanging",
        "disk_full_at_the_sink",
        "descriptors_at_the_sink",
        "descriptors_at_the_gateway",
        "function_raises",
        "clock_set",
        "gateway_restarted",
        *_OF_DISK,
    ),
    _run,
    _lacks,
)


@dataclass
class _Query:
    """The query, and the gateway that it reads from and writes to."""

    spark: SparkSession
    gateway: Gateway
    folder: Path
    _query: StreamingQuery | None = field(default=None, init=False)

    def start_query(self, column: str = "value") -> None:
        """Starts the query in the checkpoint of the one before, which it stops."""
        self.stop_query()
        frame = headrace(self.spark, self.gateway.address).selectExpr(column)
        self._query = sink_query(frame, self.gateway.address, self.folder)

    def stop_query(self) -> None:
        """Stops the query, if there is one."""
        if self._query is not None:
            stop(self._query)

    def has_committed(self) -> bool:
        """Whether the sink has committed a transaction."""
        return any(sink.committed_transactions for sink in status(self.gateway.address).sinks)

    def pause(self, paused: bool) -> None:
        """Pauses the pipeline, or resumes it."""
        (pipeline,) = status(self.gateway.address).pipelines
        kind, name = admin_pb2.PART_KIND_PIPELINE, pipeline.pipeline
        with grpc.insecure_channel(self.gateway.address) as channel:
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            if paused:
                admin.Pause(admin_pb2.PauseRequest(kind=kind, name=name), timeout=_TIMEOUT_S)
            else:
                admin.Resume(admin_pb2.ResumeRequest(kind=kind, name=name), timeout=_TIMEOUT_S)


class _Visitors:
    """Whoever connects to a gateway and sends nothing."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._connected: list[socket.socket] = []

    def come(self) -> None:
        """Takes most descriptors of the gateway."""
        host, _, port = self._gateway.address.rpartition(":")
        self._connected += [socket.create_connection((host, int(port))) for _ in range(_VISITORS)]
        process = self._process()
        wait_for("the gateway to have accepted them", lambda: process.num_fds() > _VISITORS, _DEADLINE_S)
        leave_few_descriptors(process, _FEW)

    def leave(self) -> None:
        """Returns them."""
        for one in self._connected:
            one.close()
        self._connected.clear()
        return_descriptors(self._process())

    def _process(self) -> psutil.Process:
        return psutil.Process(self._gateway.process.process.pid)


def _free_disk(sink: Restartable, site: _Query) -> None:
    limit_files(psutil.RLIM_INFINITY, sink)
    site.start_query()


def _free_descriptors(sink: Restartable, site: _Query) -> None:
    limit_descriptors(sink, None)
    site.start_query()


def _stop_undrained(gateway: Gateway, sink: Restartable) -> None:
    """Stops the gateway, which waits for a sink that does not answer."""
    send(signal.SIGSTOP, sink)
    gateway.stop()


def _let_it_drain(gateway: Gateway, sink: Restartable) -> None:
    send(signal.SIGCONT, sink)
    gateway.start_again()
