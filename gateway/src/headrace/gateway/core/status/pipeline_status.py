"""The status of a pipeline."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

from headrace.contract.names import covers, source_of
from headrace.gateway.core.batches import MAX_NAMED, missing
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.status import condition
from headrace.gateway.core.status.stream_status import ms_since, pause_status, pipeline_state
from headrace.gateway.core.streams import PartKind
from headrace.protocol.v1 import admin_pb2 as pb


@dataclass(slots=True)
class Lag:
    """The micro-batches that a pipeline has yet to commit."""

    messages: int = 0
    bytes: int = 0
    since: float | None = None
    """Since when it has made no progress in one of the streams, on the monotonic clock; None if it has nothing to commit."""


def pipeline_status(pipeline: Pipeline, gateway: Gateway, lag: Lag, by_source: Mapping[str, list[str]]) -> pb.PipelineStatus:
    """Returns the status of a pipeline, with the streams by source and what it has yet to read."""
    pause = gateway.pauses.of(PartKind.PIPELINE, pipeline.name)
    voted_s = pipeline.timeline.voted_s
    return pb.PipelineStatus(
        pipeline=pipeline.name,
        run=pipeline.run.number,
        attached=pipeline.attached,
        patterns=sorted({*pipeline.patterns, *pipeline.declared}),
        idle_ms=ms_since(pipeline.called_at) if pipeline.run.number else 0,
        lag_messages=lag.messages,
        lag_bytes=lag.bytes,
        state=pipeline_state(pipeline),
        away_ms=None if pipeline.away_since is None else ms_since(pipeline.away_since),
        planned_batches=pipeline.planned_batches,
        batch_ms=ms_since(pipeline.planned_at) if pipeline.planned else None,
        metrics=pipeline.metrics,
        voted_ms=None if voted_s is None else max(0, int(voted_s * 1000)),
        fault=None if pipeline.fault is None else pipeline.fault.status(),
        paused=pause_status(pause),
        silent_ms=_silent_ms(pipeline, gateway),
        planner_silent_ms=None if not pipeline.attached or pipeline.planner is None else pipeline.planner.silent_ms,
        rival=gateway.drivers.rival(pipeline.name),
        error=pipeline.error.status() if pipeline.error else None,
        condition=condition.of_pipeline(pipeline, lag=lag.messages, since=lag.since, paused=pause is not None),
        unmatched=_unmatched(pipeline, by_source),
        awaited_tables=_awaited_tables(pipeline, gateway),
    )


def _unmatched(pipeline: Pipeline, by_source: Mapping[str, list[str]]) -> list[pb.UnmatchedPattern]:
    """Returns the patterns of an attached pipeline for which it has no stream, and none has ended."""
    if not pipeline.attached:
        return []
    found = []
    for pattern in (each for each in pipeline.patterns if each not in pipeline.over):
        source = source_of(pattern)
        streams = chain.from_iterable(by_source.values()) if "*" in source else by_source.get(source, ())
        if not any(covers(pattern, name) for name in streams):
            found.append(pb.UnmatchedPattern(pattern=pattern, age_ms=ms_since(pipeline.attached_at)))
    return found


def _awaited_tables(pipeline: Pipeline, gateway: Gateway) -> Iterator[pb.AwaitedTable]:
    """Yields the tables that an attached pipeline reads before other streams, and what they wait for."""
    for table in pipeline.bootstraps if pipeline.attached else ():
        found = list(islice(missing(pipeline, table, gateway.streams), MAX_NAMED))
        yield pb.AwaitedTable(
            table=table.table,
            held=table.held,
            waits_for=[each.text for each in found],
            is_blocked=any(each.is_blocked for each in found),
            age_ms=ms_since(pipeline.attached_at),
        )


def _silent_ms(pipeline: Pipeline, gateway: Gateway) -> int | None:
    """Returns for how long the driver of an attached pipeline has not reported, in milliseconds; None if it does or never did."""
    if not pipeline.attached:
        return None
    logs = [log for log in gateway.commit_logs.values() if pipeline.name in log.readers and not (log.closed or log.stopped)]
    drivers = [pipeline.driver, *(gateway.drivers.by_query.get(log.pipeline) for log in logs)]
    silent = [driver.silent_ms for driver in drivers if driver is not None]
    # An application that has replaced another query in its checkpoint reports for both.
    return min((ms for ms in silent if ms is not None), default=None) if None not in silent else None
