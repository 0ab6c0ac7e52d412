"""The far end of a benchmark: reads a stream from the gateway as Spark does, and acknowledges it, at little cost."""

import time
from collections.abc import Iterator, Sequence

import grpc

from headrace.laboratory.bench.sources import MESSAGE_BYTES
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import engine_pb2_grpc
from headrace.protocol.v1.frame_pb2 import Frame, Position, StreamPosition

_WAIT_MS = 1_000
_SILENT_S = 60.0
_MAX_BYTES = 64 << 20


class MessagesMissing(RuntimeError):
    """What arrived is not what was sent."""


def arrivals(address: str, stream: str, total: int, every_s: float = 0.0) -> Iterator[int]:
    """Reads the messages 1 to `total` of a stream; yields how many have arrived whenever some have, before their acknowledgement.

    Args:
        address: The gateway's.
        stream: The stream's name.
        total: The number of messages.
        every_s: How often to read at most, in seconds.

    Raises:
        MessagesMissing: A message is missing, came twice, or has another size.
        TimeoutError: Nothing arrived for a minute.
    """
    pipeline = pb.Pipeline(name=stream.replace("/", "-"), run=1, streams=[stream])
    committed: list[StreamPosition] = []
    arrived = silent_ms = 0
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", _MAX_BYTES)]) as channel:
        engine = engine_pb2_grpc.EngineServiceStub(channel)
        engine.Attach(pb.AttachRequest(pipeline=pipeline))
        while arrived < total:
            due = time.monotonic() + every_s
            planned = engine.Plan(pb.PlanRequest(pipeline=pipeline, committed=committed, wait_ms=_WAIT_MS)).ranges
            silent_ms = 0 if planned else silent_ms + _WAIT_MS
            if silent_ms > _SILENT_S * 1000:
                raise TimeoutError(f"{arrived:,} of {total:,} messages arrived, and none for {_SILENT_S:.0f} s")
            if planned:
                arrived = _fetched(engine, pipeline, planned[0], committed, arrived)
                committed = [StreamPosition(stream=stream, position=planned[0].end)]
                yield arrived
                time.sleep(max(0.0, due - time.monotonic()))
        engine.Plan(pb.PlanRequest(pipeline=pipeline, committed=committed))
        engine.Detach(pb.DetachRequest(pipeline=pipeline))


def _fetched(
    engine: engine_pb2_grpc.EngineServiceStub,
    pipeline: pb.Pipeline,
    planned: pb.PlannedRange,
    committed: Sequence[StreamPosition],
    arrived: int,
) -> int:
    """Fetches a range that follows the first `arrived` messages; returns how many have arrived then."""
    start: Position | None = committed[0].position if committed else None
    wanted = pb.Range(stream=planned.stream, committed=start, start=start, end=planned.end, batch_end=planned.end)
    for response in engine.Fetch(pb.FetchRequest(pipeline=pipeline, ranges=[wanted])):
        for ranged in response.frames:
            arrived = _checked(ranged.frame, arrived, planned.end.sequence)
    if arrived != planned.end.sequence:
        raise MessagesMissing(f"message {arrived + 1} of {planned.stream} is missing")
    return arrived


def _checked(frame: Frame, arrived: int, end: int) -> int:
    """Returns the number of the frame's last message, as far as the range goes."""
    last = frame.first_sequence + frame.count - 1
    if frame.first_sequence > arrived + 1 or last <= arrived or frame.sequence_deltas:
        raise MessagesMissing(f"messages {frame.first_sequence} to {last} follow message {arrived}")
    if len(frame.values) != frame.count * MESSAGE_BYTES:
        raise MessagesMissing(f"{frame.count} messages have {len(frame.values)} bytes, not {MESSAGE_BYTES} each")
    return min(last, end)
