"""Serves planned ranges from the held frames, and waits for the source to resend the others."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import EpochOver, MessagesLost, SourceSilent
from headrace.gateway.core.base.position import BEGINNING, check_name, from_proto
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams import HeldFrame, Stream
from headrace.protocol.v1 import engine_pb2 as pb


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The messages after `start`, up to and including `end`."""

    stream: str
    committed: Position
    start: Position
    end: Position
    batch_end: Position

    @property
    def is_whole(self) -> bool:
        """Whether it is of a resumable stream: it is read as it was planned, or not at all."""
        return self.batch_end.begin is not None

    @classmethod
    def from_proto(cls, wire: pb.Range) -> "ReadRange":
        """Converts a range from its protocol message.

        Raises:
            MalformedMessage: a name or a position is invalid.
        """
        committed = from_proto(wire.committed) if wire.HasField("committed") else BEGINNING
        start = from_proto(wire.start) if wire.HasField("start") else BEGINNING
        end = from_proto(wire.end)
        return cls(
            check_name(wire.stream), committed, start, end, from_proto(wire.batch_end) if wire.HasField("batch_end") else end
        )


async def read(
    pipeline: Pipeline, stream: Stream, read_range: ReadRange, timeout_s: float | None = None
) -> AsyncIterator[list[HeldFrame]]:
    """Yields the frames of a range in order, in groups as available. The first and the last frame may extend beyond the range.

    A range of a past epoch is empty: its messages are redelivered under a new epoch. If another gateway has given the epoch, the
    range waits until the connector has surely left that gateway (`Epochs`), unless it is committed or the pipeline skips losses.
    A range of a resumable stream is never empty: the run would take it for delivered.

    Args:
        pipeline: The pipeline that reads.
        stream: The stream.
        read_range: The range.
        timeout_s: How long to wait for the next frame, in seconds; None to wait forever.

    Raises:
        EpochOver: the range is of a resumable stream, whose source was opened at an earlier place since.
        MessagesLost: the source no longer has the range, and the pipeline does not accept losses.
        SourceSilent: the source has sent none of it for `timeout_s`.
        UnknownPipeline: the run that reads was detached meanwhile.
    """
    waits_since = clock.monotonic()
    at, end = read_range.start, read_range.end
    while at < end:
        if read_range.is_whole and stream.is_over(end.epoch):
            raise EpochOver(_describe_epoch(stream, read_range))
        gives_up = pipeline.skip_lost or read_range.batch_end <= pipeline.position(stream.name)
        gives_up = gives_up and not read_range.is_whole and end.epoch != stream.live_epoch
        if end.epoch and (gives_up or stream.is_over(end.epoch)):
            return
        at = max(at, stream.horizon)
        is_live = not end.epoch or end.epoch == stream.live_epoch
        has_begin = at.epoch < end.epoch and (not read_range.is_whole or stream.start.sequence == 0)
        readable = is_live and (stream.start <= at or has_begin)
        if readable and (frames := list(_up_to(end.sequence, stream.after(at)))):
            at = Position(end.epoch, frames[-1].last, frames[-1].cursor)
            yield frames
            waits_since = clock.monotonic()
            # More frames may have arrived in the meantime, without a notification: check again before waiting or ending.
            continue
        if readable:
            if stream.received >= end or _will_never_arrive(pipeline, stream, read_range, at):
                return
        elif stream.loss is not None:
            _will_never_arrive(pipeline, stream, read_range, at)
        left = None if timeout_s is None else waits_since + timeout_s - clock.monotonic()
        if not await stream.news.wait(left if left is None else max(0.0, left)) and left is not None and left <= 0:
            raise SourceSilent(_describe_silence(stream, at, end, timeout_s or 0.0))
        pipeline.check_not_detached()


def _up_to(sequence: int, frames: Iterable[HeldFrame]) -> Iterator[HeldFrame]:
    """Yields the frames up to the one that reaches a sequence."""
    for frame in frames:
        yield frame
        if frame.last >= sequence:
            return


def _will_never_arrive(pipeline: Pipeline, stream: Stream, read_range: ReadRange, at: Position) -> bool:
    """Returns whether the rest of the range, after `at`, will never arrive, and the pipeline accepts that.

    Raises:
        MessagesLost: it will not arrive, and the pipeline does not accept losses.
    """
    if stream.loss is not None and at <= stream.loss.resume and not pipeline.skip_lost:
        raise MessagesLost(describe_loss(stream, read_range.committed, read_range.batch_end))
    if stream.ended:
        if not pipeline.skip_lost:
            raise MessagesLost(
                f"stream {stream.name}: its source ended at {stream.received}, and {read_range.end} was planned; {REMEDY}"
            )
        return True
    return stream.losses > 0 and stream.loss is None and stream.attachment is not None and stream.caught_up()


def _describe_silence(stream: Stream, at: Position, end: Position, timeout_s: float) -> str:
    """Describes the missing messages, and which connector should send them."""
    owner = stream.attachment
    who = (
        f"instance {owner.session.instance!r} has the stream"
        if owner is not None
        else "no connector serves the stream; start one"
    )
    needed = f"messages after {at}, up to {end}, are needed again"
    return f"stream {stream.name}: {needed}, but none arrived for {timeout_s:g} s; {who}"


def _describe_epoch(stream: Stream, read_range: ReadRange) -> str:
    return (
        f"stream {stream.name}: its source was opened at an earlier place since {read_range.end} was planned; start the query "
        f"again: it continues after {read_range.committed}"
    )


REMEDY = "restore the source, or set failOnDataLoss to false to skip the lost messages"


def describe_loss(stream: Stream, start: Position, end: Position | None) -> str:
    """Describes the lost messages, the range that needs them, and what to do."""
    assert stream.loss is not None
    needed = f"needed: after {start}" + (f", up to {end}" if end is not None else "")
    return f"{stream.loss.describe(stream.name)}; {needed}; {REMEDY}"
