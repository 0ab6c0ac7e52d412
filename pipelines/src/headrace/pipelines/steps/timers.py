"""The state of a key with its timers, and how it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipelines.elements.elements import Key, Lineage
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.states.state import TIMERS, StateClass
from headrace.pipelines.time.time import END

if TYPE_CHECKING:
    from headrace.pipelines.steps.due import Index


class TimedState:
    """The state of a key, and its timers.

    Attributes:
        state: The state of the application.
        timers: The times of the timers, in order.
        last: The mark of the key's last element; NO_TIME if it is unknown.
        stream: The stream of that element.
        sequence: Its sequence.
        by_clock: The times of the timers by the clock, in order. One that is relative to the micro-batch in which it was set is
            negative, `since(span)`, until that micro-batch ends.
        lineage: The lineage of the key's last element, if a step needs it.
        listed: A time by the clock at which an index of timers lists the key, or later; END if it does not list it. A state that
            is read again is listed at its next timer or earlier.
    """

    __slots__ = ("by_clock", "last", "lineage", "listed", "sequence", "state", "stream", "timers")

    def __init__(
        self,
        state: Any,
        timers: list[int],
        last: int = NO_TIME,
        stream: str = "",
        sequence: int = 0,
        by_clock: list[int] | None = None,
        lineage: Lineage = (),
    ) -> None:
        self.state, self.timers, self.last, self.stream, self.sequence = state, timers, last, stream, sequence
        self.by_clock = [] if by_clock is None else by_clock
        self.lineage = lineage
        self.listed = self.by_clock[0] if self.by_clock and self.by_clock[0] >= 0 else END

    def __reduce__(self) -> Any:
        """The state without `listed`."""
        return TimedState, (self.state, self.timers, self.last, self.stream, self.sequence, self.by_clock, self.lineage)


@dataclass(frozen=True)
class TimedStateClass(StateClass):
    """Stores states with timers. States of a step without a context are read as states without timers."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """States and timers as bytes."""
        names = ["timers", "last", "stream", "sequence"]
        if any(timed.by_clock or timed.lineage for timed in states):
            names += ["by_clock", "lineage"] if any(timed.lineage for timed in states) else ["by_clock"]
        columns = [[getattr(timed, name) for timed in states] for name in names]
        return self.laid_out(TIMERS, columns, [timed.state for timed in states])

    def unpack(self, packed: bytes) -> list[Any]:
        """The states and timers from bytes."""
        if not self.is_laid_out(packed):
            return [TimedState(state, []) for state in StateClass.unpack(self, packed)]
        columns, states = self.taken_apart(TIMERS, packed)
        return list(map(TimedState, states, *columns))


def since(span: int) -> int:
    """A timer that is due some time after the end of its micro-batch, in microseconds."""
    return -1 - span


def resolved(timed: Any, *, now: int) -> Any:
    """A state whose timers by the clock all have a time, at the end of a micro-batch at a time."""
    timed.by_clock = sorted({at if at >= 0 else now - 1 - at for at in timed.by_clock})
    return timed


def next_by_clock(timed: TimedState) -> int:
    """When the next timer by the clock is due; END for never."""
    return timed.by_clock[0] if timed.by_clock else END


def listed_by_clock(timed: TimedState) -> int:
    """The same, noted as listed in the index. A timer without a time yet is listed besides, until the micro-batch ends."""
    at = next_by_clock(timed)
    if at >= 0:
        timed.listed = at
    return at


def newly_listed_by_clock(timed: TimedState) -> int:
    """The same, for an index that does not list the key, or lists an older state of it."""
    timed.listed = END
    return listed_by_clock(timed)


def list_again(due: "Index", key: Key, timed: TimedState, now: int) -> None:
    """Lists a key, which the index had listed up to now, at its next timer, unless it still lists it before."""
    if timed.listed <= now:
        timed.listed = END
    if next_by_clock(timed) < timed.listed:
        due.add(key, listed_by_clock(timed))
