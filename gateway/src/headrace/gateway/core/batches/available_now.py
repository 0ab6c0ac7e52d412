"""Decides when a run has read everything that existed when it started, and which streams are away.

A run with Trigger.AvailableNow ends then; for any other run, that is asked of tables that it reads before other streams.
"""

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
    note_ends(pipeline, mine)
    return all(has_read(pipeline, stream) or _is_given_up(pipeline, stream) for stream in mine)


def note_ends(pipeline: Pipeline, streams: Iterable[Stream]) -> None:
    """Notes the present ends of streams that were not known; of a redelivering one again, since it has a new session."""
    for stream in streams:
        known = pipeline.targets.get(stream.name)
        is_outdated = known is not None and not stream.replayable and known.epoch != stream.live_epoch
        if (known is None or is_outdated) and (target := _target(pipeline, stream)) is not None:
            pipeline.targets[stream.name] = target
        elif is_outdated:
            del pipeline.targets[stream.name]


def streams_away(pipeline: Pipeline, streams: Iterable[Stream]) -> list[str]:
    """Returns what such a run waits for: patterns without an attached stream, and unread streams without a connector."""
    mine = [stream for stream in streams if pipeline.asks_for(stream.name)]
    away = []
    for pattern in pipeline.patterns:
        if pattern in pipeline.met:
            continue
        covered = [stream for stream in mine if covers(pattern, stream.name)]
        if any(has_read(pipeline, stream) and _is_here(pipeline, pattern, stream) for stream in covered):
            # The connector may disconnect before the run has ended.
            pipeline.met.add(pattern)
        elif not any(_is_here(pipeline, pattern, stream) for stream in covered):
            away.append(pattern)
    unread = [s.name for s in mine if s.attachment is None and s.name in pipeline.targets and not has_read(pipeline, s)]
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


def has_read(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether the pipeline has planned or committed everything that it should read of a stream."""
    target, reached = pipeline.targets.get(stream.name), _reached(pipeline, stream)
    if target is None or reached >= target:
        return target is not None
    # Nothing may exist where the source said that nothing is beyond, such as in Kafka, whose markers have offsets.
    now = _target(pipeline, stream)
    return now is not None and reached >= now


def _is_given_up(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether the connector of a stream in the checkpoint is missing for so long that the run continues without it."""
    if stream.attachment is not None or stream.name in pipeline.targets:
        return False
    return clock.monotonic() - pipeline.attached_at > CONNECTOR_WAIT_S and stream.has_nothing_after(_reached(pipeline, stream))


def _reached(pipeline: Pipeline, stream: Stream) -> Position:
    """Returns the position up to which nothing is left to plan. A redelivering stream restarts with each session."""
    planned = pipeline.planned.get(stream.name, pipeline.position(stream.name))
    if stream.replayable or stream.must_be_rewound_for(pipeline):
        return planned
    return max(planned, stream.start)


def _target(pipeline: Pipeline, stream: Stream) -> Position | None:
    """Returns the current end of the stream; None if its source has not reported it, or is not attached yet."""
    if stream.ended or (stream.attachment is None and stream.name in pipeline.ended):
        return stream.received
    attachment, latest = stream.attachment, stream.backlog.latest_sequence
    if attachment is None or latest is None or not attachment.opened:
        return None
    return max(stream.received, Position(stream.live_epoch, latest))
