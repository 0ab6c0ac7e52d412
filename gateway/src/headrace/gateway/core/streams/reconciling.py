"""Reconciles a stream with the positions of its readers: opens it, rewinds it, acknowledges it, and releases its frames.

Messages are acknowledged to their source once every query that reads the stream has committed them.
"""

import logging
from collections.abc import Iterator

from headrace.contract import clock
from headrace.contract.backoff import uniform
from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING, to_proto
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams.starts import ask_for_start
from headrace.gateway.core.streams.stream import Attachment, Stream
from headrace.protocol.v1 import source_pb2

_EPOCH_STEP = 2**32
"""The longest step beyond known epochs: of 10,000 steps from the same epoch, two are equal with a probability of 1 %."""

log = logging.getLogger("headrace.gateway")


def reconcile(stream: Stream) -> None:
    """Opens, rewinds and acknowledges a stream according to the positions of its readers."""
    ask_for_start(stream)
    if not any(p.attached and stream.is_lost_for(p) for p in stream.readers):
        stream.loss = None
    attachment = stream.attachment
    if attachment is not None:
        if not attachment.closed and stream.redelivering and stream.epochs.ask(attachment.session.id):
            _reopen(stream, attachment, "a batch reads what another gateway has planned; open the stream again to bring it here")
        elif not attachment.opened and not attachment.closed:
            _open(stream, attachment)
        elif attachment.opened and (_is_elsewhere(stream) or _is_loss_accepted(stream)):
            _reopen(stream, attachment, "a pipeline must read from another position; open the stream again to learn it")
    acknowledge(stream)


def _reopen(stream: Stream, attachment: Attachment, why: str) -> None:
    stream.leave()
    if stream.redelivering:
        stream.void()
    attachment.session.reject(attachment.stream_id, source_pb2.REJECT_REASON_REOPEN, why)


def _open(stream: Stream, attachment: Attachment) -> None:
    if stream.forgetting or (stream.pause is not None and not stream.is_awaited()):
        return
    served = [p for p in stream.readers if p.attached and p.knows(stream.name)]
    skip_lost = _is_loss_accepted(stream)
    if skip_lost:
        _skip(stream)
    # A loss concerns only who needs what is lost: they fail, and the stream is opened for the others.
    if all(stream.is_lost_for(p) for p in served):
        return
    floor = _floor(stream)
    earlier = _earlier(stream) if stream.redelivering else BEGINNING
    if stream.redelivering:
        stream.newest_epoch = _epoch_after(_newest_epoch(stream))
        stream.epochs.give(stream.newest_epoch)
        stream.restart(Position(stream.newest_epoch, 0))
    elif stream.resumable:
        _resume(stream, skips=skip_lost)
    elif floor < stream.start or floor > stream.received:
        stream.restart(floor)
    if stream.replayable and stream.received > BEGINNING:
        stream.trust_committed_cursor()
    stream.ended = stream.gone = False
    attachment.opened, attachment.epoch, attachment.changed_at = True, stream.live_epoch, clock.monotonic()
    opened = source_pb2.StreamOpened(stream_id=attachment.stream_id, epoch=stream.live_epoch, skip_lost=skip_lost)
    if stream.resumable:
        # Sequences continue: what was received before the session is held.
        attachment.last_sequence, attachment.last_cursor = stream.received.sequence, stream.received.cursor or b""
    has_come = stream.received > (Position(stream.live_epoch, 0) if stream.resumable else BEGINNING)
    resumes = has_come or (stream.resumable and stream.received.cursor is not None)
    if not stream.redelivering and resumes:
        opened.resume.CopyFrom(to_proto(stream.received))
    acknowledged = committed_by_all(stream)
    if (
        not stream.redelivering
        and acknowledged is not None
        and acknowledged.epoch == stream.live_epoch
        and BEGINNING < acknowledged <= stream.received
    ):
        attachment.told = acknowledged
        opened.acknowledged.CopyFrom(to_proto(acknowledged))
    if earlier.epoch:
        opened.earlier.CopyFrom(to_proto(earlier))
    attachment.session.send(source_pb2.IngestResponse(stream_opened=opened))


def _resume(stream: Stream, *, skips: bool) -> None:
    """Continues the live epoch of a resumable stream, or begins another one after the earliest cursor that a reader needs.

    If the source skips what it has lost, it begins another one unless messages from before are held.
    """
    needed = _needed(stream)
    if (skips and not stream.frames) or not stream.live_epoch or any(map(stream.must_be_rewound_for, needed)):
        places = [p.reads_after(stream.name) for p in needed]
        stream.begin_epoch(_epoch_after(_newest_epoch(stream)), min(places, key=lambda each: each.cursor or b""))


def _newest_epoch(stream: Stream) -> int:
    """Returns the latest epoch of a stream that this gateway has given, or that a reader has read or planned."""
    return max([stream.newest_epoch, *(at.epoch for reader in stream.readers for at in _positions(reader, stream))])


def _epoch_after(newest: int) -> int:
    """Returns an epoch that is later than those known here, and that no other gateway gives, nor this one after a restart.

    That is the time in microseconds. Where the clock is behind the known epochs, the step beyond them is random: another gateway
    may count on from the same epoch, and a query that is away may have read what it gave. Equal epochs would acknowledge
    messages that nobody has read.
    """
    now_us = clock.now_ns() // 1000
    return now_us if now_us > newest else newest + 1 + int(uniform(0, _EPOCH_STEP))


def _earlier(stream: Stream) -> Position:
    """Returns the last position that a checkpoint has of a redelivering stream; the beginning if none has one."""
    return max((p.position(stream.name) for p in stream.readers), default=BEGINNING)


def _is_loss_accepted(stream: Stream) -> bool:
    """Returns whether every running reader accepts the loss, or reads only what the source still has."""
    loss = stream.loss
    if loss is None:
        return False
    strict = [p for p in stream.readers if p.attached and not p.skip_lost]
    if any(stream.is_lost_for(p) for p in strict):
        return False
    if stream.resumable:
        # Sequences of its epochs do not compare.
        return not strict
    return all(loss.earliest is not None and p.reads_after(stream.name).sequence >= loss.earliest - 1 for p in strict)


def _skip(stream: Stream) -> None:
    loss, stream.loss = stream.loss, None
    assert loss is not None
    stream.losses += 1
    if loss.earliest is not None and not stream.resumable:
        stream.horizon = max(_floor(stream), Position(0, loss.earliest - 1))
    log.warning("lost messages skipped", extra={"stream": stream.name, "after": str(loss.resume), "earliest": loss.earliest})


def _floor(stream: Stream) -> Position:
    """Returns the earliest position that a reader needs now and that still exists.

    Running batches take precedence: a query that must go back waits until the batches of others are committed; otherwise their
    tasks would wait for everything that it reads first. Queries that are away count only if no other is attached.
    """
    return max(min((p.reads_after(stream.name) for p in _needed(stream)), default=stream.start), stream.horizon)


def _needed(stream: Stream) -> list[Pipeline]:
    """Returns the readers whose positions decide where a stream is opened.

    A batch of a resumable stream counts until it is committed: its tasks may read again what the source would not send again.
    """
    known = [p for p in stream.readers if p.knows(stream.name) and not stream.is_lost_for(p)]
    running = [p for p in known if p.attached] or known
    if stream.resumable:
        planned = [p for p in running if p.planned.get(stream.name, BEGINNING).epoch == stream.live_epoch > 0]
        return [p for p in planned if not stream.must_be_rewound_for(p)] or running
    return [p for p in running if p.in_flight(stream.name)] or running


def _is_elsewhere(stream: Stream) -> bool:
    """Returns whether a reader needs messages before those held, or a running batch starts after the next one to arrive.

    A redelivering stream needs a new epoch if a reader has read or planned a later one, which another gateway has given it.
    """
    if stream.resumable:
        return any(map(stream.must_be_rewound_for, _needed(stream)))
    if stream.redelivering:
        known = (p for p in stream.readers if p.knows(stream.name))
        return any(at.epoch > stream.live_epoch for p in known for at in _positions(p, stream))
    floor = _floor(stream)
    return floor < stream.start or (floor > stream.received and stream.is_awaited())


def _positions(pipeline: Pipeline, stream: Stream) -> Iterator[Position]:
    yield pipeline.position(stream.name)
    yield pipeline.planned.get(stream.name, BEGINNING)


def acknowledge(stream: Stream) -> None:
    """Releases frames that no running reader needs, and sends the connector the position that every reader has committed."""
    position = committed_by_all(stream)
    committed = BEGINNING if position is None else position
    stream.release(_needed_after(stream, committed), committed)
    if committed == BEGINNING:
        return
    attachment = stream.attachment
    if (
        attachment is not None
        and attachment.opened
        and committed.epoch == attachment.epoch
        and committed.is_past(attachment.told)
    ):
        attachment.session.acknowledge(attachment, committed)
    for former in stream.former:
        until = _committed_of(stream, former, committed)
        if until.epoch == former.epoch and until > former.told:
            former.session.acknowledge(former, until)
    told = max((other.told for other in (attachment, *stream.former) if other is not None), default=BEGINNING)
    stream.told = max(stream.told, told)
    for pipeline in stream.readers:
        pipeline.timeline.acknowledge(stream.name, told)
    stream.former = [former for former in stream.former if former.told < former.end]


def _committed_of(stream: Stream, former: Attachment, committed: Position) -> Position:
    """Returns up to where all readers have committed what an earlier session has sent.

    The end of another epoch of a resumable stream is committed once its cursor is.
    """
    if not stream.resumable or committed.epoch == former.epoch:
        return min(committed, former.end)
    return former.end if (former.end.cursor or b"") <= (committed.cursor or b"") else BEGINNING


def committed_by_all(stream: Stream) -> Position | None:
    """Returns the position that every reader, also an absent one, has committed; None if it is not known."""
    if not stream.readers or not all(p.knows(stream.name) for p in stream.readers):
        return None
    positions = [stream.within_epoch(p.position(stream.name).delivered) for p in stream.readers]
    if stream.resumable and any(at.epoch != stream.live_epoch for at in positions):
        # A later epoch, of another gateway, may have begun at an earlier place.
        return BEGINNING
    return min(positions, key=lambda each: (each.epoch, each.sequence, each.moves))


def _needed_after(stream: Stream, committed: Position) -> Position:
    """Returns the position after which running readers need frames.

    A replayable source resends what other readers need when they resume. A redelivering source cannot, so its frames are kept
    until every reader has committed them. The frames of a resumable source are kept until they are delivered for certain.
    """
    running = [p for p in stream.readers if p.attached]
    if stream.redelivering or not all(p.knows(stream.name) for p in running):
        return committed
    served = [p for p in running if not (stream.must_be_rewound_for(p) or stream.is_lost_for(p))]
    return min((p.reads_after(stream.name).delivered for p in served), default=committed)
