"""Parts of streams, and how a batch is cut into tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.engine._position import Position
from headrace.protocol.v1 import engine_pb2 as pb


@dataclass(frozen=True, slots=True)
class Ends:
    """What a batch ends besides its ranges.

    Attributes:
        streams: The streams that have ended with it.
        all: Whether event time comes to its end with it, since all streams have.
        forgotten: The streams that ended before and are left out of the checkpoint from it on.
    """

    streams: tuple[str, ...] = ()
    all: bool = False
    forgotten: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.streams or self.forgotten) or self.all


NO_ENDS = Ends()

MIN_TASK_WEIGHT = 2**20
"""A task reads at least about so many bytes, since starting one costs as much as reading them."""


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a stream: the messages after `start`, up to and including `end`.

    Absent positions mean before the first message. A batch may be read in parts, so `start` may lie after `committed` and
    `end` before `batch_end`.
    """

    stream: str
    committed: Position | None
    start: Position | None
    end: Position
    batch_end: Position

    @property
    def low(self) -> int:
        """The sequence that all of its messages lie after."""
        return self.start.sequence if self.start is not None and self.start.epoch == self.end.epoch else -1

    def to_proto(self) -> pb.Range:
        """The wire form."""
        return pb.Range(
            stream=self.stream,
            committed=self.committed.to_proto() if self.committed else None,
            start=self.start.to_proto() if self.start else None,
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
    """Cuts ranges into at most so many lists of about equal weight, which together hold every message exactly once.

    Ranges are laid end to end and cut where a task is full; within a range, weight is taken to be even over its sequences.
    """
    target = max(1, -(-sum(weights) // tasks))
    lists: list[list[Range]] = [[]]
    filled = 0
    for whole, weight in zip(ranges, weights, strict=True):
        low, high = whole.low, whole.end.sequence
        at, used = low, 0
        # A rest that is small for a task stays where it is.
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


def task_count(weight: int, read_tasks: int) -> int:
    """How many tasks a batch of so many bytes is worth."""
    return max(1, min(read_tasks, weight // MIN_TASK_WEIGHT))
