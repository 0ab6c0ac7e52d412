"""The step that gathers values in windows of event time, and gives a result for each window once it is closed.

A window is closed at a mark that lies by the allowed delay, or more, after its end. So whether a value is late depends on its
own stream alone. A window's result comes when the lowest mark of all streams closes it: right before the next value of its key,
or at the end of the micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import islice
from typing import Any

import numpy as np

from headrace.pipelines._aggregation import Functions, Window
from headrace.pipelines._due import due_of
from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._errors import no_time
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._results import Fired, Results, lone, settled
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import Counted, KeyedStep, OnError, Run, Step
from headrace.pipelines._time import END, in_words
from headrace.pipelines._undo import GONE, Undo
from headrace.pipelines._windows import Bounds, Grid, Late, Session

_LAYOUT = "open windows"


class Open:
    """The open windows of a key.

    Attributes:
        windows: The accumulator of each.
        ends: When the first of them ends.
        stream: The stream of the last element that went into one.
        sequence: Its sequence.
    """

    __slots__ = ("ends", "sequence", "stream", "windows")

    def __init__(self, windows: dict[Bounds, Any], stream: str, sequence: int) -> None:
        self.windows, self.stream, self.sequence = windows, stream, sequence
        self.ends = min((end for _, end in windows), default=END)


@dataclass(frozen=True)
class OpenClass(StateClass):
    """Open windows; their accumulators are the states that have a class."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """Open windows as bytes."""
        counts = [len(opened.windows) for opened in states]
        bounds = [bounds for opened in states for bounds in opened.windows]
        last = [(opened.stream, opened.sequence) for opened in states]
        accumulators = [accumulator for opened in states for accumulator in opened.windows.values()]
        return self.laid_out(_LAYOUT, (counts, bounds, last), accumulators)

    def unpack(self, packed: bytes) -> list[Any]:
        """The open windows of such bytes."""
        (counts, bounds, last), accumulators = self.taken_apart(_LAYOUT, packed)
        each = iter(zip(bounds, accumulators, strict=True))
        return [Open(dict(islice(each, count)), stream, sequence) for count, (stream, sequence) in zip(counts, last, strict=True)]


@dataclass(frozen=True, eq=False)
class TimeWindows(KeyedStep):
    """Gathers values in windows.

    Attributes:
        aggregation: Makes a result of the values of a window.
        windows: Which windows there are.
        allowed: How long after its end a window takes values, in microseconds of event time.
        late: What happens to values that come later.
        lag: How far behind the marks the event times of the elements may lie, because of the steps before.
    """

    aggregation: Functions
    windows: Grid | Session
    allowed: int
    late: Late
    lag: int

    @cached_property
    def state_class(self) -> StateClass:
        """Accumulators are made by the aggregation."""
        return OpenClass(self.aggregation.make, self.name)

    @property
    def uses_time(self) -> bool:
        """It does."""
        return True

    @property
    def delay(self) -> int:
        """A result's time is the last instant of its window, which is closed by the allowed delay later."""
        return self.allowed + 1

    @property
    def label(self) -> str:
        """How users call it."""
        return "window"

    @property
    def divided(self) -> str:
        """The windows, and how long each takes values. More delay would open windows again that have given their result."""
        return f"{self.windows.described}, closed {in_words(self._held)} after they end"

    def shown(self, state: Any) -> Any:
        """The accumulator of each open window."""
        return {Window(*bounds): accumulator for bounds, accumulator in sorted(state.windows.items())}

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The results of late values, and of windows that are closed when a value of their key comes."""
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, results, held, late = run.states(self.name), Results(elements), self._held, self.late
        undo = None if self.on_error is OnError.FAIL else Undo(states, self.state_class, keys)
        stream, sequences, others = origin.stream, origin.sequences.tolist(), run.others - held
        touched, late_values = list[Key](), 0
        rows = zip(elements.places(), keys, elements.values, times, marks, strict=True)
        try:
            for index, (place, key, value, time, mark) in enumerate(rows):
                if time == NO_TIME:
                    run.failed(self, elements, index, no_time())
                    continue
                closed = mark - held
                opened = states.get(key, GONE)
                if opened is not GONE and opened.ends <= closed and opened.ends <= others:
                    touched.append(key)
                    results.add_fired(index, self._fire(states, key, min(closed, others), run, undo))
                    opened = states.get(key, GONE)
                windows = self._windows(opened, time, closed)
                if not windows:
                    late_values += 1
                    if late is Late.PLACE_IN_OLDEST:
                        windows = [self.windows.oldest(closed)]
                try:
                    if windows:
                        before = END if opened is GONE else opened.ends
                        states[key] = opened = self._placed(opened, windows, value, stream, sequences[place])
                        touched.append(key)
                        if opened.ends < before and states.index is not None:
                            states.index.add(key, opened.ends)
                        if undo is not None:
                            undo.done(key, partial(self._placed_again, windows, value, stream, sequences[place]))
                    elif late is Late.FIRE:
                        around = self.windows.around(time)
                        result = self._alone(key, value, around)
                        if result is not None:
                            results.add(index, key, result, around[1] - 1, mark)
                except Exception as error:
                    run.failed(self, elements, index, error)
                    assert undo is not None, "a run raises where the policy is to fail"
                    undo.undo(key)
        finally:
            run.touched(self.name, touched)
        if late_values:
            run.count(Counted.LATE, self.name, late_values)
        return results.collected()

    def settle(self, run: Run, watermark: int) -> Sequence[Elements]:
        """The results of windows that the watermark closes."""
        states, until = run.states(self.name), watermark - self._held
        due, touched, fired = due_of(states, _ends), list[Key](), list[Fired]()
        for key in due.pop(until):
            if key in states and states[key].ends <= until:
                touched.append(key)
                fired += self._fire(states, key, until, run, None)
            if key in states:
                due.add(key, states[key].ends)
        run.touched(self.name, touched)
        return settled(fired)

    @property
    def _held(self) -> int:
        """How far after a window's end the mark lies that closes it."""
        return self.allowed + self.lag

    def _windows(self, opened: Any, time: int, closed: int) -> Sequence[Bounds]:
        """The windows that a value goes into; none if it is late."""
        if isinstance(self.windows, Grid):
            windows = self.windows.open(time, closed)
        else:
            alone = self.windows.around(time)
            joins = alone[1] > closed or (opened is not GONE and any(_overlap(alone, other) for other in opened.windows))
            windows = [alone] if joins else []
        return windows

    def _placed(self, before: Any, windows: Sequence[Bounds], value: Any, stream: str, sequence: int) -> Open:
        """A key's open windows, once a value is in some of them."""
        opened: Open = Open({}, stream, sequence) if before is GONE else before
        accumulators, aggregation = opened.windows, self.aggregation
        for bounds in windows:
            if self._are_sessions:
                bounds, accumulator = self._grown_together(opened, bounds)
            else:
                accumulator = accumulators.get(bounds, GONE)
            if accumulator is GONE:
                accumulator = aggregation.make()
            accumulators[bounds] = aggregation.step(accumulator, value)
            if bounds[1] < opened.ends:
                opened.ends = bounds[1]
        opened.stream, opened.sequence = stream, sequence
        return opened

    def _placed_again(self, windows: Sequence[Bounds], value: Any, stream: str, sequence: int, before: Any) -> Open:
        return self._placed(before, windows, value, stream, sequence)

    @cached_property
    def _are_sessions(self) -> bool:
        return isinstance(self.windows, Session)

    def _grown_together(self, opened: Open, bounds: Bounds) -> tuple[Bounds, Any]:
        """The session of all sessions that overlap with one, which are taken out; their values in the order of time."""
        joined = sorted(other for other in opened.windows if _overlap(bounds, other))
        if not joined:
            return bounds, GONE
        accumulators = [opened.windows.pop(other) for other in joined]
        opened.ends = min((end for _, end in opened.windows), default=END)
        assert self.aggregation.join is not None, "sessions have aggregations that combine"
        whole = min(bounds[0], joined[0][0]), max(bounds[1], joined[-1][1])
        return whole, reduce(self.aggregation.join, accumulators)

    def _alone(self, key: Key, value: Any, bounds: Bounds) -> Any:
        """The result of a window with one value."""
        aggregation = self.aggregation
        return aggregation.finish(key, aggregation.step(aggregation.make(), value), Window(*bounds))

    def _fire(self, states: States, key: Key, until: int, run: Run, undo: Undo | None) -> list[Fired]:
        """The results of a key's windows that end until then, which it has no more."""
        opened = states[key]
        closed = sorted((bounds for bounds in opened.windows if bounds[1] <= until), key=lambda bounds: bounds[::-1])
        accumulators = [opened.windows[bounds] for bounds in closed]
        without = partial(_without, closed=closed)
        if without(opened) is GONE:
            del states[key]
        if undo is not None:
            undo.done(key, without)
        fired = []
        for bounds, accumulator in zip(closed, accumulators, strict=True):
            try:
                result = self.aggregation.finish(key, accumulator, Window(*bounds))
            except Exception as error:
                run.failed(self, lone(key, opened.stream, opened.sequence), 0, error)
                continue
            if result is not None:
                fired.append(Fired(key, result, bounds[1] - 1, bounds[1] + self._held, opened.stream, opened.sequence))
        return fired


def _without(opened: Any, *, closed: Sequence[Bounds]) -> Any:
    """A key's open windows without some; GONE if there are no others."""
    for bounds in closed:
        del opened.windows[bounds]
    opened.ends = min((end for _, end in opened.windows), default=END)
    return opened if opened.windows else GONE


def _ends(opened: Open) -> int:
    return opened.ends


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one[0] < other[1] and other[0] < one[1]


@dataclass(frozen=True, eq=False)
class LateValues(Step):
    """Only the values that come after all their windows were closed.

    Attributes:
        windows: The windows; their bounds go by time alone, so that no state is asked.
        held: How far after a window's end the mark lies that closes it.
    """

    windows: Grid
    held: int

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The late ones, as they came."""
        times, marks = elements.times, elements.marks
        assert times is not None, "the graph has a step that asks for times"
        assert marks is not None, "the graph puts such a step behind a key_by"
        known = (times != NO_TIME) & (marks != NO_TIME)
        ends = times - times % self.windows.every + self.windows.size
        return elements.pick(np.flatnonzero(known & (ends + self.held <= marks)).tolist())

    @property
    def uses_time(self) -> bool:
        """It does."""
        return True

    @property
    def label(self) -> str:
        """How users call it."""
        return "late_values"
