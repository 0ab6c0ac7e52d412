"""What the gateway remembers, as lists of the protocol: dead letters, events and micro-batches."""

import logging
from collections.abc import Iterator

from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_DEAD_LETTERS, MAX_NAME_BYTES
from headrace.gateway.core.base.errors import MalformedMessage, NotPermitted, ProtocolError
from headrace.gateway.core.base.position import BEGINNING, to_proto
from headrace.gateway.core.base.turns import in_slices
from headrace.gateway.core.control import Caller, checked, unknown
from headrace.gateway.core.pipelines import Batch, BatchStream, Pipeline, Stage
from headrace.gateway.core.state import EventLog, Gateway
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2 import ListDeadLettersResponse, SinkDeadLetters

log = logging.getLogger("headrace.gateway.control")


async def list_dead_letters(
    gateway: Gateway, caller: Caller, identity: Identity, sink: str, limit: int
) -> ListDeadLettersResponse:
    """Returns the last dead letters of a sink, or of all sinks of which the caller may see them. Logs who asks.

    Args:
        gateway: The gateway.
        caller: Who asks, for the log.
        identity: Who asks.
        sink: The sink that takes them; empty for all.
        limit: How many of each sink, at most; 0 for all that are kept.

    Raises:
        MalformedMessage: the name is too long, or the limit is too large.
        NotPermitted: the caller may not see messages of the sink.
        UnknownPart: there is no sink of that name.
    """
    facts = {"part": f"sink {sink}"[: 2 * MAX_NAME_BYTES] if sink else "all sinks", "by": caller.name, "peer": caller.peer}
    try:
        names = _names(gateway, identity, sink, limit)
    except ProtocolError as error:
        log.warning("dead letters refused", extra={**facts, "error": str(error)})
        raise
    log.info("dead letters shown", extra=facts)
    most = limit or MAX_DEAD_LETTERS
    kept = gateway.dead_letters
    response = ListDeadLettersResponse(keeps_letters=gateway.peek.enabled)

    def steps() -> Iterator[int]:
        for name in names:
            letters = kept.last(name, most)
            response.sinks.append(SinkDeadLetters(sink=name, count=kept.count(name), letters=letters))
            yield 1 + len(letters)

    await in_slices(steps())
    return response


def _names(gateway: Gateway, identity: Identity, sink: str, limit: int) -> list[str]:
    if limit > MAX_DEAD_LETTERS:
        raise MalformedMessage(f"limit {limit}: the gateway keeps {MAX_DEAD_LETTERS} dead letters of each sink")
    if not sink:
        return [name for name in gateway.dead_letters.sinks() if identity.may_peek(name)]
    if not identity.may_peek(checked(sink)):
        text = f"the token of {identity.name!r} does not allow seeing dead letters of sink {sink!r}; add it to the token's peek"
        raise NotPermitted(text)
    if sink not in gateway.sinks and not gateway.dead_letters.count(sink):
        raise unknown("sink", sink, filter(identity.may_peek, gateway.sinks))
    return [sink]


def list_events(log: EventLog, limit: int, after: int) -> pb.ListEventsResponse:
    """Returns the last events, oldest first.

    Args:
        log: The gateway's memory of events.
        limit: How many at most.
        after: Only events with a larger number.
    """
    events = [
        pb.Event(number=one.number, at_ms=round(one.at * 1000), kind=one.kind, part=one.part, text=one.text)
        for one in log.events(limit, after)
    ]
    return pb.ListEventsResponse(events=events, started_ms=round(log.started_at * 1000))


async def list_batches(
    pipeline: Pipeline, limit: int, number: int | None = None, streams: int = MAX_BATCH_STREAMS
) -> pb.ListBatchesResponse:
    """Returns the last micro-batches of a pipeline, newest first, as they are at the call.

    Hundreds of them name tens of thousands of streams, so they are converted in slices.

    Args:
        pipeline: The pipeline.
        limit: How many of the last ones are considered.
        number: The only one that is returned, if the pipeline has planned it; None for all.
        streams: How many streams of each are named.
    """
    batches = [batch for batch in pipeline.timeline.batches(limit) if number in (None, batch.number)]
    response = pb.ListBatchesResponse(pipeline=pipeline.name)

    def steps() -> Iterator[int]:
        for batch in batches:
            response.batches.append(_batch(batch, streams))
            yield 1 + len(batch.streams[:streams])

    await in_slices(steps())
    return response


def stage_to_proto(stage: Stage) -> pb.BatchStage.ValueType:
    """Converts a stage to the protocol."""
    return pb.BatchStage.Value(f"BATCH_STAGE_{stage.name}")


def _batch(batch: Batch, streams: int) -> pb.BatchStatus:
    return pb.BatchStatus(
        batch=batch.number,
        rebuilt=batch.rebuilt,
        stages=[
            pb.BatchStageTime(stage=stage_to_proto(stage), at_ms=round(at * 1000))
            for stage in Stage
            if (at := batch.time(stage)) is not None
        ],
        streams=map(_stream, batch.streams[:streams]),
        streams_in_all=batch.streams_in_all,
        redelivered=batch.redelivered,
    )


def _stream(read: BatchStream) -> pb.BatchStreamStatus:
    status = pb.BatchStreamStatus(stream=read.stream, end=to_proto(read.end), messages=read.messages)
    if read.after > BEGINNING:
        status.after.CopyFrom(to_proto(read.after))
    return status
