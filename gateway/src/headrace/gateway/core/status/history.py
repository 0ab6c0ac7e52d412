"""The last hour of a gateway: rates, lags, latencies and sizes of its parts, every five seconds."""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from headrace.contract import clock
from headrace.gateway.core.base.turns import in_slices
from headrace.gateway.core.pipelines import Batch, Pipeline, Stage
from headrace.gateway.core.sinks import Sink
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.status.series import ABSENT, Rings, Series
from headrace.gateway.core.streams import Stream, Totals

GatewayField: TypeAlias = Literal[
    "received_messages_per_s",
    "received_bytes_per_s",
    "acknowledged_messages_per_s",
    "lag_messages",
    "oldest_unacknowledged_ms",
    "buffered_bytes",
    "faults",
]
StreamField: TypeAlias = Literal[
    "received_messages_per_s",
    "received_bytes_per_s",
    "acknowledged_messages_per_s",
    "lag_messages",
    "oldest_unacknowledged_ms",
    "commit_latency_ms",
    "buffered_bytes",
]
PipelineField: TypeAlias = Literal[
    "batches_per_s",
    "lag_messages",
    "batch_duration_ms",
    "batch_running_ms",
    "commit_latency_ms",
    "acknowledgement_latency_ms",
]
SinkField: TypeAlias = Literal[
    "staged_messages_per_s",
    "committed_transactions_per_s",
    "failures_per_s",
    "outstanding_ms",
    "pending_transactions",
]

FIELDS: Mapping[str, tuple[str, ...]] = {
    "gateway": get_args(GatewayField),
    "stream": get_args(StreamField),
    "pipeline": get_args(PipelineField),
    "sink": get_args(SinkField),
}
"""The fields of each kind of part. Their names end with their units; scripts/generate_console_words.py makes types from them."""
INTERVAL_S = 5.0
"""How far apart the moments are."""
HISTORY_S = 3_600
"""How far back they go."""
MAX_BYTES = 32 * 2**20
"""How much memory the values take at most: enough for 1,000 streams with some hundreds of pipelines and sinks."""
_MAX_BATCHES = 100
"""How many of the last micro-batches of a pipeline are looked at."""


class History:
    """The values of the parts of a gateway at the last moments."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._rings = Rings(math.ceil(HISTORY_S / INTERVAL_S), MAX_BYTES)
        self._counts: dict[tuple[str, str], tuple[float, ...]] = {}
        """What each part had counted at the last moment."""
        self._taken_at = self._before = clock.monotonic()
        """When the last moment was, and the one before it, on the monotonic clock."""

    @property
    def size_bytes(self) -> int:
        """How much memory the values take."""
        return self._rings.size_bytes

    async def take(self, faults: int = 0) -> None:
        """Takes the values of this moment, of many parts in slices.

        Args:
            faults: How many faults there are.
        """
        self._before, self._taken_at = self._taken_at, clock.monotonic()
        counted: dict[tuple[str, str], tuple[float, ...]] = {}
        await in_slices(self._fill(counted, faults))
        self._counts = counted
        self._rings.complete()

    def read(self, kind: str, name: str, seconds: float) -> Series | None:
        """Returns the values of a part in the last seconds; None if there are none.

        Args:
            kind: A kind in `FIELDS`.
            name: Its name; empty for the gateway.
            seconds: How far back, in seconds.
        """
        return self._rings.read(kind, name, seconds)

    def _fill(self, counted: dict[tuple[str, str], tuple[float, ...]], faults: int) -> Iterator[int]:
        gateway, totals = self._gateway, Totals()
        buffered, lag, oldest_ms = 0, 0, 0.0
        lags: dict[Pipeline, int] = {}
        for stream in list(gateway.streams.values()):
            values = self._stream(counted, stream)
            totals.add(stream)
            buffered += stream.held_bytes
            lag += stream.unacknowledged_messages + stream.backlog.messages
            if stream.readers:
                oldest_ms = max(oldest_ms, _oldest_ms(stream))
            for pipeline in stream.readers:
                lags[pipeline] = lags.get(pipeline, 0) + stream.lag_after(pipeline.position(stream.name))[0]
            self._rings.put("stream", stream.name, values)
            yield 1 + len(stream.readers)
        for pipeline in list(gateway.pipelines.values()):
            self._rings.put("pipeline", pipeline.name, self._pipeline(counted, pipeline, lags.get(pipeline, 0)))
            yield 2
        for sink in list(gateway.sinks.values()):
            self._rings.put("sink", sink.name, self._sink(counted, sink))
            yield 1
        totals = gateway.forgotten.plus(totals)
        received, size, acknowledged = self._rates(
            counted, ("gateway", ""), totals.received_messages, totals.received_bytes, totals.acknowledged_messages
        )
        whole: dict[GatewayField, float] = {
            "received_messages_per_s": received,
            "received_bytes_per_s": size,
            "acknowledged_messages_per_s": acknowledged,
            "lag_messages": float(lag),
            "oldest_unacknowledged_ms": oldest_ms,
            "buffered_bytes": float(buffered),
            "faults": float(faults),
        }
        self._rings.put("gateway", "", whole)

    def _stream(self, counted: dict[tuple[str, str], tuple[float, ...]], stream: Stream) -> Mapping[StreamField, float]:
        received, size, acknowledged = self._rates(
            counted, ("stream", stream.name), stream.received_messages, stream.received_bytes, stream.tally.total
        )
        return {
            "received_messages_per_s": received,
            "received_bytes_per_s": size,
            "acknowledged_messages_per_s": acknowledged,
            "lag_messages": float(stream.unacknowledged_messages + stream.backlog.messages),
            "oldest_unacknowledged_ms": _oldest_ms(stream),
            "commit_latency_ms": _ms(stream.commit_latency.take()),
            "buffered_bytes": float(stream.held_bytes),
        }

    def _pipeline(
        self, counted: dict[tuple[str, str], tuple[float, ...]], pipeline: Pipeline, lag: int
    ) -> Mapping[PipelineField, float]:
        (planned,) = self._rates(counted, ("pipeline", pipeline.name), pipeline.planned_batches)
        duration, acknowledged = self._batches(pipeline)
        running_ms = (clock.monotonic() - pipeline.planned_at) * 1000 if pipeline.planned else ABSENT
        return {
            "batches_per_s": planned,
            "lag_messages": float(lag),
            "batch_duration_ms": duration,
            "batch_running_ms": running_ms,
            "commit_latency_ms": _ms(pipeline.commit_latency.take()),
            "acknowledgement_latency_ms": acknowledged,
        }

    def _sink(self, counted: dict[tuple[str, str], tuple[float, ...]], sink: Sink) -> Mapping[SinkField, float]:
        staged, transactions, failed = self._rates(
            counted, ("sink", sink.name), sink.staged_messages, sink.outcomes["committed"], sink.outcomes["failed"]
        )
        waits = [found[0] for session in sink.sessions.values() if (found := session.outstanding()) is not None]
        pending = {transaction for holdings in sink.holders() for transaction in holdings.transactions()}
        return {
            "staged_messages_per_s": staged,
            "committed_transactions_per_s": transactions,
            "failures_per_s": failed,
            "outstanding_ms": (clock.monotonic() - min(waits)) * 1000 if waits else 0.0,
            "pending_transactions": float(len(pending)),
        }

    def _rates(
        self, counted: dict[tuple[str, str], tuple[float, ...]], key: tuple[str, str], *counts: float
    ) -> tuple[float, ...]:
        """Returns how fast counts grow, in a second; NaN without an earlier moment, or after a restart of the count."""
        counted[key] = counts
        before, seconds = self._counts.get(key), self._taken_at - self._before
        if before is None or seconds <= 0:
            return (ABSENT,) * len(counts)
        return tuple((now - then) / seconds if now >= then else ABSENT for now, then in zip(counts, before, strict=True))

    def _batches(self, pipeline: Pipeline) -> tuple[float, float]:
        """Returns the longest durations since the last moment, in milliseconds; NaN if there were none.

        The first is the time of micro-batches until their commit, the second the time of commits until their acknowledgement.
        """
        since = clock.now() - (self._taken_at - self._before)
        duration = acknowledged = ABSENT
        for batch in pipeline.timeline.batches(_MAX_BATCHES):
            committed_at, acknowledged_at = batch.time(Stage.COMMITTED), batch.time(Stage.ACKNOWLEDGED)
            if committed_at is not None and committed_at >= since:
                duration = _larger(duration, _between_ms(batch, Stage.PLANNED, committed_at))
            if acknowledged_at is not None and acknowledged_at >= since:
                acknowledged = _larger(acknowledged, _between_ms(batch, Stage.COMMITTED, acknowledged_at))
            elif committed_at is not None and acknowledged_at is not None:
                # Those before it are older.
                break
        return duration, acknowledged


def _between_ms(batch: Batch, stage: Stage, until: float) -> float:
    since = batch.time(stage)
    return ABSENT if since is None or batch.rebuilt else (until - since) * 1000


def _larger(one: float, other: float) -> float:
    return one if math.isnan(other) else other if math.isnan(one) else max(one, other)


def _oldest_ms(stream: Stream) -> float:
    return (clock.monotonic() - stream.frames[0].received_at) * 1000 if stream.frames else 0.0


def _ms(seconds: float | None) -> float:
    return ABSENT if seconds is None else seconds * 1000
