"""Serves planned ranges from the frames that are held, and waits for the source where they are not held any more."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from headrace.gateway.core._errors import MessagesLost
from headrace.gateway.core._frames import HeldFrame
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING, Position, check_name, from_proto
from headrace.gateway.core._stream import Stream
from headrace.protocol.v1 import engine_pb2 as pb


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The messages after `start`, up to and including `end`."""

    stream: str
    committed: Position
    start: Position
    end: Position
    batch_end: Position

    @classmethod
    def from_proto(cls, wire: pb.Range) -> "ReadRange":
        """The range of a wire message.

        Raises:
            MalformedMessage: a name or a position is not valid.
        """
        committed = from_proto(wire.committed) if wire.HasField("committed") else BEGINNING
        start = from_proto(wire.start) if wire.HasField("start") else BEGINNING
        end = from_proto(wire.end)
        return cls(
            check_name(wire.stream), committed, start, end, from_proto(wire.batch_end) if wire.HasField("batch_end") else end
        )


async def read(pipeline: Pipeline, stream: Stream, wanted: ReadRange) -> AsyncIterator[HeldFrame]:
    """The frames of a range in order; the first and the last may reach beyond it.

    A range of an epoch that is over is empty: its messages come again under a new one.

    Raises:
        MessagesLost: the source no longer has the range, and the pipeline does not accept that.
    """
    at, end = wanted.start, wanted.end
    while at < end:
        if end.epoch and end.epoch != stream.live_epoch:
            return
        at = max(at, stream.horizon)
        readable = stream.start <= at or at.epoch < end.epoch
        if readable and (frames := list(stream.after(at))):
            for frame in frames:
                if at >= end:
                    break
                at = Position(end.epoch, frame.last, frame.cursor)
                yield frame
            # While they were sent, more may have come, and its notice is missed: look again before waiting or ending.
            continue
        if readable:
            if stream.received >= end or _gone(pipeline, stream, wanted):
                return
        elif stream.loss is not None:
            _gone(pipeline, stream, wanted)
        await stream.news.wait()


def _gone(pipeline: Pipeline, stream: Stream, wanted: ReadRange) -> bool:
    """Whether the rest of the range will never come.

    Raises:
        MessagesLost: it will not, and the pipeline does not accept that.
    """
    if stream.loss is not None and not pipeline.skip_lost:
        raise MessagesLost(describe_loss(stream, wanted.committed, wanted.batch_end))
    if stream.ended:
        if not pipeline.skip_lost:
            raise MessagesLost(
                f"stream {stream.name}: its source ended at {stream.received}, and {wanted.end} was planned; {REMEDY}"
            )
        return True
    return stream.losses > 0 and stream.loss is None and stream.attachment is not None and stream.caught_up()


REMEDY = "restore the source, or set failOnDataLoss to false to go on without what is lost"


def describe_loss(stream: Stream, start: Position, end: Position | None) -> str:
    """What was lost, which range of the pipeline needs it, and what to do."""
    assert stream.loss is not None
    needed = f"needed: after {start}" + (f", up to {end}" if end is not None else "")
    return f"{stream.loss.describe(stream.name)}; {needed}; {REMEDY}"
