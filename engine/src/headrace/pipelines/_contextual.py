"""The stateful step whose function is given a context: timers, and states that are forgotten after a while.

Whatever is due for a key happens right before its next element, or else at the end of the micro-batch: timers in the order of
their times, up to the time at which the state is forgotten.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from headrace.pipelines._context import Context
from headrace.pipelines._due import due_of
from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._errors import no_time
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._results import Fired, Results, lone, settled
from headrace.pipelines._state import TIMERS, StateClass
from headrace.pipelines._step import KeyedStep, OnError, Run
from headrace.pipelines._time import END
from headrace.pipelines._undo import GONE, Redo, Undo

Function = Callable[[Any, Any, Context], Any]
OnTimer = Callable[[Any, Context], Any]


class Timed:
    """The state of a key, and its timers.

    Attributes:
        state: The application's.
        timers: Their times, in order.
        last: The mark of the key's last element; NO_TIME where it is not known.
        stream: The stream of that element.
        sequence: Its sequence.
    """

    __slots__ = ("last", "sequence", "state", "stream", "timers")

    def __init__(self, state: Any, timers: list[int], last: int = NO_TIME, stream: str = "", sequence: int = 0) -> None:
        self.state, self.timers, self.last, self.stream, self.sequence = state, timers, last, stream, sequence


@dataclass(frozen=True)
class TimedClass(StateClass):
    """States with timers. States of a step that had no context become such without timers."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """States and timers as bytes."""
        columns = [[getattr(timed, name) for timed in states] for name in ("timers", "last", "stream", "sequence")]
        return self.laid_out(TIMERS, columns, [timed.state for timed in states])

    def unpack(self, packed: bytes) -> list[Any]:
        """The states and timers of such bytes."""
        if not self.is_laid_out(packed):
            return [Timed(state, []) for state in StateClass.unpack(self, packed)]
        columns, states = self.taken_apart(TIMERS, packed)
        return list(map(Timed, states, *columns))


@dataclass(frozen=True, eq=False)
class Contextual(KeyedStep):
    """Calls a function with each value, the state of its key, and a context.

    Attributes:
        function: What it returns goes on.
        make: Makes the state of a key that is new.
        flat: Whether functions return lists of results; otherwise one result, and None goes nowhere.
        on_timer: Called with a state and a context when a timer is due; None where timers cannot be set.
        ttl: How far event time goes on, in microseconds, until a state is forgotten whose key had no element; None for ever.
        lag: How far behind the marks the event times of the elements may lie, because of the steps before.
    """

    function: Function
    make: Callable[[], Any]
    flat: bool
    on_timer: OnTimer | None
    ttl: int | None
    lag: int

    @cached_property
    def state_class(self) -> StateClass:
        """Made by `make`."""
        return TimedClass(self.make, self.name)

    @property
    def uses_time(self) -> bool:
        """It does."""
        return True

    @property
    def uses_ids(self) -> bool:
        """A context tells them."""
        return True

    @property
    def label(self) -> str:
        """How users call it."""
        return "stateful"

    def shown(self, state: Any) -> Any:
        """The application's state."""
        return state.state

    def apply(self, elements: Elements, run: Run) -> Elements:
        """What the functions return, in the order of the elements."""
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, work, results = run.states(self.name), _Work(self, run, keys), Results(elements)
        sequences, ids = origin.sequences.tolist(), origin.ids
        others, index = run.others - self.lag, -1
        rows = zip(elements.places(), keys, elements.values, times, marks, strict=True)
        try:
            for index, (place, key, value, time, mark) in enumerate(rows):
                if mark == NO_TIME and self.ttl is not None:
                    run.failed(self, elements, index, no_time())
                    continue
                now = mark - self.lag
                timed = states.get(key, GONE)
                if timed is not GONE and self.next(timed) <= now:
                    results.add_fired(index, work.due(key, min(now, others), now))
                context = Context(
                    key,
                    None if time == NO_TIME else time,
                    origin.stream,
                    sequences[place],
                    None if ids is None else ids[place],
                    None if mark == NO_TIME else now,
                )
                try:
                    after, found = work.call(key, value, context)
                except Exception as error:
                    run.failed(self, elements, index, error)
                    work.take_back(key)
                    continue
                for result in found:
                    results.add(index, key, result, time, mark)
                if after is not GONE and after.timers and after.timers[0] <= now:
                    results.add_fired(index, work.due(key, min(now, others), now))
        finally:
            run.touched(self.name, keys[: index + 1])
        return results.collected()

    def settle(self, run: Run, watermark: int) -> Sequence[Elements]:
        """What timers give that are due, and no more of states that are forgotten."""
        states, now = run.states(self.name), watermark - self.lag
        due = due_of(states, self.next)
        keys = list[Key]()
        for key in due.pop(now):
            # A state that was put off is not touched: whether somebody asks is chance.
            if key in states and self.next(states[key]) > now:
                due.add(key, self.next(states[key]))
            elif key in states:
                keys.append(key)
        work, fired = _Work(self, run, keys), list[Fired]()
        for key in keys:
            # At the end of time, a timer that always sets another one would never come to an end.
            until = now if watermark < END else max(states[key].timers, default=now)
            fired += work.due(key, until, now)
            if key in states:
                due.add(key, self.next(states[key]))
        run.touched(self.name, keys)
        return settled(fired)

    def next(self, timed: Timed) -> int:
        """When something of a state is due; END for never."""
        at = timed.timers[0] if timed.timers else END
        return at if self.ttl is None else min(at, timed.last + self.ttl)

    def called(self, timed: Any, value: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """What a value makes of a state, and its results."""
        if timed is GONE:
            timed = Timed(self.make(), [])
        context.lend(timed.timers if self.on_timer is not None else None)
        found = self._listed(self.function(value, timed.state, context))
        now = context.watermark
        if now is not None and now > timed.last:
            timed.last = now
        timed.stream, timed.sequence = context.stream, context.sequence
        return (GONE if context.forgotten else timed), found

    def rung(self, timed: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """What a timer makes of a state, and its results."""
        assert self.on_timer is not None, "no timer was set without it"
        context.lend(timed.timers)
        found = self._listed(self.on_timer(timed.state, context))
        return (GONE if context.forgotten else timed), found

    def _listed(self, result: Any) -> Sequence[Any]:
        if self.flat:
            return list(result or ())
        return () if result is None else (result,)


class _Work:
    """Calls the functions of a step, and can take back what one did that failed."""

    def __init__(self, step: Contextual, run: Run, keys: Sequence[Key]) -> None:
        self._step, self._run = step, run
        self._states: States = run.states(step.name)
        self._undo = None if step.on_error is OnError.FAIL else Undo(self._states, step.state_class, keys)

    def call(self, key: Key, value: Any, context: Context) -> tuple[Any, Sequence[Any]]:
        """The state that a value leaves, or GONE, and its results."""
        step, states = self._step, self._states
        before = states.get(key, GONE)
        at = END if before is GONE or states.index is None else step.next(before)
        after, found = step.called(before, value, context)
        self._keep(key, after)
        if self._undo is not None:
            self._undo.done(key, lambda timed: step.called(timed, value, context)[0])
        if after is not GONE and states.index is not None and step.next(after) < at:
            states.index.add(key, step.next(after))
        return after, found

    def due(self, key: Key, until: int, now: int) -> Sequence[Fired]:
        """The results of a key's timers up to a time; its state is forgotten if that was due before now."""
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
            timed = self._ring(key, timed, fired)
        if forgets and timed is not GONE:
            self._keep(key, GONE)
            self._done(key, lambda timed: GONE)
        return fired

    def take_back(self, key: Key) -> Any:
        """Undoes what was done to a state by a call that failed."""
        assert self._undo is not None, "a run raises where the policy is to fail"
        return self._undo.undo(key)

    def _ring(self, key: Key, timed: Timed, fired: list[Fired]) -> Any:
        step, at = self._step, timed.timers.pop(0)
        self._done(key, partial(_without_timer, at=at))
        stream, sequence = timed.stream, timed.sequence
        context = Context(key, at, stream, sequence, None, at, at)
        try:
            after, found = step.rung(timed, context)
        except Exception as error:
            self._run.failed(step, lone(key, stream, sequence), 0, error)
            return self.take_back(key)
        self._keep(key, after)
        self._done(key, lambda timed: step.rung(timed, context)[0])
        mark = max(at, timed.last) + step.lag
        fired += [Fired(key, result, at, mark, stream, sequence) for result in found]
        return after

    def _keep(self, key: Key, timed: Any) -> None:
        if timed is GONE:
            self._states.pop(key, None)
        else:
            self._states[key] = timed

    def _done(self, key: Key, redo: Redo) -> None:
        if self._undo is not None:
            self._undo.done(key, redo)


def _without_timer(timed: Any, *, at: int) -> Any:
    timed.timers.remove(at)
    return timed
