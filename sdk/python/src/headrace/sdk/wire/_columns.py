"""Consecutive messages in columns, and functions that join such columns. No I/O."""

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise

from headrace.contract.columns import MAX_DELTA, NULL_TIME
from headrace.contract.columns import NULL_LENGTH as NULL


@dataclass(frozen=True)
class Column:
    """Concatenated byte strings, and the length of each."""

    data: bytes
    lengths: "array[int]"

    @cached_property
    def ends(self) -> list[int]:
        """The end offset of each entry in `data`, with a leading 0; needed only for slicing."""
        if NULL in self.lengths:
            return list(accumulate((0 if length == NULL else length for length in self.lengths), initial=0))
        return list(accumulate(self.lengths, initial=0))


@dataclass(frozen=True)
class Columns:
    """Consecutive messages in columns. Immutable; frames are cut from it by index.

    Attributes:
        count: The number of messages.
        first: The sequence of the first message.
        deltas: Differences between consecutive sequences, as array "I" or "Q"; empty if all are 1.
        cursors: Pairs of the number of messages before a cursor, and the cursor; in order.
        tokens: One for each message, or empty.
    """

    count: int
    first: int
    deltas: "array[int]"
    values: Column
    keys: Column | None = None
    event_times: "array[int] | None" = None
    message_ids: Column | None = None
    header_counts: "array[int] | None" = None
    header_names: Column | None = None
    header_values: Column | None = None
    cursors: list[tuple[int, bytes]] = field(default_factory=list)
    tokens: Sequence[object] = ()

    @cached_property
    def sequences(self) -> Sequence[int]:
        """The sequence of every message."""
        if not self.deltas:
            return range(self.first, self.first + self.count)
        return list(accumulate(self.deltas, initial=self.first))

    @cached_property
    def last(self) -> int:
        """The sequence of the last message."""
        return self.first + (sum(self.deltas) if self.deltas else self.count - 1)

    @cached_property
    def header_ends(self) -> list[int]:
        """The total number of headers of all messages before each index, with a leading 0."""
        return list(accumulate(self.header_counts or (), initial=0))


def join(parts: Sequence[Columns]) -> Columns:
    """Joins columns in ascending order of sequence. An optional column that a part lacks is null for its messages."""
    if len(parts) == 1:
        return parts[0]
    counts = [part.count for part in parts]
    with_headers = any(part.header_counts is not None for part in parts)
    with_tokens = any(part.tokens for part in parts)
    times = [part.event_times for part in parts]
    return Columns(
        count=sum(counts),
        first=parts[0].first,
        deltas=_joined_deltas(parts),
        values=_joined([part.values for part in parts], counts),
        keys=_joined_optional([part.keys for part in parts], counts),
        event_times=_joined_arrays(times, counts, array("q", [NULL_TIME])) if any_given(times) else None,
        message_ids=_joined_optional([part.message_ids for part in parts], counts),
        header_counts=_joined_arrays([part.header_counts for part in parts], counts, array("I", [0])) if with_headers else None,
        header_names=_joined_present([part.header_names for part in parts]) if with_headers else None,
        header_values=_joined_present([part.header_values for part in parts]) if with_headers else None,
        cursors=_joined_cursors(parts),
        tokens=[t for part in parts for t in (part.tokens or [None] * part.count)] if with_tokens else (),
    )


def any_given(values: Sequence[object]) -> bool:
    """Returns whether any value is not None; the count runs in C."""
    return values.count(None) != len(values)


def little_endian(numbers: "array[int]") -> bytes:
    """Returns the numbers as in a frame."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _joined(parts: Sequence[Column], counts: Sequence[int]) -> Column:
    """Joins columns."""
    return Column(b"".join([part.data for part in parts]), _joined_arrays([p.lengths for p in parts], counts, array("I", [NULL])))


def _joined_optional(parts: Sequence[Column | None], counts: Sequence[int]) -> Column | None:
    """Joins columns, some of which may be absent; None if all are."""
    if not any_given(parts):
        return None
    absent = Column(b"", array("I"))
    lengths = _joined_arrays([None if part is None else part.lengths for part in parts], counts, array("I", [NULL]))
    return Column(b"".join([(part or absent).data for part in parts]), lengths)


def _joined_present(parts: Iterable[Column | None]) -> Column:
    """Joins the columns that are present, without nulls for absent ones."""
    present = [part for part in parts if part is not None]
    return _joined(present, [len(part.lengths) for part in present])


def _joined_arrays(parts: "Sequence[array[int] | None]", counts: Sequence[int], null: "array[int]") -> "array[int]":
    """Joins arrays; an absent one counts as nulls."""
    joined: array[int] = array(null.typecode)
    for part, count in zip(parts, counts, strict=True):
        joined.extend(null * count if part is None else part)
    return joined


def _joined_deltas(parts: Sequence[Columns]) -> "array[int]":
    """Returns the deltas within and between parts; empty if all are 1."""
    between = [after.first - before.last for before, after in pairwise(parts)]
    if not any(part.deltas for part in parts) and all(gap == 1 for gap in between):
        return array("I")
    wide = any(part.deltas.typecode == "Q" for part in parts) or max(between) > MAX_DELTA
    extend: Callable[[array[int]], array[int]] = (lambda a: array("Q", a)) if wide else (lambda a: a)
    joined: array[int] = array("Q" if wide else "I")
    for part, gap in zip(parts, [*between, 0], strict=True):
        joined.extend(extend(part.deltas or array("I", [1]) * (part.count - 1)))
        joined.append(gap)
    joined.pop()
    return joined


def _joined_cursors(parts: Sequence[Columns]) -> list[tuple[int, bytes]]:
    """Returns the cursors of all parts, with positions relative to the start of the first part."""
    starts = accumulate((part.count for part in parts), initial=0)
    return [(start + at, cursor) for start, part in zip(starts, parts, strict=False) for at, cursor in part.cursors]
