"""The context of a call of a stateful function."""

from bisect import insort
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.pipelines.elements.elements import Key, Lineage
from headrace.pipelines.elements.headers import NO_HEADERS, Headers
from headrace.pipelines.steps.timers import since
from headrace.pipelines.time.time import LATEST, clock_time, event_time, microseconds_of


class Context:
    """The third parameter of a stateful function, and the second one of `on_timer`: describes the value or the timer.

    Times are in microseconds since 1970-01-01 UTC.

    Attributes:
        key: The key.
        event_time: The event time of the value, or the time of the timer; for a timer by the clock, the event time that has been
            reached, or a later one of the key's values. None if it is unknown.
        clock: The time of a timer by the clock; None for anything else.
        stream: The stream that the value comes from; for a timer, the stream of the last value of its key.
        sequence: The sequence of the message that it comes from.
        message_id: The id of the message; None if it has none, and for a timer.
        watermark: The watermark of the value's stream, or the time of the timer; None if no event time is known yet, and for a
            timer by the clock.
    """

    __slots__ = (
        "_at",
        "_by_clock",
        "_forgotten",
        "_headers",
        "_now",
        "_place",
        "_timers",
        "clock",
        "event_time",
        "key",
        "lineage",
        "message_id",
        "sequence",
        "stream",
        "watermark",
    )

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
        self._by_clock: list[int] | None = None
        self._now: int | None = None
        self.clock: int | None = None
        self._forgotten = False
        self._headers: Sequence[Headers] | None = None
        self.lineage: Lineage = ()

    def bind_headers(self, headers: Sequence[Headers], place: int) -> None:
        """Sets where the headers of the value are, which are created only if the function reads them."""
        self._headers, self._place = headers, place

    @property
    def headers(self) -> Headers:
        """The headers of the value; empty for a timer."""
        return NO_HEADERS if self._headers is None else self._headers[self._place]

    def bind_timers(self, timers: list[int], by_clock: list[int] | None = None) -> None:
        """Sets the lists that `set_timer` and `cancel_timer` change; `by_clock` is None for a step without such timers."""
        self._timers, self._by_clock = timers, by_clock

    def bind_clock(self, at: int, now: int) -> None:
        """Sets the time of a timer by the clock, and the clock at the end of its micro-batch."""
        self.clock, self._now = at, now

    def set_timer(
        self,
        at: datetime | int | None = None,
        *,
        after: timedelta | str | None = None,
        at_clock: datetime | int | None = None,
        after_clock: timedelta | str | None = None,
    ) -> None:
        """Sets a timer: `on_timer` is called with the key's state when the watermark, or the clock, reaches the time.

        A key may have several timers, but only one for each time. If the time has already passed, the timer fires right after
        this call, or by the clock at the end of a micro-batch: of this one, or of the next one if a timer sets it.

        Args:
            at: The time: a datetime, or microseconds since 1970 UTC.
            after: Instead, a duration after `event_time`: a timedelta, or text such as "10 minutes".
            at_clock: Instead, a time of the clock, as `at`. The clock is when the micro-batch was planned.
            after_clock: Instead, a duration after the time at which this micro-batch was planned.

        Raises:
            TypeError: Not exactly one of the four is given, or it is of another type.
            ValueError: There is no event time for `after`, a duration is negative, the time is outside the years 1 to 9999, or by
                the clock before 1970, a datetime has no time zone, or a timer sets one that is not later than itself.
            RuntimeError: The step has no `on_timer`, or by the clock no `clock_every`.
        """
        if at_clock is not None or after_clock is not None:
            if at is not None or after is not None:
                raise TypeError("pass only one of a time, after=, at_clock= and after_clock=")
            clock, timers = self._clock_time(at_clock, after_clock), self._clock_timers()
            if clock not in timers:
                insort(timers, clock)
            return
        time, timers = self._time(at, after), self._own_timers()
        if self._at is not None and time <= self._at:
            raise ValueError("a timer must set timers that are later than itself")
        if time not in timers:
            insort(timers, time)

    def cancel_clock_timers(self) -> None:
        """Cancels all timers of the key that are by the clock.

        Raises:
            RuntimeError: The step has no `on_timer`, or no `clock_every`.
        """
        self._clock_timers().clear()

    def cancel_timer(self, at: datetime | int | None = None, *, after: timedelta | str | None = None) -> None:
        """Cancels the timer for an event time, if there is one.

        Args:
            at: See `set_timer`.
            after: See `set_timer`.

        Raises:
            TypeError: See `set_timer`.
            ValueError: See `set_timer`, but for timers that are not later.
            RuntimeError: The step has no `on_timer`.
        """
        time, timers = self._time(at, after), self._own_timers()
        if time in timers:
            timers.remove(time)

    def forget(self) -> None:
        """Removes the key's state and its timers after this call."""
        self._forgotten = True

    @property
    def forgotten(self) -> bool:
        """Whether `forget` was called."""
        return self._forgotten

    def _time(self, at: datetime | int | None, after: timedelta | str | None) -> int:
        if (at is None) == (after is None):
            raise TypeError("pass either a time or after=")
        if at is not None:
            return event_time(at)
        if self.event_time is None:
            raise ValueError(f"after={after!r} is relative to the event time, and there is none; see event_time(...)")
        assert after is not None
        span = microseconds_of(after)
        if span < 0:
            raise ValueError(f"after={after!r} is before the event time; pass a duration of at least 0, or a time as at=")
        return event_time(self.event_time + span)

    def _clock_time(self, at: datetime | int | None, after: timedelta | str | None) -> int:
        """The time of a timer by the clock; `since` a duration where the end of the micro-batch is not known yet."""
        if (at is None) == (after is None):
            raise TypeError("pass either at_clock= or after_clock=")
        if at is not None:
            return clock_time(at)
        assert after is not None
        span = microseconds_of(after)
        if span < 0:
            raise ValueError(f"after_clock={after!r} is negative; pass a duration of at least 0")
        # The clock is not known to functions of values. It is after the year 2000, unless a test sets it.
        if (self._now or 0) + span > LATEST:
            raise ValueError(f"after_clock={after!r} is longer than time by the clock, which ends with the year 9999")
        return since(span) if self._now is None else self._now + span

    def _clock_timers(self) -> list[int]:
        self._own_timers()
        if self._by_clock is None:
            raise RuntimeError("the step has no clock_every, which timers by the clock need")
        return self._by_clock

    def _own_timers(self) -> list[int]:
        if self._timers is None:
            raise RuntimeError("the step has no on_timer, which timers need")
        return self._timers
