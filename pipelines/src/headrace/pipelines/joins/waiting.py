"""What a join keeps for each key: the values of both sides that may still meet."""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from headrace.pipelines.states.state import StateClass
from headrace.pipelines.time.time import END

_LAYOUT = "values that wait"
LEFT, RIGHT = 0, 1


class Entry(NamedTuple):
    """A value of one side.

    Attributes:
        due: The watermark at which its result is due, if it makes one.
        at: The event time at which it meets values of the other side: its own, or a later one if it was late.
        time: Its own event time.
        stream: The stream that it comes from.
        sequence: The sequence of its message.
        side: LEFT or RIGHT.
        is_alone: Whether it meets nothing, since it was late.
        has_met: Whether it makes no result of its own: a value of the left side has met it, or it has made one.
        value: The value.
    """

    due: int
    at: int
    time: int
    stream: str
    sequence: int
    side: int
    is_alone: bool
    has_met: bool
    value: Any


class Waiting:
    """The values of a key that wait.

    Attributes:
        queue: Values that make a result when they are due, in that order: values of the left side, and late ones of both.
        rights: The values of the right side that others may meet, by time.
        next: When something is due; END for never.
    """

    __slots__ = ("next", "queue", "rights")

    def __init__(self, queue: list[Entry], rights: list[Entry], next: int = END) -> None:
        self.queue, self.rights, self.next = queue, rights, next

    def add(self, entry: Entry) -> None:
        """Adds a value at its place."""
        if entry.side == LEFT or entry.is_alone:
            insort(self.queue, entry, key=in_turn)
        else:
            insort(self.rights, entry, key=_by_time)

    def __bool__(self) -> bool:
        """Whether there is any value."""
        return bool(self.queue or self.rights)


@dataclass(frozen=True)
class WaitingClass(StateClass):
    """Stores the values that wait, as lists, beside their times."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """The values of keys as bytes."""
        counts = [(len(waiting.queue), len(waiting.rights), waiting.next) for waiting in states]
        rows = [entry[:-1] for waiting in states for entry in (*waiting.queue, *waiting.rights)]
        values = [[entry.value for entry in (*waiting.queue, *waiting.rights)] for waiting in states]
        return self.laid_out(_LAYOUT, (counts, rows), values)

    def unpack(self, packed: bytes) -> list[Any]:
        """The values of keys from bytes."""
        (counts, rows), values = self.taken_apart(_LAYOUT, packed)
        entries = _entries(iter(rows), values)
        return [Waiting(list(islice(entries, queue)), list(islice(entries, rights)), next) for queue, rights, next in counts]


def in_turn(entry: Entry) -> tuple[int, int, str]:
    """The order of results: as they are due, and of one stream by sequence."""
    return entry.due, entry.sequence, entry.stream


def _by_time(entry: Entry) -> tuple[int, str, int]:
    return entry.at, entry.stream, entry.sequence


def _entries(rows: Iterator[Sequence[Any]], values: Sequence[Sequence[Any]]) -> Iterator[Entry]:
    for some in values:
        for value in some:
            yield Entry._make((*next(rows), value))
