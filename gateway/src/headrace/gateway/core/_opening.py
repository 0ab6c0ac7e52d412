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
        elif attachment.opened and stream.replayable and _is_elsewhere(stream):
            stream.attachment = None
            text = "a pipeline must read from another position; open the stream again to learn it"
            attachment.session.reject(attachment.stream_id, source_pb2.REJECT_REASON_REOPEN, text)
    acknowledge(stream)


def _open(stream: Stream, attachment: Attachment) -> None:
    if stream.forgetting:
        return
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
    stream.ended = stream.gone = False
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
    """Lets go of what no reader needs that runs; tells the connector what every reader has committed."""
    position = _committed_by_all(stream)
    committed = BEGINNING if position is None else position
    stream.release(_needed_after(stream, committed), committed)
    if committed == BEGINNING:
        return
    attachment = stream.attachment
    if attachment is not None and attachment.opened and committed.epoch == attachment.epoch and committed > attachment.told:
        attachment.session.acknowledge(attachment, committed)
    for former in stream.former:
        until = min(committed, former.end)
        if until.epoch == former.epoch and until > former.told:
            former.session.acknowledge(former, until)
    stream.former = [former for former in stream.former if former.told < former.end]


def _committed_by_all(stream: Stream) -> Position | None:
    """What every reader has committed, also those that are away; None where that is not known."""
    if not stream.readers or not all(p.knows(stream.name) for p in stream.readers):
        return None
    return min(p.position(stream.name) for p in stream.readers)


def _needed_after(stream: Stream, committed: Position) -> Position:
    """The position after which a reader that runs needs frames.

    A replayable source sends again what the others need, once they are back, and what it would have to send again anyway. A
    redelivering one cannot, nor is there any need where none runs.
    """
    running = [p for p in stream.readers if p.attached]
    if not stream.replayable or not all(p.knows(stream.name) for p in running):
        return committed
    return min((p.reads_after(stream.name) for p in running if not stream.must_be_rewound_for(p)), default=committed)


def _floor(stream: Stream) -> Position:
    """The earliest position that a reader needs now, and that still exists.

    Batches that run come first: a query that must go back waits until the others' are committed, or their tasks would wait for
    all that it reads before. Queries that are away count where none is there.
    """
    known = [p for p in stream.readers if p.knows(stream.name)]
    running = [p for p in known if p.attached] or known
    needed = [p for p in running if p.in_flight(stream.name)] or running
    return max(min((p.reads_after(stream.name) for p in needed), default=stream.start), stream.horizon)


def _is_elsewhere(stream: Stream) -> bool:
    """Whether what is needed now lies before what is held, or a batch that runs lies beyond what would come next."""
    floor = _floor(stream)
    return floor < stream.start or (floor > stream.received and stream.is_awaited())


def _positions(pipeline: Pipeline, stream: Stream) -> Iterator[Position]:
    yield pipeline.position(stream.name)
    yield pipeline.planned.get(stream.name, BEGINNING)
