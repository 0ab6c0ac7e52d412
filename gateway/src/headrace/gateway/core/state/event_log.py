"""What happened: the last events of a gateway, in memory, so that what is over can still be read."""

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge

from headrace.contract import clock
from headrace.contract.limits import MAX_EVENTS

MAX_TEXT = 300
"""Characters of an event's text, and of its part."""


class EventKind(StrEnum):
    """The kinds of events."""

    ATTACHED = "attached"
    DETACHED = "detached"
    RESTARTED = "restarted"
    REJECTED = "rejected"
    FAULT_BEGAN = "fault-began"
    FAULT_ENDED = "fault-ended"


MAX_OF_KIND = MAX_EVENTS // len(EventKind)
"""How many events of each kind are kept: a connector that comes and goes must not push out the faults."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        number: Its number since the gateway started, from 1.
        occurred_at: When, on the monotonic clock, in seconds.
        kind: Its kind.
        part: The part concerned, such as `pipeline totals`.
        text: What happened, for people; empty if the kind says it all.
    """

    number: int
    occurred_at: float
    kind: EventKind
    part: str
    text: str = ""

    @property
    def at(self) -> float:
        """When it happened, in seconds since 1970: the clock may have been set since."""
        return clock.now() - (clock.monotonic() - self.occurred_at)


class EventLog:
    """The last events of each kind."""

    def __init__(self) -> None:
        self.started_at = clock.now()
        """When it began, in seconds since 1970: numbers of another gateway, or of one that has restarted, mean nothing here."""
        self._numbers = itertools.count(1)
        self._events: dict[EventKind, deque[Event]] = {kind: deque(maxlen=MAX_OF_KIND) for kind in EventKind}

    def add(self, kind: EventKind, part: str, text: str = "") -> None:
        """Notes that something happened now. Texts may come from callers: they are cut, and kept as one line."""
        event = Event(next(self._numbers), clock.monotonic(), kind, _line(part), _line(text))
        self._events[kind].append(event)

    def events(self, limit: int = MAX_EVENTS, after: int = 0) -> list[Event]:
        """Returns the last events, oldest first.

        Args:
            limit: How many at most; the latest ones count.
            after: Only events with a larger number.
        """
        ordered: Iterable[Event] = merge(*self._events.values(), key=lambda event: event.number)
        return list(deque((event for event in ordered if event.number > after), maxlen=limit))


def _line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT])
