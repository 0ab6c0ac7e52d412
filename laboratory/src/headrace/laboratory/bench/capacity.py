"""What a gateway needs for each session, stream and buffered byte: memory, and descriptors."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.laboratory.bench.core import is_full
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, noop, stallable
from headrace.laboratory.bench.rig import RunningGateway, connector, gateway, wait_for
from headrace.laboratory.bench.site import flowing

_START_S = 180.0
_OFFERED = 40_000_000
"""Messages that the source of the fourth gateway has, many more than fit into its buffer."""


@dataclass(frozen=True, slots=True)
class _Need:
    """The memory and the descriptors that a gateway uses."""

    rss_kb: float
    descriptors: int


def capacity(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Memory and descriptors of a gateway for each session and each stream, while a query reads all of them.

    The figures are differences of three gateways: without sessions, with many that have a stream each, and with as many that have
    twenty each. The streams send two messages a second. What is buffered comes in addition: a fourth gateway has a query that
    stands still, and its buffer fills.
    """
    # Strangers have at most 64 connections of one address, and all sessions begin at once.
    sessions, streams = (40, 5) if quick else (60, 20)
    idle = _need(spark, 0, 0)
    one = _need(spark, sessions, 1)
    several = _need(spark, sessions, streams)
    stream_kb = (several.rss_kb - one.rss_kb) / (sessions * (streams - 1))
    session_kb = (one.rss_kb - idle.rss_kb) / sessions - stream_kb
    say(f"  {idle.rss_kb / 1e3:.0f} MB without sessions, {several.rss_kb / 1e3:.0f} MB with {sessions} of {streams} streams each")
    yield Figure("gateway_memory_idle", idle.rss_kb / 1e3, "MB")
    yield Figure("memory_of_a_session", session_kb, "kB")
    yield Figure("memory_of_a_stream", stream_kb, "kB")
    yield Figure("gateway_descriptors_idle", idle.descriptors, "descriptors")
    yield Figure("descriptors_of_a_session", (several.descriptors - idle.descriptors) / sessions, "descriptors")
    buffered = _buffered(spark)
    say(f"  {buffered.bytes / 1e6:.0f} MB buffered in {buffered.rss_kb / 1e3:.0f} MB")
    yield Figure("buffered", buffered.bytes / 1e6, "MB")
    yield Figure("memory_of_a_buffered_byte", (buffered.rss_kb - idle.rss_kb) * 1e3 / buffered.bytes, "bytes")


@dataclass(frozen=True, slots=True)
class _Buffered:
    """The use of a gateway with a full buffer, and the frames in it."""

    rss_kb: float
    bytes: int


def _buffered(spark: SparkSession) -> _Buffered:
    """The use of a new gateway once its only session has filled the buffer."""
    with gateway() as running, stallable(headrace(spark, running.address)) as open_:
        open_.clear()
        with connector(running.address, "fast", messages=_OFFERED):
            wait_for("the buffer to be full", lambda: is_full(running), _START_S)
            return _Buffered(_taken(running).rss_kb, running.status().gateway.buffered_bytes)


def _need(spark: SparkSession, sessions: int, partitions: int) -> _Need:
    """The use of a new gateway once something of each stream is acknowledged."""
    with gateway() as running, noop(headrace(spark, running.address)):
        if not sessions:
            wait_for("the query to attach", lambda: any(one.attached for one in running.status().pipelines), _START_S)
            return _taken(running)
        with connector(running.address, "steady", sessions=sessions, partitions=partitions, batch=1):
            streams = sessions * partitions
            wait_for("all streams to be acknowledged", lambda: flowing(running) == streams, _START_S)
            return _taken(running)


def _taken(running: RunningGateway) -> _Need:
    return _Need(running.rss_mb() * 1e3, running.process.num_fds())
