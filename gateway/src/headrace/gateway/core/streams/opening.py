"""Decides where streams begin, and opens and rewinds them according to the positions of their readers.

A pipeline is new to a source if it has no position in any of its streams: then the connector chooses, and the checkpoint records
it. The connector's answer is planned as ranges without messages, in a separate batch, so that the checkpoint has the starts of
all streams of the source or of none.
"""

from collections.abc import Iterator, Mapping

import structlog

from headrace.contract import clock
from headrace.contract.limits import MAX_CURSOR_BYTES
from headrace.contract.names import source_of
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.core.base.position import BEGINNING, from_proto, to_proto
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams.acknowledging import acknowledge, committed_by_all
from headrace.gateway.core.streams.stream import Attachment, Stream
from headrace.protocol.v1 import source_pb2

log = structlog.get_logger("headrace.gateway")


def reconcile(stream: Stream) -> None:
    """Opens, rewinds and acknowledges a stream according to the positions of its readers."""
    ask_for_start(stream)
    if not any(p.attached and stream.is_lost_for(p) for p in stream.readers):
        stream.loss = None
    attachment = stream.attachment
    if attachment is not None:
        if not attachment.opened and not attachment.closed:
            _open(stream, attachment)
        elif attachment.opened and (_is_elsewhere(stream) or _is_loss_accepted(stream)):
            stream.leave()
            if not stream.replayable:
                stream.void()
            text = "a pipeline must read from another position; open the stream again to learn it"
            attachment.session.reject(attachment.stream_id, source_pb2.REJECT_REASON_REOPEN, text)
    acknowledge(stream)


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
    earlier = BEGINNING if stream.replayable else _earlier(stream)
    if not stream.replayable:
        newest = max(floor.epoch, stream.newest_epoch, *(p.epoch for r in stream.readers for p in _positions(r, stream)))
        stream.newest_epoch = max(clock.now_ns() // 1000, newest + 1)
        stream.restart(Position(stream.newest_epoch, 0))
    elif floor < stream.start or floor > stream.received:
        stream.restart(floor)
    stream.ended = stream.gone = False
    attachment.opened, attachment.epoch, attachment.changed_at = True, stream.live_epoch, clock.monotonic()
    opened = source_pb2.StreamOpened(stream_id=attachment.stream_id, epoch=stream.live_epoch, skip_lost=skip_lost)
    if stream.replayable and stream.received > BEGINNING:
        opened.resume.CopyFrom(to_proto(stream.received))
    acknowledged = committed_by_all(stream)
    if stream.replayable and acknowledged is not None and BEGINNING < acknowledged <= stream.received:
        attachment.told = acknowledged
        opened.acknowledged.CopyFrom(to_proto(acknowledged))
    if earlier.epoch:
        opened.earlier.CopyFrom(to_proto(earlier))
    attachment.session.send(source_pb2.IngestResponse(stream_opened=opened))


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
    return all(loss.earliest is not None and p.reads_after(stream.name).sequence >= loss.earliest - 1 for p in strict)


def _skip(stream: Stream) -> None:
    loss, stream.loss = stream.loss, None
    assert loss is not None
    stream.losses += 1
    if loss.earliest is not None:
        stream.horizon = max(_floor(stream), Position(0, loss.earliest - 1))
    log.warning("lost messages skipped", stream=stream.name, after=str(loss.resume), earliest=loss.earliest)


def _floor(stream: Stream) -> Position:
    """Returns the earliest position that a reader needs now and that still exists.

    Running batches take precedence: a query that must go back waits until the batches of others are committed; otherwise their
    tasks would wait for everything that it reads first. Queries that are away count only if no other is attached.
    """
    known = [p for p in stream.readers if p.knows(stream.name) and not stream.is_lost_for(p)]
    running = [p for p in known if p.attached] or known
    needed = [p for p in running if p.in_flight(stream.name)] or running
    return max(min((p.reads_after(stream.name) for p in needed), default=stream.start), stream.horizon)


def _is_elsewhere(stream: Stream) -> bool:
    """Returns whether a reader needs messages before those held, or a running batch starts after the next one to arrive.

    A redelivering stream needs a new epoch if a reader has read or planned a later one, which another gateway has given it.
    """
    if not stream.replayable:
        known = (p for p in stream.readers if p.knows(stream.name))
        return any(at.epoch > stream.live_epoch for p in known for at in _positions(p, stream))
    floor = _floor(stream)
    return floor < stream.start or (floor > stream.received and stream.is_awaited())


def _positions(pipeline: Pipeline, stream: Stream) -> Iterator[Position]:
    yield pipeline.position(stream.name)
    yield pipeline.planned.get(stream.name, BEGINNING)


def ask_for_start(stream: Stream) -> None:
    """Asks the connector where a stream begins, if a pipeline needs to know."""
    for pipeline in stream.readers:
        if _waits(pipeline, stream):
            pipeline.undecided.add(stream.name)
        else:
            pipeline.undecided.discard(stream.name)
    attachment = stream.attachment
    if attachment is None or attachment.start_wanted or attachment.closed:
        return
    if any(stream.name in pipeline.undecided for pipeline in stream.readers):
        attachment.start_wanted = True
        wanted = source_pb2.StartsWanted(stream_id=attachment.stream_id)
        attachment.session.send(source_pb2.IngestResponse(starts_wanted=wanted))


def _waits(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether a pipeline waits to learn where a stream begins."""
    decided = stream.name in pipeline.begins or pipeline.position(stream.name) > BEGINNING
    # A pipeline that is known only from its fetches states in each of them the position from which it reads.
    return stream.chooses_start and pipeline.complete and not decided and _is_new_to(pipeline, source_of(stream.name))


def _is_new_to(pipeline: Pipeline, source: str) -> bool:
    return source not in pipeline.sources and not any(source_of(name) == source for name in pipeline.begins)


def check_start(stream: Stream, entry: source_pb2.Starts.Stream) -> Position:
    """Returns the position that a connector has chosen, after which its stream begins.

    Raises:
        MalformedMessage: the position is invalid, or the stream was opened without chooses_start.
    """
    if not stream.chooses_start:
        raise MalformedMessage(
            f"stream {stream.name}: Starts names it, but it was opened without chooses_start", stream=stream.name
        )
    if not entry.HasField("position"):
        return BEGINNING
    position = from_proto(entry.position)
    if position.epoch:
        text = f"stream {stream.name}: a start in epoch {position.epoch}; a replayable stream has epoch 0"
        raise MalformedMessage(text, stream=stream.name)
    if len(position.cursor or b"") > MAX_CURSOR_BYTES:
        text = f"stream {stream.name}: a start with a cursor above {MAX_CURSOR_BYTES} bytes"
        raise MalformedMessage(text, stream=stream.name)
    return position


def begin(starts: Mapping[Stream, Position]) -> list[Stream]:
    """Sets the starts of streams for each pipeline that waits for them; returns the affected streams."""
    waiting = {p.name: p for stream in starts for p in stream.readers if stream.name in p.undecided}
    concerned = []
    for stream, start in starts.items():
        for pipeline in stream.readers:
            if pipeline.name in waiting and stream.name not in pipeline.begins and pipeline.position(stream.name) == BEGINNING:
                # A planned, uncommitted start is in the offset log: it is an earlier answer, which must be kept.
                pipeline.begins[stream.name] = pipeline.planned.get(stream.name, start)
                concerned.append(stream)
    return concerned


def begin_with_first(pipeline: Pipeline, stream: str) -> bool:
    """Makes a stream begin with its first message, because its pipeline fetches from there; returns whether that is new."""
    if stream not in pipeline.undecided and pipeline.begins.get(stream, BEGINNING) == BEGINNING:
        return False
    pipeline.begins[stream] = BEGINNING
    pipeline.undecided.discard(stream)
    return True


def starts_of(streams: Mapping[str, Stream], pipeline: Pipeline) -> Iterator[tuple[Stream, Position]]:
    """Yields the streams whose starts the pipeline's checkpoint must record, and these starts."""
    for name, position in pipeline.begins.items():
        if position > BEGINNING and name in streams:
            yield streams[name], position
