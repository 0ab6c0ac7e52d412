"""When a run that ends once it has caught up has done so."""

import time
from collections.abc import Iterable

from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import Position
from headrace.gateway.core._stream import Stream

FIRST_STREAM_WAIT_S = 10.0
"""How long such a run waits for a first stream to appear, before it takes it that there is none."""
ENDS_WAIT_S = 1.0
"""How long it waits, once it has everything, for streams to end that have not."""


def exhausted(pipeline: Pipeline, streams: Iterable[Stream]) -> bool:
    """Whether the pipeline has planned or committed everything that existed when its streams first said how far they go."""
    mine = [stream for stream in streams if pipeline in stream.readers]
    if not mine:
        return time.monotonic() - pipeline.attached_at > FIRST_STREAM_WAIT_S
    for stream in mine:
        if stream.name not in pipeline.targets:
            target = _target(stream)
            if target is None:
                return False
            pipeline.targets[stream.name] = target
    return all(_reached(pipeline, stream) >= pipeline.targets[stream.name] for stream in mine)


def has_waited_for_ends(pipeline: Pipeline) -> bool:
    """Whether sources that are at their last message have had the time to say that they end there."""
    now = time.monotonic()
    if pipeline.exhausted_at is None:
        pipeline.exhausted_at = now
    return now - pipeline.exhausted_at >= ENDS_WAIT_S


def _reached(pipeline: Pipeline, stream: Stream) -> Position:
    """Up to where the pipeline has planned, or there is nothing to plan: a redelivering stream begins anew with each session."""
    planned = pipeline.planned.get(stream.name, pipeline.position(stream.name))
    return planned if stream.replayable else max(planned, stream.start)


def _target(stream: Stream) -> Position | None:
    """Where everything that exists in the stream now ends; None where its source has not said."""
    if stream.ended or stream.attachment is None:
        return stream.received
    latest = stream.backlog.latest_sequence
    if latest is None or not stream.attachment.opened:
        return None
    return max(stream.received, Position(stream.live_epoch, latest))
