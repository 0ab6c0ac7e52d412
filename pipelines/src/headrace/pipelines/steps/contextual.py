"""The stateful step whose functions receive a context, with timers, and a time to live of states.

What is due for a key happens right before its next element, or else at the end of the micro-batch: timers fire in the order of
their times, up to the time at which the state is removed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from headrace.pipelines._errors import no_time
from headrace.pipelines.elements.elements import Elements, Key, States, told_apart
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, Results, fired_elements, placeholder
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.context import Context
from headrace.pipelines.steps.due import due_by_clock, due_of
from headrace.pipelines.steps.returned import own, own_or_none
from headrace.pipelines.steps.rollback import GONE, Replay, Rollback, ValuesAsTheyWere
from headrace.pipelines.steps.step import KeyedStep, OnError, StepPass
from headrace.pipelines.steps.timers import (
    TimedState,
    TimedStateClass,
    list_again,
    listed_by_clock,
    newly_listed_by_clock,
    next_by_clock,
    resolved,
)
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END, in_words

Function = Callable[[Any, Any, Context], Any]
OnTimer = Callable[[Any, Context], Any]


@dataclass(frozen=True, eq=False)
class Contextual(KeyedStep):
    """Calls a function with each value, the state of its key, and a context.

    Attributes:
        function: Returns the result.
        make: Creates the state of a new key.
        flat: Whether functions return lists of results; otherwise one result, and None is dropped.
        on_timer: Called with a state and a context when a timer fires; None if timers cannot be set.
        ttl: The event time without an element after which a key's state is removed, in microseconds; None for never.
        lag: How far the event times of the elements may be behind the marks because of earlier steps, in microseconds.
        clock_every: How often timers by the clock may become due, in microseconds; None if there are none.
    """

    function: Function
    make: Callable[[], Any]
    flat: bool
    on_timer: OnTimer | None
    ttl: int | None
    lag: int
    clock_every: int | None = None

    @cached_property
    def state_class(self) -> StateClass:
        """The class of the states that `make` creates, with timers."""
        return TimedStateClass(self.make, self.name)

    @property
    def bound(self) -> Bound:
        """The time to live, if there is one."""
        if self.ttl is not None:
            return Bound(f"your state of each key, until {in_words(self.ttl)} of event time without a value (ttl)")
        timers = "" if self.on_timer is None else ", and timers until they fire"
        return Bound(f"your state of each key{timers}", "call context.forget(), or set ttl or max_keys")

    @property
    def uses_time(self) -> bool:
        """True: timers and the time to live depend on event time."""
        return True

    @property
    def lifetime(self) -> int | None:
        """The time to live."""
        return self.ttl

    @property
    def uses_clock(self) -> bool:
        """Whether timers may be by the clock."""
        return self.clock_every is not None

    @property
    def tick(self) -> int | None:
        """How often timers by the clock may become due."""
        return self.clock_every

    @property
    def uses_ids(self) -> bool:
        """True: a context has them."""
        return True

    @property
    def reads_headers(self) -> bool:
        """True: a context has them."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "stateful"

    def display(self, state: Any) -> Any:
        """The state of the application, without timers."""
        return state.state

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the functions, in the order of the elements."""
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, calls, results = step_pass.states(self.name), _Calls(self, step_pass, keys, elements.values), Results(elements)
        sequences, ids, headers = origin.sequences.tolist(), origin.ids, elements.own_headers()
        others, index = step_pass.others - self.lag, -1
        cell, notes = step_pass.notes(self, elements)
        rows = zip(notes, elements.places(), keys, elements.values, times, marks, strict=True)
        try:
            for index, (cell[0], place, key, value, time, mark) in enumerate(rows):
                if mark == NO_TIME and self.ttl is not None:
                    step_pass.failed(self, elements, index, no_time())
                    continue
                now = mark - self.lag
                timed = states.get(key, GONE)
                if timed is not GONE and self.next(timed) <= now:
                    results.add_fired(index, calls.due(key, min(now, others), now))
                context = Context(
                    key,
                    None if time == NO_TIME else time,
                    origin.stream,
                    sequences[place],
                    None if ids is None else ids[place],
                    None if mark == NO_TIME else now,
                )
                if headers is not None:
                    context.bind_headers(headers, index)
                if elements.lineages is not None:
                    context.lineage = elements.lineages[index]
                try:
                    after, found = calls.call(key, value, context, index)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    calls.roll_back(key)
                    continue
                for result in found:
                    results.add(index, key, result, time, mark)
                if after is not GONE and after.timers and after.timers[0] <= now:
                    results.add_fired(index, calls.due(key, min(now, others), now))
        finally:
            step_pass.touched(self.name, keys[: index + 1])
        return results.collected()

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results of due timers. Removes expired states."""
        states, now = step_pass.states(self.name), watermark - self.lag
        due = due_of(states, self.next)
        keys = list[Key]()
        for key in due.pop(now):
            # A state that is due later is not recorded as touched: whether it is checked depends on the worker.
            if key in states and self.next(states[key]) > now:
                due.add(key, self.next(states[key]))
            elif key in states:
                keys.append(key)
        calls, fired = _Calls(self, step_pass, keys), list[Fired]()
        for key in keys:
            # At the end of time, fire only present timers: a timer that always sets another one would never end.
            until = now if watermark < END else max(states[key].timers, default=now)
            fired += calls.due(key, until, now)
            if key in states:
                due.add(key, self.next(states[key]))
        step_pass.touched(self.name, keys)
        return fired_elements(fired)

    def fire_by_clock(self, step_pass: StepPass, present: Present, watermark: int) -> Sequence[Elements]:
        """The results of timers that are due by the clock, at the event time reached, or a later one of the key's values."""
        states, now = step_pass.states(self.name), present.now
        due, keys = due_by_clock(states, newly_listed_by_clock), list[Key]()
        for key in due.pop(now):
            if key not in states:
                continue
            if next_by_clock(states[key]) <= now:
                keys.append(key)
            else:
                list_again(due, key, states[key], now)
        calls, fired = _Calls(self, step_pass, keys), list[Fired]()
        for key in keys:
            fired += calls.due_by_clock(key, now, watermark)
            if key in states:
                list_again(due, key, states[key], now)
        step_pass.touched(self.name, keys)
        return fired_elements(fired)

    def next(self, timed: TimedState) -> int:
        """When a state's next timer or its time to live is due; END for never."""
        at = timed.timers[0] if timed.timers else END
        return at if self.ttl is None else min(at, timed.last + self.ttl)

    def call_function(self, timed: Any, value: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """Calls `function`; returns the new state, or GONE, and the results."""
        if timed is GONE:
            timed = TimedState(self.make(), [])
        self._bind(timed, context)
        found = self._listed(self.function(value, timed.state, context))
        now = context.watermark
        if now is not None and now > timed.last:
            timed.last = now
        timed.stream, timed.sequence, timed.lineage = context.stream, context.sequence, context.lineage
        return (GONE if context.forgotten else timed), found

    def fire_timer(self, timed: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """Calls `on_timer`; returns the new state, or GONE, and the results."""
        assert self.on_timer is not None, "no timer was set without it"
        self._bind(timed, context)
        found = self._listed(self.on_timer(timed.state, context))
        return (GONE if context.forgotten else timed), found

    def _bind(self, timed: TimedState, context: Context) -> None:
        if self.on_timer is not None:
            context.bind_timers(timed.timers, timed.by_clock if self.uses_clock else None)

    def _listed(self, result: Any) -> Sequence[Any]:
        if self.flat:
            return own_or_none(result)
        return () if result is None else (own(result),)


class _Calls:
    """Calls the functions of a step, and rolls back failed calls."""

    def __init__(self, step: Contextual, step_pass: StepPass, keys: Sequence[Key], values: Sequence[Any] = ()) -> None:
        self._step, self._pass = step, step_pass
        self._states: States = step_pass.states(step.name)
        self._rollback = None if step.on_error is OnError.FAIL else Rollback(self._states, step.state_class, keys)
        self._before = ValuesAsTheyWere(() if self._rollback is None else values)

    def call(self, key: Key, value: Any, context: Context, index: int) -> tuple[Any, Sequence[Any]]:
        """Calls the function with the value at an index; returns the new state, or GONE, and the results."""
        step, states = self._step, self._states
        before = states.get(key, GONE)
        at = END if before is GONE or states.index is None else step.next(before)
        at_clock = END if before is GONE or states.by_clock is None else next_by_clock(before)
        after, found = step.call_function(before, value, context)
        self._keep(key, after)
        if self._rollback is not None:
            self._rollback.record(key, lambda timed: step.call_function(timed, self._before[index], context)[0])
        if after is not GONE and states.index is not None and step.next(after) < at:
            states.index.add(key, step.next(after))
        self._note_clock(key, after, at_clock)
        return after, found

    def due(self, key: Key, until: int, now: int) -> Sequence[Fired]:
        """The results of a key's timers up to a time. Removes its state if that was due before now."""
        timed: Any = self._states.get(key)
        if timed is None:
            return ()
        forgets = False
        if self._step.ttl is not None:
            if timed.last == NO_TIME:
                timed.last = now
            forgets = timed.last + self._step.ttl <= now
            until = timed.last + self._step.ttl if forgets else until
        fired: list[Fired] = []
        while timed is not GONE and timed.timers and timed.timers[0] <= until:
            timed = self._fire_timer(key, timed, fired)
        if forgets and timed is not GONE:
            self._keep(key, GONE)
            self._record(key, lambda timed: GONE)
        return fired

    def due_by_clock(self, key: Key, now: int, watermark: int) -> Sequence[Fired]:
        """The results of a key's timers up to a time of the clock. Timers that they set are for later micro-batches."""
        timed: Any = resolved(self._states[key], now=now)
        self._record(key, partial(resolved, now=now))
        before, due = self._step.next(timed), [at for at in timed.by_clock if at <= now]
        # While a stream is awaited, no event time has been reached, but the key's values may have had one. The end is no time.
        time = timed.last if watermark == END else max(watermark - self._step.lag, timed.last)
        mark = NO_TIME if time == NO_TIME else time + self._step.lag
        fired: list[Fired] = []
        for at in due:
            if timed is GONE or at not in timed.by_clock:
                continue
            timed.by_clock.remove(at)
            self._record(key, partial(_without_clock_timer, at=at))
            context = Context(key, None if time == NO_TIME else time, timed.stream, timed.sequence, None, None, None)
            context.bind_clock(at, now)
            timed = self._called(key, timed, context, time, mark, fired, (at, now))
        if timed is not GONE and self._states.index is not None and self._step.next(timed) < before:
            self._states.index.add(key, self._step.next(timed))
        return fired

    def roll_back(self, key: Key) -> Any:
        """Restores the state of a key after a failed call."""
        assert self._rollback is not None, "failed() raises under OnError.FAIL"
        before, after = self._states.get(key), self._rollback.roll_back(key)
        if before is not None and after is not GONE:
            # The index is not rolled back.
            after.listed = before.listed
        return after

    def _fire_timer(self, key: Key, timed: TimedState, fired: list[Fired]) -> Any:
        at, at_clock = timed.timers.pop(0), next_by_clock(timed)
        self._record(key, partial(_without_timer, at=at))
        context = Context(key, at, timed.stream, timed.sequence, None, at, at)
        mark = max(at, timed.last) + self._step.lag
        after = self._called(key, timed, context, at, mark, fired, (at,))
        self._note_clock(key, after, at_clock)
        return after

    def _called(
        self, key: Key, timed: TimedState, context: Context, time: int, mark: int, fired: list[Fired], timer: tuple[int, ...]
    ) -> Any:
        """Calls `on_timer`, and adds its results; returns the new state, or GONE."""
        step, stream, sequence, lineage = self._step, timed.stream, timed.sequence, (*timed.lineage, (self._step.name, *timer))
        self._pass.fired(step.name, 1)
        try:
            after, found = step.fire_timer(timed, context)
        except BaseException as error:
            self._pass.failed(step, placeholder(key, stream, sequence), 0, error)
            return self.roll_back(key)
        self._keep(key, after)
        self._record(key, lambda timed: step.fire_timer(timed, context)[0])
        lineages = told_apart([lineage], [0] * len(found))
        fired += [Fired(key, result, time, mark, stream, sequence, each) for result, each in zip(found, lineages, strict=True)]
        return after

    def _note_clock(self, key: Key, timed: Any, before: int) -> None:
        """Notes in the index by the clock that the next timer of a key is earlier than before."""
        index = self._states.by_clock
        if timed is GONE or index is None:
            return
        at = next_by_clock(timed)
        # One without a time yet is listed until the end of the micro-batch, when its time is not before the clock.
        if at < min(before, 0) or 0 <= at < timed.listed:
            index.add(key, listed_by_clock(timed))

    def _keep(self, key: Key, timed: Any) -> None:
        if timed is GONE:
            self._states.pop(key, None)
        else:
            self._states[key] = timed

    def _record(self, key: Key, replay: Replay) -> None:
        if self._rollback is not None:
            self._rollback.record(key, replay)


def _without_clock_timer(timed: Any, *, at: int) -> Any:
    timed.by_clock.remove(at)
    return timed


def _without_timer(timed: Any, *, at: int) -> Any:
    timed.timers.remove(at)
    return timed
