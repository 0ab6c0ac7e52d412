"""Ranges of streams, and how a batch is divided into tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.engine.checkpoint.position import Position, to_wire
from headrace.protocol.v1 import engine_pb2 as pb


@dataclass(frozen=True, slots=True)
class Ends:
    """The streams that are opened, end, or are forgotten with a batch.

    Attributes:
        streams: The streams that end with the batch.
        all: Whether event time ends with it, since all streams have ended.
        forgotten: The streams that ended earlier, and that the checkpoint omits from this batch on.
        opened: The streams that the checkpoint has from this batch on.
        elapsed: The time from when the first batch was planned to when this one was, in microseconds; 0 if no step needs it.
        clock: For how long the application has run, in microseconds; None if nothing needs it.
        planned_at: When the batch was planned, in microseconds since 1970; None if no step needs it.
        bootstrapped: The tables that were read to their present end with the batch, or before, each with the
            patterns of its streams.
    """

    streams: tuple[str, ...] = ()
    all: bool = False
    forgotten: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    elapsed: int = 0
    clock: int | None = None
    planned_at: int | None = None
    bootstrapped: frozenset[tuple[str, str]] = frozenset()

    def __bool__(self) -> bool:
        """Whether any stream is opened, ends or is forgotten, a table was read, or time has passed that a step needs."""
        times = (self.clock, self.planned_at)
        named = self.streams or self.forgotten or self.opened or self.bootstrapped
        return bool(named or self.elapsed) or self.all or times != (None, None)


NO_ENDS = Ends()

MIN_TASK_WEIGHT = 2**20
"""The approximate minimum that a task reads, in bytes: starting a task costs as much as reading them."""


def begins_of(start: Mapping[str, Position], end: Mapping[str, Position]) -> dict[str, Position]:
    """Returns the positions where a batch begins. Of a resumable stream, its end tells whether the batch before was read."""
    begins = {name: _place_before(position, end.get(name)) for name, position in start.items()}
    return {**begins, **{name: at.taken_as_unread() for name, at in end.items() if at.begin is not None}}


def _place_before(start: Position, end: Position | None) -> Position:
    """Returns where a batch begins in a stream whose last batch is confirmed or taken back by its own end."""
    return start.taken_as_read() if end is None or end == start or start.begin is None else start.taken_as_unread()


def ranges_of(start: Mapping[str, Position], end: Mapping[str, Position], *, as_planned: bool) -> "list[Range]":
    """Returns what a batch reads between the positions of two offsets.

    Args:
        start: The positions where it begins.
        end: The positions where it ends.
        as_planned: Whether the run that reads the batch has planned it. Another run gives up the ranges of resumable streams,
            whose messages may be gone: what follows their beginning comes in the next batch.
    """
    ranges = []
    for name, position in end.items():
        if position.begin is not None:
            begin = position.taken_as_unread()
            if as_planned:
                ranges.append(Range(name, begin, begin, position, position))
        elif (known := start.get(name)) != position and not position.start and (known is None or known < position):
            ranges.append(Range(name, known, known, position, position))
    return ranges


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a stream: the messages after `start`, up to and including `end`.

    An absent position is before the first message. A batch may be divided, so `start` may be after `committed`, and `end`
    before `batch_end`.
    """

    stream: str
    committed: Position | None
    start: Position | None
    end: Position
    batch_end: Position

    @property
    def low(self) -> int:
        """The sequence after which its messages begin."""
        return self.start.sequence if self.start is not None and self.start.epoch == self.end.epoch else -1

    def to_proto(self) -> pb.Range:
        """The wire form."""
        return pb.Range(
            stream=self.stream,
            committed=to_wire(self.committed),
            start=to_wire(self.start),
            end=self.end.to_proto(),
            batch_end=self.batch_end.to_proto(),
        )

    @classmethod
    def from_proto(cls, wire: pb.Range) -> "Range":
        """The range of a wire message."""
        return cls(
            wire.stream,
            Position.from_proto(wire.committed) if wire.HasField("committed") else None,
            Position.from_proto(wire.start) if wire.HasField("start") else None,
            Position.from_proto(wire.end),
            Position.from_proto(wire.batch_end),
        )

    def part(self, low: int, high: int) -> "Range":
        """The messages with sequences after `low`, up to `high`."""
        if low == self.low and high == self.end.sequence:
            return self
        start = self.start if low == self.low else Position(self.end.epoch, low)
        end = self.end if high == self.end.sequence else Position(self.end.epoch, high)
        return replace(self, start=start, end=end)


def split(ranges: Sequence[Range], weights: Sequence[int], tasks: int) -> list[list[Range]]:
    """Divides ranges into at most `tasks` lists of about equal weight, which together contain every message exactly once.

    Within a range, the weight is assumed to be spread evenly over its sequences.
    """
    target = max(1, -(-sum(weights) // tasks))
    lists: list[list[Range]] = [[]]
    filled = 0
    for whole, weight in zip(ranges, weights, strict=True):
        low, high = whole.low, whole.end.sequence
        at, used = low, 0
        # A small remainder stays in the same task.
        while weight - used > target - filled + target // 8 and len(lists) < tasks:
            used += target - filled
            edge = low + (high - low) * used // weight
            if at < edge < high:
                lists[-1].append(whole.part(at, edge))
                at = edge
            lists.append([])
            filled = 0
        lists[-1].append(whole.part(at, high))
        filled += weight - used
    return [part for part in lists if part]
