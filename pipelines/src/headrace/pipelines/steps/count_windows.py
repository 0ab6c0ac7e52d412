"""Windows of a number of values of a key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import Any, cast

from headrace.contract.counts import counted
from headrace.pipelines._errors import no_time
from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, Results, fired_elements, placeholder
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.aggregation import Functions
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.due import due_of
from headrace.pipelines.steps.keys import in_order_of_keys
from headrace.pipelines.steps.rollback import GONE, Rollback, ValuesAsTheyWere
from headrace.pipelines.steps.step import KeyedStep, OnError, StepPass
from headrace.pipelines.time.time import END, in_words

_LAYOUT = "a count, what was counted, and the last value"


class CountedValues:
    """The values of an incomplete window.

    Attributes:
        count: The number of values.
        accumulator: Their accumulator.
        time: The event time of the last one; NO_TIME if it is unknown.
        last: Its mark; NO_TIME if it is unknown.
        stream: Its stream.
        sequence: Its sequence.
    """

    __slots__ = ("accumulator", "count", "last", "sequence", "stream", "time")

    def __init__(
        self, count: int, accumulator: Any, time: int = NO_TIME, last: int = NO_TIME, stream: str = "", sequence: int = 0
    ) -> None:
        self.count, self.accumulator = count, accumulator
        self.time, self.last, self.stream, self.sequence = time, last, stream, sequence


@dataclass(frozen=True)
class CountedValuesClass(StateClass):
    """Stores incomplete windows, with their accumulators as states."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """Incomplete windows as bytes."""
        columns = [[getattr(state, name) for state in states] for name in ("count", "time", "last", "stream", "sequence")]
        return self.laid_out(_LAYOUT, columns, [state.accumulator for state in states])

    def unpack(self, packed: bytes) -> list[Any]:
        """The incomplete windows from bytes."""
        (counts, *beside), accumulators = self.taken_apart(_LAYOUT, packed)
        return list(map(CountedValues, counts, accumulators, *beside))


def bound_of_incomplete(aggregation: Functions, size: int, until: str | None) -> Bound:
    """What bounds incomplete windows of a number of values, which produce their results after some time, or never (None)."""
    keeps = f"{aggregation.keeps} for each key with fewer than {counted(size, 'value')}"
    if until is None:
        return Bound(keeps, "set ttl or clock_ttl of count_window, or max_keys")
    return Bound(f"{keeps}, until {until}")


@dataclass(frozen=True, eq=False)
class CountWindows(KeyedStep):
    """A result for each `size` values of a key, and at the end of event time for fewer.

    Attributes:
        aggregation: Aggregates the values of a window.
        size: The number of values of a window.
        ttl: The event time without a value after which an incomplete window produces its result, in microseconds; None for never.
    """

    aggregation: Functions
    size: int
    ttl: int | None = None

    @cached_property
    def state_class(self) -> StateClass:
        """The class of incomplete windows."""
        return CountedValuesClass(self.aggregation.make, self.name)

    @property
    def bound(self) -> Bound:
        """The time to live, if there is one."""
        until = None if self.ttl is None else f"{in_words(self.ttl)} of event time without a value (ttl)"
        return bound_of_incomplete(self.aggregation, self.size, until)

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "count_window"

    @property
    def divided(self) -> str:
        """The number of values of a window."""
        return f"{self.size:,} values"

    @property
    def uses_time(self) -> bool:
        """Whether incomplete windows expire by event time."""
        return self.ttl is not None

    @property
    def lifetime(self) -> int | None:
        """The time to live."""
        return self.ttl

    @property
    def ends(self) -> bool:
        """True: incomplete windows produce their results at the end of event time."""
        return True

    @property
    def delay(self) -> int:
        """The time to live: the result of an incomplete window comes that much later than its last value."""
        return self.ttl or 0

    @property
    def passes_headers(self) -> bool:
        """False: a result comes from many values."""
        return False

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> Any:
        """The number of values, and their accumulator."""
        return state.count, state.accumulator

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of windows that are complete, or that expire before a value of their key."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        states, keys, origin = step_pass.states(self.name), elements.keys, elements.origin
        rollback = None if self.on_error is OnError.FAIL else Rollback(states, self.state_class, keys)
        kept = ValuesAsTheyWere(() if rollback is None else elements.values)
        results, index, sequences = Results(elements), -1, origin.sequences.tolist()
        times = repeat(NO_TIME) if elements.times is None else elements.times.tolist()
        marks = repeat(NO_TIME) if elements.marks is None else elements.marks.tolist()
        cell, notes = step_pass.notes(self, elements)
        rows = zip(notes, elements.places(), keys, elements.values, times, marks, strict=False)
        try:
            for index, (cell[0], place, key, value, time, mark) in enumerate(rows):
                if mark == NO_TIME and self.ttl is not None:
                    step_pass.failed(self, elements, index, no_time())
                    continue
                before = states.get(key, GONE)
                if before is not GONE and self._due(before) <= mark and before.last != NO_TIME:
                    results.add_fired(index, self._fired(states, key, step_pass, rollback))
                last = (time, mark, origin.stream, sequences[place])
                try:
                    result = self._take(states, key, value, last)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    assert rollback is not None, "failed() raises under OnError.FAIL"
                    rollback.roll_back(key)
                    continue
                if rollback is not None:
                    rollback.record(key, partial(self._again, values=kept, index=index, last=last))
                if result is not None:
                    results.add(index, key, result, time, mark)
        finally:
            step_pass.touched(self.name, keys[: index + 1])
        found = results.collected().without_headers()
        return replace(
            found,
            times=None if elements.times is None else found.times,
            marks=None if elements.marks is None else found.marks,
        )

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results of incomplete windows that have expired, or of all at the end of event time."""
        states = step_pass.states(self.name)
        if watermark == END:
            keys = in_order_of_keys(set(states))
        elif self.ttl is None:
            return ()
        else:
            keys = self._expired(states, watermark)
        fired = [result for key in keys for result in self._fired(states, key, step_pass, None)]
        step_pass.touched(self.name, keys)
        return fired_elements(fired)

    def _expired(self, states: States, watermark: int) -> list[Key]:
        due, keys = due_of(states, self._due), list[Key]()
        for key in due.pop(watermark):
            if key not in states:
                continue
            if states[key].last == NO_TIME:
                # The step had no `ttl` when the last value came, and perhaps no event time either.
                states[key].last = watermark
            if self._due(states[key]) <= watermark:
                keys.append(key)
            else:
                due.add(key, self._due(states[key]))
        return keys

    def _due(self, state: CountedValues) -> int:
        return END if self.ttl is None else state.last + self.ttl

    def _fired(self, states: States, key: Key, step_pass: StepPass, rollback: Rollback | None) -> list[Fired]:
        """Removes an incomplete window, and returns its result."""
        state = states.pop(key)
        step_pass.fired(self.name, 1)
        if rollback is not None:
            rollback.record(key, lambda _: GONE)
        try:
            result = self.aggregation.output(key, state.accumulator, None)
        except BaseException as error:
            step_pass.failed(self, placeholder(key, state.stream, state.sequence), 0, error)
            return []
        mark = state.last if self.ttl is None or state.last == NO_TIME else state.last + self.ttl
        return [] if result is None else [Fired(key, result, state.time, mark, state.stream, state.sequence, (self.name, mark))]

    def _take(self, states: States, key: Key, value: Any, last: tuple[int, int, str, int]) -> Any:
        is_new = key not in states
        state = self._counted(states.get(key, GONE), value, last)
        if state.count < self.size:
            states[key] = state
            if is_new and states.index is not None:
                states.index.add(key, self._due(state))
            return None
        result = self.aggregation.output(key, state.accumulator, None)
        states.pop(key, None)
        return result

    def _again(self, state: Any, *, values: ValuesAsTheyWere, index: int, last: tuple[int, int, str, int]) -> Any:
        """Repeats a call with a copy of its value, which may have changed."""
        state = self._counted(state, values[index], last)
        return state if state.count < self.size else GONE

    def _counted(self, before: Any, value: Any, last: tuple[int, int, str, int]) -> CountedValues:
        state = CountedValues(0, self.aggregation.make()) if before is GONE else cast(CountedValues, before)
        state.accumulator = self.aggregation.step(state.accumulator, value)
        state.count += 1
        state.time, mark, state.stream, state.sequence = last
        state.last = max(state.last, mark)
        return state
