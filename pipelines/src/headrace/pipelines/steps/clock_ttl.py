"""Aggregates and windows of a number of values that expire by the clock, once their key has had no value for some time.

Each value sets the only timer of its key anew, relative to the micro-batch of the value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headrace.pipelines.elements.elements import Elements, Key, Lineage, States
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, fired_elements, placeholder
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.aggregation import Functions
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.context import Context
from headrace.pipelines.steps.contextual import Contextual
from headrace.pipelines.steps.count_windows import bound_of_incomplete
from headrace.pipelines.steps.due import due_by_clock
from headrace.pipelines.steps.keys import in_order_of_keys
from headrace.pipelines.steps.rollback import GONE
from headrace.pipelines.steps.step import StepPass
from headrace.pipelines.steps.timers import (
    TimedState,
    TimedStateClass,
    list_again,
    newly_listed_by_clock,
    next_by_clock,
    resolved,
    since,
)
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END, in_words


@dataclass(frozen=True)
class ClockedStateClass(TimedStateClass):
    """Gives each state a timer by the clock, also if it was stored when the step had no time to live by the clock.

    Attributes:
        clock_ttl: The time to live by the clock, in microseconds.
    """

    clock_ttl: int

    def unpack(self, packed: bytes) -> list[Any]:
        """The states from bytes."""
        states = TimedStateClass.unpack(self, packed)
        for timed in states:
            if not timed.by_clock:
                timed.by_clock = [since(self.clock_ttl)]
        return states


@dataclass(frozen=True, eq=False)
class ClockRunning(Contextual):
    """A running aggregate. It has the states of an aggregate with a time to live by event time.

    Attributes:
        aggregation: The aggregation.
        clock_ttl: The time by the clock without a value after which a key's aggregate is removed, in microseconds.
    """

    aggregation: Functions = field(kw_only=True)
    clock_ttl: int = field(kw_only=True)

    @cached_property
    def state_class(self) -> StateClass:
        """The class of accumulators, each with its timer."""
        return ClockedStateClass(self.make, self.name, self.clock_ttl)

    @property
    def bound(self) -> Bound:
        """The time to live."""
        return Bound(f"{self.aggregation.keeps} for each key, until {self._until}")

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "aggregate"

    @property
    def passes_headers(self) -> bool:
        """False: a result comes from many values."""
        return False

    @property
    def reads_headers(self) -> bool:
        """False."""
        return False

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The result after each value, without headers."""
        return Contextual.apply(self, elements, step_pass).without_headers()

    def call_function(self, timed: Any, value: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """Adds a value; returns the new state, or GONE, and the results."""
        if timed is GONE:
            timed = TimedState(self.make(), [])
        after, result = self._with_value(timed.state, value, context.key)
        if after is GONE:
            return GONE, () if result is None else (result,)
        timed.state, timed.by_clock = after, [since(self.clock_ttl)]
        if context.watermark is not None:
            timed.last = max(timed.last, context.watermark)
        timed.stream, timed.sequence, timed.lineage = context.stream, context.sequence, context.lineage
        return timed, () if result is None else (result,)

    def fire_by_clock(self, step_pass: StepPass, present: Present, watermark: int) -> Sequence[Elements]:
        """Removes what has expired; returns results of it, if there are any."""
        states, now = step_pass.states(self.name), present.now
        due, touched, expired = due_by_clock(states, newly_listed_by_clock), list[Key](), list[Key]()
        for key in due.pop(now):
            if key not in states:
                continue
            if next_by_clock(states[key]) <= now:
                touched.append(key)
                states[key] = resolved(states[key], now=now)
            if next_by_clock(states[key]) <= now:
                expired.append(key)
            else:
                list_again(due, key, states[key], now)
        fired = [result for key in expired for result in self._end(key, states, watermark, step_pass, (self.name, now))]
        step_pass.touched(self.name, touched)
        return fired_elements(fired)

    @property
    def _until(self) -> str:
        return f"{in_words(self.clock_ttl)} of the clock without a value (clock_ttl)"

    def _end(self, key: Key, states: States, watermark: int, step_pass: StepPass, way: Lineage) -> list[Fired]:
        """Removes a state; returns its results, for which its lineage continues so."""
        del states[key]
        return []

    def _with_value(self, state: Any, value: Any, key: Key) -> tuple[Any, Any]:
        """The state with a value, or GONE, and the result."""
        state = self.aggregation.step(state, value)
        return state, self.aggregation.result(key, state)


@dataclass(frozen=True, eq=False)
class ClockCountWindows(ClockRunning):
    """Windows of a number of values. An incomplete one produces its result once its time to live is over.

    The states are lists: the number of values, and their accumulator.

    Attributes:
        size: The number of values of a window.
    """

    size: int = field(kw_only=True)

    @property
    def bound(self) -> Bound:
        """The time to live."""
        return bound_of_incomplete(self.aggregation, self.size, self._until)

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "count_window"

    @property
    def divided(self) -> str:
        """The number of values of a window, in words that differ from a window without a timer, which has another state."""
        return f"{self.size:,} values, by the clock"

    @property
    def ends(self) -> bool:
        """True: incomplete windows produce their results at the end of event time."""
        return True

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> Any:
        """The number of values, and their accumulator."""
        return tuple(state.state)

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results of all incomplete windows at the end of event time."""
        if watermark < END:
            return ()
        states = step_pass.states(self.name)
        keys = in_order_of_keys(set(states))
        fired = [result for key in keys for result in self._end(key, states, watermark, step_pass, (self.name,))]
        step_pass.touched(self.name, keys)
        return fired_elements(fired)

    def _end(self, key: Key, states: States, watermark: int, step_pass: StepPass, way: Lineage) -> list[Fired]:
        timed = states.pop(key)
        step_pass.fired(self.name, 1)
        try:
            result = self.aggregation.output(key, timed.state[1], None)
        except BaseException as error:
            step_pass.failed(self, placeholder(key, timed.stream, timed.sequence), 0, error)
            return []
        if result is None:
            return []
        # While a stream is awaited, no event time has been reached, but the key's values may have had one. The end is no time.
        time = timed.last if watermark == END else max(watermark - self.lag, timed.last)
        mark = NO_TIME if time == NO_TIME else time + self.lag
        return [Fired(key, result, time, mark, timed.stream, timed.sequence, (*timed.lineage, way))]

    def _with_value(self, state: Any, value: Any, key: Key) -> tuple[Any, Any]:
        count, accumulator = state[0] + 1, self.aggregation.step(state[1], value)
        if count < self.size:
            return [count, accumulator], None
        return GONE, self.aggregation.output(key, accumulator, None)


def clock_running(name: str, policy: Any, aggregation: Functions, clock_ttl: int, lag: int) -> ClockRunning:
    """A running aggregate with a time to live by the clock."""
    every = clock_ttl // 4
    return ClockRunning(
        name, policy, _none, aggregation.make, False, None, None, lag, every, aggregation=aggregation, clock_ttl=clock_ttl
    )


def clock_count_windows(name: str, policy: Any, aggregation: Functions, size: int, clock_ttl: int, lag: int) -> ClockCountWindows:
    """Windows of a number of values with a time to live by the clock."""
    make: Callable[[], Any] = lambda: [0, aggregation.make()]  # noqa: E731
    every = clock_ttl // 4
    return ClockCountWindows(
        name, policy, _none, make, False, None, None, lag, every, aggregation=aggregation, clock_ttl=clock_ttl, size=size
    )


def _none(*_: Any) -> None:
    """No result."""
