"""Handles the messages of source connectors on streams that are open."""

import logging
from typing import cast

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import MalformedMessage, OutOfTurn, SequenceOutOfRange, UnknownStream
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.intake.credit_requests import clear_credit_request
from headrace.gateway.core.intake.forgetting import forget_gone
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import (
    OVERHEAD_BYTES,
    Attachment,
    Backlog,
    HeldFrame,
    Loss,
    Session,
    Stream,
    acknowledge,
    begin,
    check_frame,
    check_order,
    check_start,
    check_times,
    count_up_to,
    reconcile,
    trim,
)
from headrace.protocol.v1 import frame_pb2, source_pb2

log = logging.getLogger("headrace.gateway")


def take_frame(gateway: Gateway, session: Session, frame: frame_pb2.Frame, serialized: memoryview, size: int) -> None:
    """Buffers a frame for the pipelines that read its stream.

    Args:
        gateway: The gateway.
        session: The session that sent the frame.
        frame: The frame.
        serialized: The frame's bytes, at the end of the received bytes, which are kept with them.
        size: The frame's size on the wire in bytes, which is charged to the session's credit.

    Raises:
        ProtocolError: the frame breaks a rule; the subclass shows which.
    """
    attachment = _attachment(session, frame.stream_id)
    # A frame without messages uses no credit: nothing of it is held.
    charge, count = size + OVERHEAD_BYTES if frame.count else 0, frame.count
    if attachment is None or attachment.stream.attachment is not attachment:
        session.account.charge(charge, count)
        _give_back(gateway, session, charge, count)
        return
    name = attachment.stream.name
    last = check_frame(frame, size, gateway.limits, name)
    check_times(frame, name)
    session.account.charge(charge, count)
    if not attachment.opened or attachment.closed:
        when = "after CloseStream" if attachment.closed else "before StreamOpened"
        raise OutOfTurn(f"stream {name}: a frame {when}", stream=name)
    if not count:
        _move_cursor(attachment, frame)
        return
    check_order(frame.first_sequence, attachment.last_sequence, name)
    if frame.first_sequence == 0 and not attachment.stream.replayable:
        text = f"stream {name}: sequence 0; a source that counts its messages counts from 1"
        raise SequenceOutOfRange(text, stream=name, sequence=0)
    if attachment.stream.resumable:
        _check_cursor(attachment, frame)
    attachment.last_sequence = last
    clear_credit_request(session, attachment)
    gateway.frames_received += 1
    session.counts.frames += 1
    session.counts.messages += count
    session.counts.bytes += size
    _hold(gateway, attachment.stream, session, frame, serialized, charge, last)


def _check_cursor(attachment: Attachment, frame: frame_pb2.Frame) -> None:
    """Checks that the cursor of a frame of a resumable stream, if it has one, is not before an earlier one.

    Raises:
        MalformedMessage: it is before.
    """
    if not frame.HasField("cursor"):
        return
    name = attachment.stream.name
    if frame.cursor < attachment.last_cursor:
        text = (
            f"stream {name}, sequence {frame.first_sequence}: cursor {frame.cursor[:32]!r} is before "
            f"{attachment.last_cursor[:32]!r}, which was sent before it; the bytes of cursors of a resumable stream must have "
            "the order of their places"
        )
        raise MalformedMessage(text, stream=name)
    attachment.last_cursor = frame.cursor


def _move_cursor(attachment: Attachment, frame: frame_pb2.Frame) -> None:
    """Moves the cursor of the place that the stream has reached. Nobody is woken: the next batch records it, or one soon.

    A source that sends messages again, because its cursor was before the place, has an older cursor among them: it is dropped.
    """
    stream, at = attachment.stream, frame.first_sequence
    if not stream.replayable:
        text = f"stream {stream.name}: a frame without messages, of a stream that is not replayable"
        raise MalformedMessage(text, stream=stream.name)
    place = max(stream.received.sequence, 0)
    if not attachment.last_sequence <= at <= place:
        reached = place if at > place else attachment.last_sequence
        text = f"stream {stream.name}, sequence {at}: a frame without messages must stand after sequence {reached}, the last one"
        raise SequenceOutOfRange(text, stream=stream.name, sequence=at)
    # From now on, a message with this sequence would go backwards.
    attachment.last_sequence = at
    if at == place:
        stream.move_cursor(at, frame.cursor)


def _hold(
    gateway: Gateway, stream: Stream, session: Session, frame: frame_pb2.Frame, serialized: memoryview, charged: int, last: int
) -> None:
    """Buffers the new messages of a frame. Its exact charge is returned, immediately or when the frame is released."""
    count = frame.count
    if frame.first_sequence <= stream.received.sequence:
        seen = count_up_to(frame, stream.received.sequence)
        stream.duplicate_messages += seen
        if seen == count:
            _give_back(gateway, session, charged, count)
            return
        frame = trim(frame, seen)
        serialized = memoryview(frame.SerializeToString())
        left = min(charged, len(serialized) + OVERHEAD_BYTES)
        _give_back(gateway, session, charged - left, seen)
        charged, count = left, frame.count
    cursor = frame.cursor if frame.HasField("cursor") else stream.received.cursor
    first, now = frame.first_sequence, clock.monotonic()
    payload = cast(bytes, serialized.obj)
    held = HeldFrame(first, last, count, len(serialized), payload, cursor, now, session.account, charged)
    end = Position(stream.live_epoch, last)
    if any(_is_read_again(pipeline, stream, end) for pipeline in stream.readers):
        # A batch that is read again must fit, however small the window has become.
        held.account = None
        _give_back(gateway, session, charged, count)
    stream.append(held)
    stream.tell_readers()
    if not any(pipeline.attached and pipeline.reads_after(stream.name) < end for pipeline in stream.readers):
        # The readers committed it while it was under way. No later commit may release it, and it may hold the last credit.
        acknowledge(stream)
        gateway.credit.rebalance()
    if gateway.tracing is not None:
        gateway.tracing.received(session, stream.name, frame, last, now)


def _is_read_again(pipeline: Pipeline, stream: Stream, end: Position) -> bool:
    """Returns whether a frame that ends at `end` belongs to a batch that was planned before the frame arrived."""
    planned = pipeline.planned.get(stream.name)
    if planned is None or planned < end:
        return False
    return pipeline.in_flight(stream.name) and pipeline.position(stream.name) < end


def _give_back(gateway: Gateway, session: Session, size: int, count: int) -> None:
    session.account.release(size, count)
    gateway.credit.rebalance()


def note_backlog(session: Session, backlog: source_pb2.Backlog) -> None:
    """Records a source's report of its backlog."""
    attachment = _attachment(session, backlog.stream_id)
    if attachment is not None:
        known = attachment.stream.backlog.latest_sequence
        latest = backlog.latest_sequence if backlog.HasField("latest_sequence") else known
        if latest == 0 and attachment.stream.received == BEGINNING and not (backlog.messages or backlog.bytes):
            # The stream is empty, so there is no message 0 either.
            latest = BEGINNING.sequence
        attachment.stream.backlog = Backlog(latest, backlog.messages, backlog.bytes)
        attachment.stream.tell_readers()


def lose_position(session: Session, loss: source_pb2.PositionLost) -> None:
    """Records that a source cannot resume. The stream is reopened if its pipelines accept the loss; otherwise they fail."""
    attachment = _attachment(session, loss.stream_id)
    if attachment is None:
        return
    stream = attachment.stream
    if stream.attachment is not attachment or attachment.closed:
        # The stream has another owner or was closed, so the loss is irrelevant.
        session.reject(loss.stream_id, source_pb2.REJECT_REASON_REOPEN, "this session no longer has the stream; open it again")
        return
    earliest = loss.earliest_sequence if loss.HasField("earliest_sequence") else None
    stream.loss = Loss(stream.received, earliest, loss.reason[:500])
    stream.leave()
    log.warning("position lost", extra={"stream": stream.name, "error": stream.loss.describe(stream.name)})
    session.reject(loss.stream_id, source_pb2.REJECT_REASON_REOPEN, "open the stream again to learn where to resume")
    stream.tell_readers()


def take_starts(gateway: Gateway, session: Session, starts: source_pb2.Starts) -> None:
    """Records where streams begin, for the pipelines that wait for it.

    Raises:
        MalformedMessage: a position is not valid, or a stream was not opened as one that chooses its start.
        UnknownStream: a stream was never opened.
    """
    found = {}
    for entry in starts.streams:
        attachment = _attachment(session, entry.stream_id)
        if attachment is not None and attachment.stream.attachment is attachment:
            found[attachment.stream] = check_start(attachment.stream, entry, gateway.limits)
            # A pipeline that is new to the source later causes a new request.
            attachment.start_wanted = False
    for stream in begin(found):
        reconcile(stream)
        stream.tell_readers()
    gateway.credit.rebalance()


def close_stream(gateway: Gateway, session: Session, close: source_pb2.CloseStream) -> None:
    """Records that a session will send no more frames of a stream."""
    attachment = _attachment(session, close.stream_id)
    if attachment is not None and not attachment.closed:
        attachment.closed = True
        session.not_closed.discard(close.stream_id)
        clear_credit_request(session, attachment)
        stream = attachment.stream
        stream.left_at = clock.monotonic()
        if not stream.forgetting:
            stream.ended = close.end_of_stream and attachment.opened
            stream.gone = stream.ended and close.gone and not stream.chooses_start
            if stream.ended and stream.received == BEGINNING:
                for pipeline in stream.readers:
                    pipeline.note_ended_unread(stream.name)
        if attachment.opened:
            stream.tell_readers()
        if stream.gone:
            gateway.gone[stream.name] = None
            forget_gone(gateway)


def _attachment(session: Session, stream_id: int) -> Attachment | None:
    """Returns the attachment of a stream id; None if the stream was rejected while the message was in transit.

    Raises:
        UnknownStream: the stream was never opened.
    """
    attachment = session.attachments.get(stream_id)
    if attachment is None and stream_id not in session.retired:
        text = f"stream id {stream_id} was never opened in this session; send OpenStream first"
        raise UnknownStream(text, stream_id=stream_id)
    return attachment
