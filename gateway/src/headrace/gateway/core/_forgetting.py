"""Forgetting streams that have ended and that their source will never offer again.

A stream is forgotten once all of its readers have committed all of it. From the first answer that tells one of them to leave it
out of its checkpoint, a stream of its name is not opened before all of them have done so: they would not agree where it begins.
"""

from collections.abc import Iterable

from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._opening import reconcile
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING, Position
from headrace.gateway.core._stream import Stream

MOST_AT_ONCE = 1_000
"""So many streams at most one answer says are forgotten."""


def to_forget(gateway: Gateway, pipeline: Pipeline, *, tell_ends: bool, with_batch: bool) -> list[str]:
    """The streams that a pipeline shall leave out of the offset in which its next batch ends.

    Args:
        gateway: What is known.
        pipeline: The pipeline.
        tell_ends: Whether its checkpoint keeps which streams have ended: then not before it has the end.
        with_batch: Whether there is a batch anyway; otherwise only those whose names are wanted for new streams.
    """
    found: list[str] = []
    if not pipeline.forgets:
        return found
    for name in gateway.gone:
        stream = gateway.streams[name]
        wanted = with_batch or (stream.attachment is not None and not stream.attachment.closed)
        told = name in pipeline.ended or not tell_ends
        has_all = name in pipeline.committed and pipeline.position(name) >= stream.received
        if wanted and told and has_all and _is_done(stream):
            found.append(name)
        if len(found) == MOST_AT_ONCE:
            break
    return found


def begin_to_forget(gateway: Gateway, names: Iterable[str]) -> None:
    """Has streams of these names wait, since a pipeline is told to leave them out of its checkpoint."""
    for name in names:
        gateway.streams[name].forgetting = True


def leave_out(gateway: Gateway, pipeline: Pipeline, positions: dict[str, Position]) -> None:
    """Takes over which positions a checkpoint has no longer; does nothing about those that it was not known to have."""
    for name, position in positions.items():
        if pipeline.committed.get(name) == position and pipeline.planned.get(name, position) <= position:
            pipeline.leave_out(name)
            stream = gateway.streams.get(name)
            if stream is not None:
                _settle(gateway, stream)
                if gateway.streams.get(name) is stream:
                    reconcile(stream)


def forget_gone(gateway: Gateway) -> None:
    """Lets go of the streams that are gone and that no checkpoint has any more."""
    for name in list(gateway.gone):
        stream = gateway.streams[name]
        if stream.gone or stream.forgetting:
            _settle(gateway, stream)
        else:
            del gateway.gone[name]


def _is_done(stream: Stream) -> bool:
    """Whether every reader has committed all of a stream; one that came later has nothing of it and gets nothing."""
    if stream.forgetting:
        return True
    if not stream.gone or stream.former or (not stream.readers and stream.received > BEGINNING):
        return False
    nothing_left = not stream.frames and stream.acknowledged >= stream.received
    return all(
        p.knows(stream.name) and (_has_all(p, stream) or (nothing_left and not _is_named_by(p, stream.name)))
        for p in stream.readers
    )


def _has_all(pipeline: Pipeline, stream: Stream) -> bool:
    """Whether a pipeline has committed all of a stream, and runs and can leave it out of its checkpoint if that has it."""
    can_forget = stream.name not in pipeline.committed or (pipeline.attached and pipeline.forgets)
    return can_forget and pipeline.position(stream.name) >= stream.received


def _is_named_by(pipeline: Pipeline, name: str) -> bool:
    return any(name in positions for positions in (pipeline.committed, pipeline.planned, pipeline.begins))


def _settle(gateway: Gateway, stream: Stream) -> None:
    """Forgets a stream that no checkpoint has any more. One that waits under its name begins with its first message."""
    if not _is_done(stream) or any(_is_named_by(p, stream.name) for p in stream.readers):
        return
    gateway.gone.pop(stream.name, None)
    for pipeline in stream.readers:
        pipeline.leave_out(stream.name)
    attachment = stream.attachment
    if attachment is not None and attachment.closed:
        attachment.session.retire(attachment.stream_id)
        stream.attachment = attachment = None
    del gateway.streams[stream.name]
    stream.news.notify()
    if attachment is None:
        return
    fresh = gateway.stream(stream.name)
    fresh.replayable, fresh.chooses_start = stream.replayable, stream.chooses_start
    fresh.attachment, attachment.stream = attachment, fresh
    assert fresh.received == BEGINNING
    reconcile(fresh)
    gateway.credit.settle()
