"""The base of joins: a step with two inputs, whose results depend on event time alone, and the steps that bring values to it.

A value meets values of the other side by their event times. Its result is due, and emitted, when the watermark of all streams of
both sides shows that everything has arrived that it may meet. So results do not depend on the order in which streams are read,
nor on the division into micro-batches.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from headrace.pipelines._errors import no_time
from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, fired_in_turn, placeholder
from headrace.pipelines.joins.waiting import LEFT, RIGHT, Entry, Waiting, WaitingClass, in_turn
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.due import due_of
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import Counted, KeyedStep, Step, StepPass
from headrace.pipelines.time.time import END
from headrace.pipelines.windows.late import Late


@dataclass(frozen=True)
class Side:
    """One side of a join.

    Attributes:
        held: How far a stream may be past one of its values before that is late, in microseconds.
        wait: How long after its mark a value waits for values of the other side, in microseconds.
        stays: Whether a value makes a result if it meets none.
        lag: How far event times may be behind their marks because of earlier steps, in microseconds.
    """

    held: int
    wait: int
    stays: bool
    lag: int


@dataclass(frozen=True, eq=False)
class Entrance(Step):
    """Tells a join which side values belong to."""

    side: int

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values, each with its side."""
        return elements.changed([(self.side, value) for value in elements.values])

    @property
    def label(self) -> str:
        """The side, in words."""
        return "right side" if self.side else "left side"


@dataclass(frozen=True, eq=False)
class SameKey(KeyBy):
    """A further shuffle by the key that values have, so that both sides of a join have as many."""

    keyed_by: str

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements."""
        return elements

    @property
    def calls_function(self) -> bool:
        """False."""
        return False

    @property
    def by(self) -> str:
        """A description of the key, for the fingerprint."""
        return self.keyed_by


@dataclass(frozen=True, eq=False)
class Join(KeyedStep):
    """Has values of two sides meet.

    Attributes:
        left: The left side.
        right: The right side.
        late: What happens to late values.
    """

    left: Side
    right: Side
    late: Late

    @cached_property
    def state_class(self) -> StateClass:
        """The class of values that wait."""
        return WaitingClass(list, self.name)

    @property
    def uses_time(self) -> bool:
        """True: values meet by event time."""
        return True

    @property
    def passes_headers(self) -> bool:
        """False: a result comes from two values, which wait without their headers."""
        return False

    @property
    def calls_function(self) -> bool:
        """False."""
        return False

    @property
    def delay(self) -> int:
        """How much further the event times of its results may be behind their marks."""
        sides = [self.left, *([self.right] if self.right.stays else [])]
        return max(side.lag + side.wait for side in sides) - max(self.left.lag, self.right.lag)

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> Any:
        """The values of each side."""
        both = (*state.queue, *state.rights)
        return {name: [entry.value for entry in both if entry.side == side] for side, name in ((LEFT, "left"), (RIGHT, "right"))}

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """No results yet: they are due by the watermark, at the end of the micro-batch."""
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, touched, late = step_pass.states(self.name), list[Key](), 0
        stream, sequences = origin.stream, origin.sequences.tolist()
        rows = zip(elements.places(), keys, elements.values, times, marks, strict=True)
        for index, (place, key, (side, value), time, mark) in enumerate(rows):
            if time == NO_TIME:
                step_pass.failed(self, elements, index, no_time())
                continue
            of = self.right if side else self.left
            at, due, is_late = self.placed(of, time, mark)
            late += is_late
            if is_late and (self.late is Late.DROP or (self.late is Late.FIRE and not of.stays)):
                continue
            is_alone = is_late and self.late is Late.FIRE
            self._add(states, key, Entry(due, at, time, stream, sequences[place], side, is_alone, False, value))
            touched.append(key)
        step_pass.touched(self.name, touched)
        if late:
            step_pass.count(Counted.LATE, self.name, late)
        return elements.pick([])

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results that are due. Removes values that nothing meets from then on."""
        states = step_pass.states(self.name)
        due, touched, fired = due_of(states, next_of), list[Key](), list[Fired]()
        for key in due.pop(watermark):
            if key in states and states[key].next <= watermark:
                touched.append(key)
                fired += self._fired(states[key], key, watermark, step_pass)
                if not states[key]:
                    del states[key]
            if key in states:
                due.add(key, states[key].next)
        step_pass.touched(self.name, touched)
        return fired_in_turn(fired)

    def placed(self, of: Side, time: int, mark: int) -> tuple[int, int, bool]:
        """The event time at which a value meets others, the watermark at which its result is due, and whether it is late."""
        return placed_by_time(of, time, mark)

    @abstractmethod
    def partners(self, left: Entry, rights: Sequence[Entry]) -> Sequence[int]:
        """The indices of the values of the right side that a value of the left side meets."""

    @abstractmethod
    def are_met(self, right: Entry, lefts: Sequence[int]) -> bool:
        """Whether a value of the left side that waits will meet a value of the right side; `lefts` are their times, in order."""

    @abstractmethod
    def expired(self, rights: Sequence[Entry], watermark: int) -> int:
        """The number of the first values of the right side that nothing meets once the watermark has come to a time."""

    @abstractmethod
    def expires(self, rights: Sequence[Entry]) -> int:
        """The watermark at which a value of the right side is the next to be met by nothing; END for none."""

    def _add(self, states: Any, key: Key, entry: Entry) -> None:
        waiting = states.get(key)
        before = END if waiting is None else waiting.next
        if waiting is None:
            waiting = Waiting([], [])
        waiting.add(entry)
        waiting.next = self._next_of(waiting)
        states[key] = waiting
        if waiting.next < before and states.index is not None:
            states.index.add(key, waiting.next)

    def _next_of(self, waiting: Waiting) -> int:
        first = waiting.queue[0].due if waiting.queue else END
        alone = min((r.due for r in waiting.rights if not r.has_met), default=END) if self.right.stays else END
        return min(first, alone, self.expires(waiting.rights))

    def _fired(self, waiting: Waiting, key: Key, watermark: int, step_pass: StepPass) -> list[Fired]:
        """The results of a key that are due, in order."""
        results: list[tuple[Entry, Any, int]] = []
        count = bisect_right(waiting.queue, watermark, key=attrgetter("due"))
        leaving, waiting.queue = waiting.queue[:count], waiting.queue[count:]
        for entry in leaving:
            try:
                results += self._of_entry(entry, waiting)
            except TypeError as error:  # a value that cannot be copied
                step_pass.failed(self, placeholder(key, entry.stream, entry.sequence), 0, error)
        if self.right.stays:
            results += self._of_rights(waiting, watermark)
        waiting.rights = waiting.rights[self.expired(waiting.rights, watermark) :]
        waiting.next = self._next_of(waiting)
        step_pass.fired(self.name, len(leaving))
        results.sort(key=lambda result: in_turn(result[0]))
        fired, numbers = list[Fired](), Counter[tuple[Any, ...]]()
        for entry, value, time in results:
            lineage = (self.name, entry.side, entry.due, numbers[entry[:6], time])
            numbers[entry[:6], time] += 1
            fired.append(Fired(key, value, time, entry.due, entry.stream, entry.sequence, lineage))
        return fired

    def _of_entry(self, entry: Entry, waiting: Waiting) -> list[tuple[Entry, Any, int]]:
        """The results of a value of the left side, or of a late one, with their event times."""
        if entry.side == RIGHT:
            return [(entry, (None, entry.value), entry.time)]
        rights = waiting.rights
        met = () if entry.is_alone else self.partners(entry, rights)
        if not met:
            return [(entry, (entry.value, None), entry.time)] if self.left.stays else []
        pairs = [(copied(entry.value), copied(rights[index].value)) for index in met]
        times = [self.time_of(entry, rights[index]) for index in met]
        if self.right.stays:
            for index in met:
                rights[index] = rights[index]._replace(has_met=True)
        return [(entry, pair, time) for pair, time in zip(pairs, times, strict=True)]

    def time_of(self, left: Entry, right: Entry) -> int:
        """The event time of a pair: the later one."""
        return max(left.time, right.time)

    def _of_rights(self, waiting: Waiting, watermark: int) -> list[tuple[Entry, Any, int]]:
        """The results of values of the right side that have met nothing."""
        results: list[tuple[Entry, Any, int]] = []
        due = [index for index, right in enumerate(waiting.rights) if not right.has_met and right.due <= watermark]
        lefts = sorted(entry.at for entry in waiting.queue if entry.side == LEFT and not entry.is_alone) if due else []
        for index in due:
            right = waiting.rights[index]
            if not self.are_met(right, lefts):
                results.append((right, (None, copied(right.value)), right.time))
            waiting.rights[index] = right._replace(has_met=True)
        return results


def placed_by_time(of: Side, time: int, mark: int) -> tuple[int, int, bool]:
    """Where a value is that meets others by its own event time, as `Join.placed`."""
    return max(time, mark - of.held), max(time, mark) + of.wait, time < mark - of.held


def next_of(waiting: Waiting) -> int:
    """When something of a key is due; END for never."""
    return waiting.next
