"""What a function may know about the value that it is called with, and ask for."""

from bisect import insort
from datetime import datetime, timedelta
from typing import Any

from headrace.pipelines._elements import Key
from headrace.pipelines._time import event_time, microseconds_of


class Context:
    """The third parameter of a stateful function: what it is called for.

    Times are in microseconds since 1970-01-01 UTC.

    Attributes:
        key: The key.
        event_time: When the value happened, or the time of the timer; None where it is not known.
        stream: The stream that the value comes from; of a timer, that of the last value of its key.
        sequence: The place there of the message that it comes from.
        message_id: The message's id; None where it has none, and for a timer.
        watermark: How far event time has come: the mark of the value, or the time of the timer; None where no time is known yet.
    """

    __slots__ = ("_at", "_forgotten", "_timers", "event_time", "key", "message_id", "sequence", "stream", "watermark")

    def __init__(
        self,
        key: Key,
        event_time: int | None,
        stream: str,
        sequence: int,
        message_id: str | None,
        watermark: int | None,
        at: int | None = None,
    ) -> None:
        self.key: Any = key
        self.event_time = event_time
        self.stream, self.sequence, self.message_id = stream, sequence, message_id
        self.watermark = watermark
        self._at = at
        self._timers: list[int] | None = None
        self._forgotten = False

    def lend(self, timers: list[int] | None) -> None:
        """Has these timers be set and cancelled from here on; None where there can be none."""
        self._timers = timers

    def set_timer(self, at: datetime | int | None = None, *, after: timedelta | str | None = None) -> None:
        """Has `on_timer` called with the key's state when event time has come that far.

        A key may have several timers, and one at a time. A time that has passed already is due at once, after this call.

        Args:
            at: When: a datetime, or microseconds since 1970 UTC.
            after: How long after `event_time` instead: "10 minutes".

        Raises:
            ValueError: `after` without an event time; a time in none of the years 1 to 9999; or a timer sets one that is not
                later than itself.
        """
        time, timers = self._time(at, after), self._own_timers()
        if self._at is not None and time <= self._at:
            raise ValueError("a timer must set timers that are later than itself")
        if time not in timers:
            insort(timers, time)

    def cancel_timer(self, at: datetime | int | None = None, *, after: timedelta | str | None = None) -> None:
        """Forgets a timer that was set for a time; nothing happens where there is none."""
        time, timers = self._time(at, after), self._own_timers()
        if time in timers:
            timers.remove(time)

    def forget(self) -> None:
        """Has the key's state and its timers forgotten after this call."""
        self._forgotten = True

    @property
    def forgotten(self) -> bool:
        """Whether `forget` was called."""
        return self._forgotten

    def _time(self, at: datetime | int | None, after: timedelta | str | None) -> int:
        if (at is None) == (after is None):
            raise TypeError("say when: either a time, or after=")
        if at is not None:
            return event_time(at)
        if self.event_time is None:
            raise ValueError(f"after={after!r} is counted from the event time, and there is none; see event_time(...)")
        return event_time(self.event_time + microseconds_of(after or ""))

    def _own_timers(self) -> list[int]:
        if self._timers is None:
            raise RuntimeError("the step has nothing to call: give it on_timer=")
        return self._timers
