"""The step that groups values in time windows, and emits a result for each window when it closes.

Whether a value is late is decided in `late`. A window's result is emitted when the watermark of all streams closes it: right
before the next value of its key, or at the end of the micro-batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

from headrace.pipelines._errors import no_time
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, Results, fired_elements, placeholder
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.aggregation import Functions, Window
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.due import due_by_clock, due_of
from headrace.pipelines.steps.rollback import GONE, Rollback, ValuesAsTheyWere
from headrace.pipelines.steps.step import Counted, KeyedStep, OnError, StepPass
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END, in_words
from headrace.pipelines.windows.combining import ROUNDED, Partial, combined
from headrace.pipelines.windows.late import Late, overlap, windows_that_take
from headrace.pipelines.windows.open_windows import OpenWindows, OpenWindowsClass
from headrace.pipelines.windows.windows import Bounds, Grid, Session

_NOW = 0
"""Where the index by the clock has keys with windows that have changed: all of them are due with the next early results."""


@dataclass(frozen=True, eq=False)
class TimeWindows(KeyedStep):
    """Groups values in windows.

    Attributes:
        aggregation: Aggregates the values of a window.
        windows: The windows.
        allowed: How long after its end a window accepts values, in microseconds of event time.
        late: What happens to late values.
        lag: How far the event times of the elements may be behind the marks because of earlier steps, in microseconds.
        emit_every: How often open windows that have changed make an early result, in microseconds of the clock; None for never.
        combines: Whether values are combined before the shuffle.
    """

    aggregation: Functions
    windows: Grid | Session
    allowed: int
    late: Late
    lag: int
    emit_every: int | None = None
    combines: bool = False

    def combined(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The elements that are shuffled for the step in place of others."""
        assert isinstance(self.windows, Grid), "others are refused"
        cell, notes = step_pass.notes(self, elements)
        cell[0] = notes[0]
        return combined(self.windows, self._held, self.aggregation, elements)

    @cached_property
    def state_class(self) -> StateClass:
        """The class of open windows."""
        return OpenWindowsClass(self.aggregation.make, self.name)

    @property
    def bound(self) -> Bound:
        """When windows are closed."""
        return Bound(f"{self.aggregation.keeps} for each key and open window: {self.divided} (event time)")

    @property
    def uses_time(self) -> bool:
        """True: windows depend on event time."""
        return True

    @property
    def uses_clock(self) -> bool:
        """Whether windows have early results."""
        return self.emit_every is not None

    @property
    def tick(self) -> int | None:
        """A quarter of the time between early results."""
        return None if self.emit_every is None else self.emit_every // 4

    @property
    def passes_headers(self) -> bool:
        """False: a result comes from many values."""
        return False

    @property
    def delay(self) -> int:
        """The allowed delay, and 1, since a result's event time is the last microsecond of its window."""
        return self.allowed + 1

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "window"

    @property
    def divided(self) -> str:
        """The windows and the delay. A larger delay would reopen windows whose results were emitted."""
        return f"{self.windows.described}, closed {in_words(self._held)} after they end"

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> Any:
        """The accumulator of each open window."""
        return {Window(*bounds): accumulator for bounds, accumulator in sorted(state.windows.items())}

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of late values, and of windows that close before a value of their key."""
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, results, held, late = step_pass.states(self.name), Results(elements), self._held, self.late
        rollback = None if self.on_error is OnError.FAIL else Rollback(states, self.state_class, keys)
        kept = ValuesAsTheyWere(() if rollback is None else elements.values)
        stream, sequences, others = origin.stream, origin.sequences.tolist(), step_pass.others - held
        touched, late_values, kind = list[Key](), 0, self.windows
        cell, notes = step_pass.notes(self, elements)
        rows = zip(notes, elements.places(), keys, elements.values, times, marks, strict=True)
        try:
            for index, (cell[0], place, key, value, time, mark) in enumerate(rows):
                if time == NO_TIME:
                    step_pass.failed(self, elements, index, no_time())
                    continue
                closed = mark - held
                opened = states.get(key, GONE)
                if opened is not GONE and opened.ends <= closed and opened.ends <= others:
                    touched.append(key)
                    results.add_fired(index, self._fire(states, key, min(closed, others), step_pass, rollback))
                    opened = states.get(key, GONE)
                windows = windows_that_take(time, closed, kind, () if opened is GONE else opened.windows)
                if not windows:
                    late_values += value.count if type(value) is Partial else 1
                    if late is Late.PLACE_IN_OLDEST:
                        windows = [self.windows.oldest(closed)]
                try:
                    if windows:
                        before = END if opened is GONE else opened.ends
                        had_news = opened is not GONE and bool(opened.news)
                        states[key] = opened = self._placed(opened, windows, value, stream, sequences[place])
                        touched.append(key)
                        if opened.ends < before and states.index is not None:
                            states.index.add(key, opened.ends)
                        if opened.news and not had_news and states.by_clock is not None:
                            states.by_clock.add(key, _NOW)
                        if rollback is not None:
                            rollback.record(key, partial(self._placed_again, windows, kept, index, stream, sequences[place]))
                    elif late is Late.FIRE:
                        around = self.windows.around(time)
                        result = self._alone(key, value, around)
                        if result is not None:
                            results.add(index, key, result, around[1] - 1, mark)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    assert rollback is not None, "failed() raises under OnError.FAIL"
                    rollback.roll_back(key)
        finally:
            step_pass.touched(self.name, touched)
        if late_values:
            step_pass.count(Counted.LATE, self.name, late_values)
        return results.collected().without_headers()

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results of windows that the watermark closes."""
        states, until = step_pass.states(self.name), watermark - self._held
        due, touched, fired = due_of(states, _ends), list[Key](), list[Fired]()
        for key in due.pop(until):
            if key in states and states[key].ends <= until:
                touched.append(key)
                fired += self._fire(states, key, until, step_pass, None)
            if key in states:
                due.add(key, states[key].ends)
        step_pass.touched(self.name, touched)
        return fired_elements(fired)

    def fire_by_clock(self, step_pass: StepPass, present: Present, watermark: int) -> Sequence[Elements]:
        """The early results of windows that have changed since their last one, if it is time for them."""
        if self.emit_every is None or not present.begins(self.emit_every):
            return ()
        states = step_pass.states(self.name)
        keys = [key for key in due_by_clock(states, _early).pop(_NOW) if key in states and states[key].news]
        fired = [result for key in keys for result in self._early_of(states[key], key, step_pass, present.now)]
        step_pass.touched(self.name, keys)
        return fired_elements(fired)

    @property
    def _held(self) -> int:
        """How far the mark must be past a window's end to close it, in microseconds."""
        return self.allowed + self.lag

    def _placed(self, before: Any, windows: Sequence[Bounds], value: Any, stream: str, sequence: int) -> OpenWindows:
        """Adds a value to some windows; returns the key's open windows."""
        opened: OpenWindows = OpenWindows({}, stream, sequence) if before is GONE else before
        accumulators, aggregation = opened.windows, self.aggregation
        # Each window has its own value: a result that contains it may be changed while others are open.
        own = [value] if len(windows) == 1 else [*(copied(value) for _ in windows[1:]), value]
        for bounds, added in zip(windows, own, strict=True):
            if self._are_sessions:
                bounds, accumulator = self._grown_together(opened, bounds)
            else:
                accumulator = accumulators.get(bounds, GONE)
            if accumulator is GONE:
                accumulator = aggregation.make()
            accumulators[bounds] = self._add(accumulator, added)
            if self.emit_every is not None:
                opened.news.add(bounds)
            if bounds[1] < opened.ends:
                opened.ends = bounds[1]
        opened.stream, opened.sequence = stream, sequence
        return opened

    def _placed_again(
        self, windows: Sequence[Bounds], values: ValuesAsTheyWere, index: int, stream: str, sequence: int, before: Any
    ) -> OpenWindows:
        return self._placed(before, windows, values[index], stream, sequence)

    @cached_property
    def _add(self) -> Callable[[Any, Any], Any]:
        """Returns the accumulator with another value, or with several that are combined."""
        step, join, is_exact = self.aggregation.step, self.aggregation.join, self.aggregation.is_exact
        if not self.combines or join is None:
            return step

        def add(accumulator: Any, added: Any) -> Any:
            found = join(accumulator, added.accumulator) if type(added) is Partial else step(accumulator, added)
            # Also of values alone: else micro-batches decide whether a sum fails.
            if is_exact is not None and not is_exact(found):
                raise ValueError(f"{excerpt(found)}: {ROUNDED}")
            return found

        return add

    @cached_property
    def _are_sessions(self) -> bool:
        return isinstance(self.windows, Session)

    def _grown_together(self, opened: OpenWindows, bounds: Bounds) -> tuple[Bounds, Any]:
        """Removes the sessions that overlap with one; returns the bounds and the accumulator of all of them merged."""
        joined = sorted(other for other in opened.windows if overlap(bounds, other))
        if not joined:
            return bounds, GONE
        accumulators = [opened.windows.pop(other) for other in joined]
        opened.news.difference_update(joined)
        opened.ends = min((end for _, end in opened.windows), default=END)
        assert self.aggregation.join is not None, "sessions have aggregations that combine"
        whole = min(bounds[0], joined[0][0]), max(bounds[1], joined[-1][1])
        return whole, reduce(self.aggregation.join, accumulators)

    def _alone(self, key: Key, value: Any, bounds: Bounds) -> Any:
        """The result of a window with a single value."""
        aggregation = self.aggregation
        return aggregation.output(key, aggregation.step(aggregation.make(), value), Window(*bounds))

    def _fire(self, states: States, key: Key, until: int, step_pass: StepPass, rollback: Rollback | None) -> list[Fired]:
        """Removes a key's windows that end up to a time, and returns their results."""
        opened = states[key]
        closed = sorted((bounds for bounds in opened.windows if bounds[1] <= until), key=lambda bounds: bounds[::-1])
        step_pass.fired(self.name, len(closed))
        accumulators = [opened.windows[bounds] for bounds in closed]
        ended = list(zip(closed, accumulators, strict=True))
        without = partial(_without, closed=closed)
        if without(opened) is GONE:
            del states[key]
        if rollback is not None:
            rollback.record(key, without)
        return self._results(opened, key, ended, step_pass)

    def _early_of(self, opened: OpenWindows, key: Key, step_pass: StepPass, now: int) -> list[Fired]:
        """The early results of a key. What becomes of one does not change its window."""
        changed = sorted(opened.news, key=lambda bounds: bounds[::-1])
        opened.news.clear()
        early = [(bounds, opened.windows[bounds]) for bounds in changed]
        return self._results(opened, key, early, step_pass, now)

    def _results(
        self, opened: OpenWindows, key: Key, windows: Sequence[tuple[Bounds, Any]], step_pass: StepPass, now: int | None = None
    ) -> list[Fired]:
        """The results of windows of a key, with their accumulators: at the end of the windows, or early, by the clock."""
        is_early, fired = now is not None, list[Fired]()
        lineage = (self.name, now) if is_early else (self.name,)
        for bounds, accumulator in windows:
            try:
                own = copied(accumulator) if is_early else accumulator
                result = self.aggregation.output(key, own, Window(*bounds, is_early))
            except BaseException as error:
                step_pass.failed(self, placeholder(key, opened.stream, opened.sequence), 0, error)
                continue
            if result is not None:
                mark = bounds[1] + self._held
                fired.append(Fired(key, result, bounds[1] - 1, mark, opened.stream, opened.sequence, lineage))
        return fired


def _without(opened: Any, *, closed: Sequence[Bounds]) -> Any:
    """Removes windows from a key's open ones; GONE if there are no others."""
    for bounds in closed:
        del opened.windows[bounds]
    opened.news.difference_update(closed)
    opened.ends = min((end for _, end in opened.windows), default=END)
    return opened if opened.windows else GONE


def _ends(opened: OpenWindows) -> int:
    return opened.ends


def _early(opened: OpenWindows) -> int:
    return _NOW if opened.news else END
