"""Forgets streams that have ended permanently.

A stream is forgotten once all of its readers have committed all of it. Once the first reader has the order to drop it from its
checkpoint, no stream of that name is opened until all readers have done so; otherwise they would disagree on where it begins.
"""

from collections.abc import Iterable

from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import Stream, reconcile

MAX_AT_ONCE = 1_000
"""The maximum number of forgotten streams in a response."""
MAX_WAS_GONE = 10_000
"""The maximum number of forgotten streams whose names the gateway keeps."""


def to_forget(gateway: Gateway, pipeline: Pipeline, *, tell_ends: bool, with_batch: bool) -> list[str]:
    """Returns the streams that a pipeline must omit from the offset at the end of its next batch.

    Args:
        gateway: The gateway.
        pipeline: The pipeline.
        tell_ends: Whether its checkpoint records which streams have ended; if so, a stream is returned only once it has the end.
        with_batch: Whether a batch is planned anyway; if not, only streams whose names are needed by new streams are returned.
    """
    found: list[str] = []
    for name in gateway.gone:
        stream = gateway.streams[name]
        wanted = with_batch or (stream.attachment is not None and not stream.attachment.closed)
        told = name in pipeline.ended or not tell_ends
        has_all = name in pipeline.committed and stream.has_nothing_after(pipeline.position(name))
        if wanted and told and has_all and _is_done(stream):
            found.append(name)
        if len(found) == MAX_AT_ONCE:
            break
    return found


def begin_to_forget(gateway: Gateway, names: Iterable[str]) -> None:
    """Keeps new streams of these names closed, since a pipeline is about to drop the names from its checkpoint."""
    for name in names:
        gateway.streams[name].forgetting = True


def leave_out(gateway: Gateway, pipeline: Pipeline, positions: dict[str, Position]) -> None:
    """Drops positions that a checkpoint no longer contains; ignores positions that it was not known to contain."""
    for name, position in positions.items():
        if pipeline.committed.get(name) == position and pipeline.planned.get(name, position) <= position:
            pipeline.leave_out(name)
            stream = gateway.streams.get(name)
            if stream is not None:
                _forget_if_done(gateway, stream)
                if gateway.streams.get(name) is stream:
                    reconcile(stream)


def forget_gone(gateway: Gateway) -> None:
    """Forgets the streams that have ended permanently and that no checkpoint contains."""
    for name in list(gateway.gone):
        stream = gateway.streams[name]
        if stream.gone or stream.forgetting:
            _forget_if_done(gateway, stream)
        else:
            del gateway.gone[name]


def end_again(gateway: Gateway, pipeline: Pipeline) -> None:
    """Ends the streams of a checkpoint that were forgotten before it came, so that it drops them, too.

    Their source will not offer them again: it met this gateway before the query did.
    """
    for name in pipeline.committed:
        stream = gateway.streams[name]
        if name in gateway.was_gone and name not in pipeline.planned and stream.attachment is None:
            del gateway.was_gone[name]
            stream.end_permanently()
            gateway.gone[name] = None


def _is_done(stream: Stream) -> bool:
    """Returns whether every reader has committed all of a stream, or attached too late to receive any of it."""
    if stream.forgetting:
        return True
    if not stream.gone or stream.former or (not stream.readers and stream.received > BEGINNING):
        return False
    nothing_left = not stream.frames and stream.has_nothing_after(stream.acknowledged)
    return all(
        p.knows(stream.name) and (_has_all(p, stream) or (nothing_left and not _is_named_by(p, stream.name)))
        for p in stream.readers
    )


def _has_all(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether a pipeline has committed all of a stream, and can drop it from its checkpoint if it is there."""
    can_forget = stream.name not in pipeline.committed or pipeline.attached
    return can_forget and stream.has_nothing_after(pipeline.position(stream.name))


def _is_named_by(pipeline: Pipeline, name: str) -> bool:
    return any(name in positions for positions in (pipeline.committed, pipeline.planned, pipeline.begins))


def _forget_if_done(gateway: Gateway, stream: Stream) -> None:
    """Forgets a stream that no checkpoint contains. A waiting new stream of that name then begins with its first message."""
    if not _is_done(stream) or any(_is_named_by(p, stream.name) for p in stream.readers):
        return
    gateway.gone.pop(stream.name, None)
    for pipeline in stream.readers:
        pipeline.leave_out(stream.name)
    attachment = stream.attachment
    if attachment is not None and attachment.closed:
        attachment.session.retire(attachment.stream_id)
        stream.attachment = attachment = None
    gateway.forget_stream(stream)
    stream.news.notify()
    if attachment is None:
        gateway.was_gone[stream.name] = None
        if len(gateway.was_gone) > MAX_WAS_GONE:
            del gateway.was_gone[next(iter(gateway.was_gone))]
        return
    fresh = gateway.stream(stream.name)
    fresh.kind, fresh.chooses_start = stream.kind, stream.chooses_start
    fresh.last_instance, fresh.pause = stream.last_instance, stream.pause
    fresh.attachment, attachment.stream = attachment, fresh
    assert fresh.received == BEGINNING
    reconcile(fresh)
    gateway.credit.rebalance()
