"""Decides when a run with Trigger.AvailableNow has read everything that existed when it started, and which streams are away."""

from collections.abc import Iterable

from headrace.contract import clock
from headrace.contract.names import covers
from headrace.contract.position import Position
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams import Stream

FIRST_STREAM_WAIT_S = 10.0
"""How long such a run waits for a first stream before it assumes that there is none, in seconds."""
ENDS_WAIT_S = 1.0
"""How long it waits for open streams to end once it has everything, in seconds."""
CONNECTOR_WAIT_S = 60.0
"""How long it waits for the connector of a stream in its checkpoint before it continues without it, in seconds."""
MAX_AWAY = 100
"""The maximum number of missing patterns and streams in a response."""


def exhausted(pipeline: Pipeline, streams: Iterable[Stream]) -> bool:
    """Returns whether everything that existed when the streams first reported their ends is planned or committed."""
    mine = [stream for stream in streams if pipeline in stream.readers]
    if not mine:
        return clock.monotonic() - pipeline.attached_at > FIRST_STREAM_WAIT_S
    for stream in mine:
        if stream.name not in pipeline.targets and (target := _target(pipeline, stream)) is not None:
            pipeline.targets[stream.name] = target
    return all(_has_read(pipeline, stream) or _is_given_up(pipeline, stream) for stream in mine)


def streams_away(pipeline: Pipeline, streams: Iterable[Stream]) -> list[str]:
    """Returns what such a run waits for: patterns without an attached stream, and unread streams without a connector."""
    mine = [stream for stream in streams if pipeline.asks_for(stream.name)]
    away = []
    for pattern in pipeline.patterns:
        if pattern in pipeline.met:
            continue
        covered = [stream for stream in mine if covers(pattern, stream.name)]
        if any(_has_read(pipeline, stream) and _is_here(pipeline, pattern, stream) for stream in covered):
            # The connector may disconnect before the run has ended.
            pipeline.met.add(pattern)
        elif not any(_is_here(pipeline, pattern, stream) for stream in covered):
            away.append(pattern)
    unread = [s.name for s in mine if s.attachment is None and s.name in pipeline.targets and not _has_read(pipeline, s)]
    return [*away, *unread][:MAX_AWAY]


def without_connector(pipeline: Pipeline, streams: Iterable[Stream]) -> list[str]:
    """Returns what may have messages that nobody can see: patterns without a stream, and streams without a connector."""
    mine = [stream for stream in streams if pipeline.asks_for(stream.name)]
    there = {s.name for s in mine if s.attachment is not None or s.ended} | pipeline.ended
    unmet = [pattern for pattern in pipeline.patterns if not any(covers(pattern, name) for name in there)]
    away = ({stream.name for stream in mine} | pipeline.committed.keys()) - there
    return [*unmet, *sorted(away)][:MAX_AWAY]


def _is_here(pipeline: Pipeline, pattern: str, stream: Stream) -> bool:
    """Returns whether a stream has a connector, or has ended and so needs none.

    For a pattern, an ended stream is not enough: the connector of the other streams may still be starting.
    """
    if stream.attachment is not None:
        return True
    is_over = stream.ended or stream.name in pipeline.ended
    return is_over and ("*" not in pattern or clock.monotonic() - pipeline.attached_at > FIRST_STREAM_WAIT_S)


def has_waited_for_ends(pipeline: Pipeline) -> bool:
    """Returns whether sources that have sent their last message have had time to end their streams."""
    now = clock.monotonic()
    if pipeline.exhausted_at is None:
        pipeline.exhausted_at = now
    return now - pipeline.exhausted_at >= ENDS_WAIT_S


def _has_read(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether the pipeline has planned or committed everything that it should read of a stream."""
    target = pipeline.targets.get(stream.name)
    return target is not None and _reached(pipeline, stream) >= target


def _is_given_up(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether the connector of a stream in the checkpoint is missing for so long that the run continues without it."""
    if stream.attachment is not None or stream.name in pipeline.targets:
        return False
    return clock.monotonic() - pipeline.attached_at > CONNECTOR_WAIT_S and stream.has_nothing_after(_reached(pipeline, stream))


def _reached(pipeline: Pipeline, stream: Stream) -> Position:
    """Returns the position up to which nothing is left to plan. A redelivering stream restarts with each session."""
    planned = pipeline.planned.get(stream.name, pipeline.position(stream.name))
    return planned if stream.replayable else max(planned, stream.start)


def _target(pipeline: Pipeline, stream: Stream) -> Position | None:
    """Returns the current end of the stream; None if its source has not reported it, or is not attached yet."""
    if stream.ended or (stream.attachment is None and stream.name in pipeline.ended):
        return stream.received
    attachment, latest = stream.attachment, stream.backlog.latest_sequence
    if attachment is None or latest is None or not attachment.opened:
        return None
    return max(stream.received, Position(stream.live_epoch, latest))
