"""Where a stream begins, resumes and is acknowledged: what its readers' positions call for."""

import time
from collections.abc import Iterator

import structlog

from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING, Position
from headrace.gateway.core._starting import ask_for_start
from headrace.gateway.core._stream import Attachment, Loss, Stream
from headrace.protocol.v1 import source_pb2

log = structlog.get_logger("headrace.gateway")


def reconcile(stream: Stream) -> None:
    """Opens, rewinds and acknowledges a stream, as its readers' positions call for."""
    ask_for_start(stream)
    attachment = stream.attachment
    if attachment is not None:
        if not attachment.opened and not attachment.closed:
            _open(stream, attachment)
        elif attachment.opened and stream.replayable and _floor(stream) < stream.start:
            stream.attachment = None
            text = "a pipeline must read from an earlier position; open the stream again to learn it"
            attachment.session.reject(attachment.stream_id, source_pb2.REJECT_REASON_REOPEN, text)
    acknowledge(stream)


def _open(stream: Stream, attachment: Attachment) -> None:
    if not any(p.attached and p.knows(stream.name) for p in stream.readers):
        return
    skip_lost = stream.loss is not None
    if stream.loss is not None:
        if not all(p.skip_lost for p in stream.readers if p.attached):
            return
        _skip(stream, stream.loss)
    floor = _floor(stream)
    if not stream.replayable:
        newest = max(floor.epoch, stream.live_epoch, *(p.epoch for r in stream.readers for p in _positions(r, stream)))
        stream.restart(Position(max(time.time_ns() // 1000, newest + 1), 0))
    elif floor < stream.start or floor > stream.received:
        stream.restart(floor)
    stream.ended = False
    attachment.opened, attachment.epoch = True, stream.live_epoch
    opened = source_pb2.StreamOpened(stream_id=attachment.stream_id, epoch=stream.live_epoch, skip_lost=skip_lost)
    if stream.replayable and stream.received > BEGINNING:
        opened.resume.CopyFrom(stream.received.to_proto())
    acknowledged = _committed_by_all(stream)
    if stream.replayable and acknowledged is not None and BEGINNING < acknowledged <= stream.received:
        attachment.told = acknowledged
        opened.acknowledged.CopyFrom(acknowledged.to_proto())
    attachment.session.send(source_pb2.IngestResponse(stream_opened=opened))


def _skip(stream: Stream, loss: Loss) -> None:
    stream.losses += 1
    stream.loss = None
    if loss.earliest is not None:
        stream.horizon = max(_floor(stream), Position(0, loss.earliest - 1))
    log.warning("lost messages skipped", stream=stream.name, after=str(loss.resume), earliest=loss.earliest)


def acknowledge(stream: Stream) -> None:
    """Lets go of what every reader has committed, and tells the connector."""
    position = _committed_by_all(stream)
    if position is None or position == BEGINNING:
        return
    stream.release(position)
    attachment = stream.attachment
    if attachment is not None and attachment.opened and position.epoch == attachment.epoch and position > attachment.told:
        attachment.session.acknowledge(attachment, position)


def _committed_by_all(stream: Stream) -> Position | None:
    """What every reader has committed; None where that is not known."""
    if not stream.readers or not all(p.knows(stream.name) for p in stream.readers):
        return None
    return min(p.position(stream.name) for p in stream.readers)


def _floor(stream: Stream) -> Position:
    """The earliest position that a known reader needs, and that still exists."""
    known = (p.reads_after(stream.name) for p in stream.readers if p.knows(stream.name))
    return max(min(known, default=stream.start), stream.horizon)


def _positions(pipeline: Pipeline, stream: Stream) -> Iterator[Position]:
    yield pipeline.position(stream.name)
    yield pipeline.planned.get(stream.name, BEGINNING)
