"""What pipelines must do, told one value at a time: a model that shares no code with the product.

Here all that is due by the mark of a value happens right before that value, for every key, in the order of the times at which
it is due. There are no batches, no buckets, and nothing is stored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FAR = 10**18
"""Later than anything, and with a minus earlier."""


class Event(NamedTuple):
    """A value on its way."""

    key: Any
    value: int
    time: int
    mark: int
    sequence: int


class Bad(Exception):
    """The error of the tests' functions; it skips the value."""


class Operator:
    """One step. `lag` is how far marks are ahead of the event times that it is given."""

    lag = 0
    delay = 0

    def take(self, event: Event) -> list[Event]:
        """What comes of a value."""
        raise NotImplementedError

    def advance(self, mark: int) -> list[Event]:
        """What comes because event time has come to a mark."""
        return []


@dataclass
class Fold(Operator):
    """A function with a state. It is forgotten when event time advances by `ttl` without a value of its key."""

    function: Callable[[int, dict[str, int]], int | None]
    ttl: int | None = None
    states: dict[Any, dict[str, int]] = field(default_factory=dict)
    last: dict[Any, int] = field(default_factory=dict)

    def take(self, event: Event) -> list[Event]:
        state = dict(self.states.get(event.key, {}))
        try:
            result = self.function(event.value, state)
        except Bad:
            return []
        self.states[event.key] = state
        self.last[event.key] = max(self.last.get(event.key, -FAR), event.mark)
        return [] if result is None else [event._replace(value=result)]

    def advance(self, mark: int) -> list[Event]:
        for key in [key for key in self.states if self.ttl is not None and self.last[key] + self.ttl <= mark]:
            del self.states[key], self.last[key]
        return []


@dataclass
class Counted(Operator):
    """So many values make one."""

    size: int
    update: Callable[[int, int], int]
    states: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: Event) -> list[Event]:
        count, so_far = self.states.get(event.key, (0, 0))
        try:
            count, so_far = count + 1, self.update(so_far, event.value)
        except Bad:
            return []
        if count < self.size:
            self.states[event.key] = count, so_far
            return []
        self.states.pop(event.key, None)
        return [event._replace(value=so_far)]


@dataclass
class Running(Operator):
    """A result for each value."""

    update: Callable[[int, int], int]
    states: dict[Any, int] = field(default_factory=dict)

    def take(self, event: Event) -> list[Event]:
        try:
            self.states[event.key] = self.update(self.states.get(event.key, 0), event.value)
        except Bad:
            return []
        return [event._replace(value=self.states[event.key])]


@dataclass
class Windows(Operator):
    """Windows on a grid, or sessions where `every` is 0; `late` is one of "drop", "fire" and "place"."""

    size: int
    every: int
    allowed: int
    late: str
    check: Callable[[int], object]
    output: Callable[[list[int], int, int], int]
    open: defaultdict[Any, dict[tuple[int, int], list[int]]] = field(default_factory=lambda: defaultdict(dict))
    last: dict[Any, int] = field(default_factory=dict)

    @property
    def delay(self) -> int:
        return self.allowed + 1

    def take(self, event: Event) -> list[Event]:
        closed = event.mark - self.lag - self.allowed
        windows = [w for w in self._around(event) if w[1] > closed or self._touched(event.key, w)]
        if not windows and self.late == "drop":
            return []
        if not windows and self.late == "fire":
            window = max(self._around(event))
            try:
                self.check(event.value)
                return [event._replace(value=self.output([event.value], *window), time=window[1] - 1)]
            except Bad:
                return []
        mine = {w: list(values) for w, values in self.open[event.key].items()}
        try:
            for window in windows or [self._oldest(closed)]:
                self._put(mine, window, event.value)
        except Bad:
            return []
        self.open[event.key] = mine
        self.last[event.key] = event.sequence
        return []

    def _around(self, event: Event) -> list[tuple[int, int]]:
        if not self.every:
            return [(event.time, event.time + self.size)]
        first = event.time - self.size + 1
        return [(start, start + self.size) for start in range(first, event.time + 1) if start % self.every == 0]

    def _touched(self, key: Any, window: tuple[int, int]) -> bool:
        return not self.every and any(a < window[1] and window[0] < b for a, b in self.open[key])

    def _oldest(self, closed: int) -> tuple[int, int]:
        """The first window that ends after `closed`."""
        if not self.every:
            return closed - self.size + 1, closed + 1
        end = next(end for end in range(closed + 1, closed + 2 + self.every) if (end - self.size) % self.every == 0)
        return end - self.size, end

    def _put(self, mine: dict[tuple[int, int], list[int]], window: tuple[int, int], value: int) -> None:
        values: list[int] = []
        if not self.every:
            for other in sorted(w for w in mine if w[0] < window[1] and window[0] < w[1]):
                values += mine.pop(other)
                window = min(window[0], other[0]), max(window[1], other[1])
        else:
            values = mine.pop(window, [])
        self.check(value)
        mine[window] = [*values, value]

    def advance(self, mark: int) -> list[Event]:
        found = []
        for key, windows in self.open.items():
            for window in sorted((w for w in windows if w[1] + self.allowed + self.lag <= mark), key=lambda w: w[::-1]):
                due = window[1] + self.allowed + self.lag
                try:
                    result = self.output(windows[window], *window)
                    found.append(Event(key, result, window[1] - 1, due, self.last[key]))
                except Bad:
                    pass
                del windows[window]
        return found


@dataclass
class Once(Operator):
    """Each id passes once in a while."""

    id: Callable[[int], Any]
    within: int
    seen: dict[Any, int] = field(default_factory=dict)

    def take(self, event: Event) -> list[Event]:
        id_ = event.key, self.id(event.value)
        if id_[1] is None:
            return [event]
        if id_ in self.seen and self.seen[id_] + self.within > event.mark:
            return []
        self.seen[id_] = event.mark
        return [event]


@dataclass
class Clock:
    """The stand-in for a context of a function with timers."""

    event_time: int
    watermark: int
    timers: set[int]
    forgets: bool = False

    def set_timer(self, at: int) -> None:
        self.timers.add(at)

    def cancel_timer(self, at: int) -> None:
        self.timers.discard(at)

    def forget(self) -> None:
        self.forgets = True


@dataclass
class Alive:
    state: dict[str, int]
    timers: set[int]
    last: int
    sequence: int


@dataclass
class Timers(Operator):
    """A function with a state and timers."""

    function: Callable[[int, dict[str, int], Clock], int | None]
    ring: Callable[[dict[str, int], Clock], int | None]
    ttl: int | None = None
    keys: dict[Any, Alive] = field(default_factory=dict)

    def take(self, event: Event) -> list[Event]:
        now = event.mark - self.lag
        alive = self.keys.get(event.key) or Alive({}, set(), now, event.sequence)
        state, clock = dict(alive.state), Clock(event.time, now, set(alive.timers))
        try:
            result = self.function(event.value, state, clock)
        except Bad:
            return []
        self.keys.pop(event.key, None)
        if not clock.forgets:
            self.keys[event.key] = Alive(state, clock.timers, max(now, alive.last), event.sequence)
        found = [] if result is None else [event._replace(value=result)]
        return found + [e._replace(mark=event.mark) for e in self._key_to(event.key, now)]

    def advance(self, mark: int) -> list[Event]:
        return [event for key in list(self.keys) for event in self._key_to(key, mark - self.lag)]

    def _key_to(self, key: Any, now: int) -> list[Event]:
        return list(self._rings(key, now))

    def _rings(self, key: Any, now: int) -> Iterator[Event]:
        if key not in self.keys:
            return
        dies = FAR if self.ttl is None else self.keys[key].last + self.ttl
        until = min(dies, now)
        while key in self.keys and min(self.keys[key].timers, default=FAR) <= until:
            alive = self.keys[key]
            at = min(alive.timers)
            alive.timers.remove(at)
            state, clock = dict(alive.state), Clock(at, at, set(alive.timers))
            try:
                result = self.ring(state, clock)
            except Bad:
                continue
            if clock.forgets:
                del self.keys[key]
            else:
                alive.state, alive.timers = state, clock.timers
            if result is not None:
                yield Event(key, result, at, at + self.lag, alive.sequence)
        if dies <= now:
            self.keys.pop(key, None)


class Chain:
    """Steps one after the other, behind one `key_by`."""

    def __init__(self, operators: list[Operator], lag: int = 0) -> None:
        self._operators = operators
        for operator in operators:
            operator.lag = lag
            lag += operator.delay
        self.lag = lag

    def take(self, event: Event) -> list[Event]:
        """What comes because event time has come to the mark of a value, and then of the value."""
        return [*self.advance(event.mark), *self._through(0, [event], event.mark)]

    def advance(self, mark: int) -> list[Event]:
        """What comes because event time has come to a mark."""
        return self._through(0, [], mark)

    def _through(self, at: int, events: list[Event], mark: int) -> list[Event]:
        """What events become in the steps from a place on; then event time comes to a mark there."""
        if at == len(self._operators):
            return events
        operator, found = self._operators[at], list[Event]()
        for event in events:
            found += in_order(operator.advance(event.mark))
            found += operator.take(event)
        found += in_order(operator.advance(mark))
        return self._through(at + 1, found, mark)


def in_order(events: list[Event]) -> list[Event]:
    """Events in the order of their marks, then of their sequences."""
    return sorted(events, key=lambda event: (event.mark, event.sequence))
