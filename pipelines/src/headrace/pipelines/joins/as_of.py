"""The join of values with the rows of a table."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.message import Message
from headrace.pipelines.joins.step import Join
from headrace.pipelines.joins.waiting import Entry
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.stateless import Map
from headrace.pipelines.steps.step import StepPass, each
from headrace.pipelines.time.time import END, in_words

_AT = attrgetter("at")


@dataclass(frozen=True, eq=False)
class Rows(Map):
    """The rows that messages contain; None if a message deletes its row."""

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The rows, and None."""
        rows, kept = each(self, self.function, elements, step_pass)
        return kept.changed(rows)

    @property
    def label(self) -> str:
        """The kind."""
        return "table"


@dataclass(frozen=True, eq=False)
class JoinAsOf(Join):
    """Has each value of the left side meet the last row of its key up to its event time."""

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "join"

    @property
    def divided(self) -> str:
        """How long rows are kept and waited for."""
        return f"rows as of {in_words(self.left.held)} before, {in_words(self.right.held)} late"

    @property
    def bound(self) -> Bound:
        """How long rows are kept, and values wait."""
        replaced, wait = in_words(self.left.held + self.right.held), in_words(self.right.held)
        return Bound(
            f"the row of each key until a tombstone deletes it, replaced ones for {replaced} of event time (retention, delay), "
            f"values for {wait} (delay)"
        )

    def time_of(self, left: Entry, right: Entry) -> int:
        """The event time of the value of the left side."""
        return left.time

    def partners(self, left: Entry, rights: Sequence[Entry]) -> Sequence[int]:
        """The last row, unless it is deleted."""
        last = bisect_right(rights, left.at, key=_AT) - 1
        return () if last < 0 or rights[last].value is None else (last,)

    def are_met(self, right: Entry, lefts: Sequence[int]) -> bool:
        """True: rows make no results."""
        return True

    def expired(self, rights: Sequence[Entry], watermark: int) -> int:
        """The rows before the one as of the earliest time that is still asked for, and that one if it is deleted."""
        return expired(rights, watermark - self._stay)

    def expires(self, rights: Sequence[Entry]) -> int:
        """When the second row replaces the first one for all values to come, or the first one if that is deleted."""
        return expires(rights, self._stay)

    @property
    def _stay(self) -> int:
        """How long the watermark must be past a row before nothing asks for an earlier one."""
        return self.left.held + self.left.wait


def expired(rows: Sequence[Entry], oldest: int) -> int:
    """How many rows of a key, in order, nothing asks for from an event time on."""
    last = bisect_right(rows, oldest, key=_AT) - 1
    return max(last, 0) if last < 0 or rows[last].value is not None else last + 1


def expires(rows: Sequence[Entry], stay: int) -> int:
    """The watermark at which the first row of a key expires; END for never.

    Args:
        rows: The rows of a key, in order.
        stay: How long the watermark must be past a row before nothing asks for an earlier one, in microseconds.
    """
    if rows and rows[0].value is None:
        return rows[0].at + stay
    return rows[1].at + stay if len(rows) > 1 else END


def message_key(message: Message) -> bytes | None:
    """The key of a message."""
    return message.key


def row_of(decode: Any) -> Any:
    """A function that returns the row of a message; None if it is deleted."""
    return lambda message: None if message.value is None else decode(message.value)
