"""Where a message stands on its way to its acknowledgement, and what it waits for."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from headrace.contract import clock
from headrace.contract.names import covers
from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING, to_proto
from headrace.gateway.core.intake import held_by
from headrace.gateway.core.pipelines import Batch, Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.status.awaiting import sinks_away
from headrace.gateway.core.status.listing import stage_to_proto
from headrace.gateway.core.streams import Pause, Stream
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.frame_pb2 import StreamPosition

MAX_READERS = 1_000
"""How many pipelines a response names."""


def locate(
    gateway: Gateway, stream: Stream, epoch: int | None, sequence: int, problems: Iterable[pb.Problem]
) -> pb.LocateMessageResponse:
    """Returns where a message stands.

    Args:
        gateway: The gateway.
        stream: The stream of the message.
        epoch: The epoch of its sequence; None means the latest.
        sequence: Its sequence.
        problems: The problems of the gateway, at most one for each part.
    """
    at = Position(stream.received.epoch if epoch is None else epoch, sequence)
    found = {problem.part: problem for problem in problems}
    response = pb.LocateMessageResponse(message=StreamPosition(stream=stream.name, position=to_proto(at)))
    state, reason = _state(gateway, stream, at)
    if state == pb.MESSAGE_STATE_NOT_PLANNED or state == pb.MESSAGE_STATE_COMMITTED:
        readers = sorted((_reader(gateway, p, stream, at, found) for p in stream.readers), key=lambda r: (r.state, r.pipeline))
        response.readers.extend(readers[:MAX_READERS])
        if readers:
            state = readers[0].state
            if state != pb.MESSAGE_STATE_COMMITTED:
                held = [reader.pipeline for reader in readers if reader.state != pb.MESSAGE_STATE_COMMITTED]
                reason = f"it is acknowledged once {_names(held)} has committed it"
                _set_problem(response, readers[0].problem if readers[0].HasField("problem") else None)
    response.state, response.reason = state, reason
    if state in (pb.MESSAGE_STATE_NOT_RECEIVED, pb.MESSAGE_STATE_COMMITTED):
        _set_problem(response, found.get(f"stream {stream.name}"))
    return response


def missing(status: pb.GetStatusResponse, stream: str) -> str:
    """Returns why a query waits for a stream which the gateway does not know, as a sentence; empty if none does."""
    found = {problem.part: problem for problem in status.problems}
    for pipeline in status.pipelines:
        problem = found.get(f"pipeline {pipeline.pipeline}")
        if problem is not None and any(covers(one.pattern, stream) for one in pipeline.unmatched):
            return f". A query waits for it: {problem.cause}; {problem.remedy}"
    return ""


def _state(gateway: Gateway, stream: Stream, at: Position) -> tuple[pb.MessageState.ValueType, str]:
    """Returns how far a message is without regard to single pipelines, and what it waits for."""
    if stream.told >= at and stream.told.epoch == at.epoch:
        return pb.MESSAGE_STATE_ACKNOWLEDGED, ""
    if at.epoch < stream.received.epoch:
        text = "its epoch is over: what was not acknowledged then was delivered again under new sequences of epoch"
        return pb.MESSAGE_STATE_REDELIVERED, f"{text} {stream.received.epoch}"
    if at > stream.received:
        return pb.MESSAGE_STATE_NOT_RECEIVED, _not_received(gateway, stream)
    if not stream.readers:
        return pb.MESSAGE_STATE_NOT_PLANNED, "no pipeline reads the stream"
    connector = stream.last_instance or "of its source"
    if stream.attachment is None:
        return pb.MESSAGE_STATE_COMMITTED, f"it is committed; connector {connector} learns it when it connects again"
    return pb.MESSAGE_STATE_COMMITTED, f"it is committed; connector {connector} learns it when the stream is open"


def _not_received(gateway: Gateway, stream: Stream) -> str:
    """Returns why the gateway has not received a message."""
    last = f"the last message received is {stream.received}" if stream.received > BEGINNING else "nothing was received yet"
    attachment = stream.attachment
    if stream.ended:
        return f"the source has ended the stream; {last}"
    if stream.pause is not None and (attachment is None or attachment.closed or not attachment.opened):
        return f"{_paused(stream.pause)}; {last}"
    if attachment is None or attachment.closed:
        return f"no connector sends the stream; {last}"
    if not attachment.opened:
        return f"the stream waits for a pipeline that reads it; {last}"
    session = gateway.sessions.get(attachment.session.id)
    short = session is not None and min(session.account.bytes_left, session.account.messages_left) <= 0
    if attachment.requested_credit is not None or short:
        holders = [p.name for p in stream.readers if stream.is_held_by(p)]
        held = f", which is full until {_names(holders)} commits" if holders else ""
        return f"its connector waits for credit: there is no room in the buffer{held}; {last}"
    return f"the source has not sent it; {last}"


def _reader(
    gateway: Gateway, pipeline: Pipeline, stream: Stream, at: Position, problems: Mapping[str, pb.Problem]
) -> pb.MessageReader:
    """Returns how far a message is in a pipeline."""
    reader = pb.MessageReader(pipeline=pipeline.name)
    name, timeline = stream.name, pipeline.timeline
    if pipeline.knows(name) and pipeline.reads_after(name) >= at:
        reader.state = pb.MESSAGE_STATE_COMMITTED
        _set_batch(reader, timeline.awaiting(name, at))
        return reader
    _set_problem(reader, problems.get(f"pipeline {pipeline.name}"))
    if pipeline.planned.get(name, BEGINNING) >= at:
        reader.state = pb.MESSAGE_STATE_IN_BATCH
        _set_batch(reader, timeline.current)
        stage = timeline.current.last_stage() if timeline.current is not None else None
        reader.reason = f"its micro-batch is {stage[0]}, and not committed" if stage else "its micro-batch is not committed"
        if not pipeline.attached:
            reader.reason += "; " + _absent(pipeline)
        return reader
    reader.state = pb.MESSAGE_STATE_NOT_PLANNED
    reader.reason = _not_planned(gateway, pipeline, stream)
    if (received_at := _received_at(stream, at)) is not None:
        reader.age_ms = int((clock.monotonic() - received_at) * 1000)
    return reader


def _not_planned(gateway: Gateway, pipeline: Pipeline, stream: Stream) -> str:
    """Returns why a pipeline has not planned a message."""
    if not pipeline.attached:
        return _absent(pipeline)
    if not pipeline.knows(stream.name):
        return "it has not said where it resumes in the stream"
    if stream.loss is not None:
        return stream.loss.describe(stream.name)
    if away := sinks_away(gateway, pipeline.name):
        return f"it plans nothing while no connector serves sink {', '.join(away)}"
    if pipeline.planned:
        current = pipeline.timeline.current
        number = "its micro-batch" if current is None or current.number is None else f"batch {current.number}"
        return f"{number} is not committed yet, and the message is planned after it"
    if (pause := stream.pause or held_by(gateway, pipeline)) is not None:
        return f"nothing new is planned: {_paused(pause)}"
    if stream.must_be_rewound_for(pipeline):
        return "the source must send again what comes before it"
    return f"its query has not asked for its next micro-batch for {int(clock.monotonic() - pipeline.called_at)} s"


def _paused(pause: Pause) -> str:
    return f"{pause.part} was paused by {pause.by}"


def _absent(pipeline: Pipeline) -> str:
    if pipeline.away_since is not None:
        return "its query is away: its lease has ended"
    return "its query is stopped" if pipeline.complete or pipeline.committed else "its query has not attached yet"


def _received_at(stream: Stream, at: Position) -> float | None:
    """Returns when a message was received, on the monotonic clock; None if it is not held."""
    index = bisect_left(stream.frames, at.sequence, key=lambda frame: frame.last)
    if at.epoch != stream.live_epoch or index == len(stream.frames) or stream.frames[index].first > at.sequence:
        return None
    return stream.frames[index].received_at


def _set_batch(reader: pb.MessageReader, batch: Batch | None) -> None:
    if batch is None:
        return
    if batch.number is not None:
        reader.batch = batch.number
    if (last := batch.last_stage()) is not None:
        stage, reached = last
        reader.stage, reader.age_ms = stage_to_proto(stage), max(0, int((clock.now() - reached) * 1000))


def _set_problem(into: pb.LocateMessageResponse | pb.MessageReader, problem: pb.Problem | None) -> None:
    if problem is not None:
        into.problem.CopyFrom(problem)


def _names(pipelines: list[str]) -> str:
    kept = ", ".join(pipelines[:10])
    more = f" and {len(pipelines) - 10} others" if len(pipelines) > 10 else ""
    return f"pipeline{'s' * (len(pipelines) > 1)} {kept}{more}"
