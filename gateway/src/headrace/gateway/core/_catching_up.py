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
CONNECTOR_WAIT_S = 60.0
"""How long it waits for the connector of a stream that its checkpoint knows, before it goes on with what is here."""


def exhausted(pipeline: Pipeline, streams: Iterable[Stream]) -> bool:
    """Whether the pipeline has planned or committed everything that existed when its streams first said how far they go."""
    mine = [stream for stream in streams if pipeline in stream.readers]
    if not mine:
        return time.monotonic() - pipeline.attached_at > FIRST_STREAM_WAIT_S
    for stream in mine:
        if stream.name not in pipeline.targets:
            target = _target(pipeline, stream)
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


def _target(pipeline: Pipeline, stream: Stream) -> Position | None:
    """Where everything that exists in the stream now ends; None where its source has not said, or has not come yet."""
    if stream.ended:
        return stream.received
    if stream.attachment is None:
        gone = stream.name in pipeline.ended or time.monotonic() - pipeline.attached_at > CONNECTOR_WAIT_S
        return stream.received if gone else None
    latest = stream.backlog.latest_sequence
    if latest is None or not stream.attachment.opened:
        return None
    return max(stream.received, Position(stream.live_epoch, latest))
