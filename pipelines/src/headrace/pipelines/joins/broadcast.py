"""Tables of which every bucket has all rows, and the step whose function sees them as of the event time of each value."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from headrace.contract.counts import counted
from headrace.pipelines._errors import Unavailable, no_time
from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.elements.results import Fired, fired_in_turn, placeholder
from headrace.pipelines.joins.as_of import JoinAsOf, expired, expires
from headrace.pipelines.joins.step import Side, next_of, placed_by_time
from headrace.pipelines.joins.waiting import RIGHT, Entry, Waiting, WaitingClass
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.due import due_of
from headrace.pipelines.steps.keys import in_order_of_keys, normal_key
from headrace.pipelines.steps.returned import present
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import Counted, KeyedStep, StepPass
from headrace.pipelines.time.time import in_words

_AT, _DUE = attrgetter("at"), attrgetter("due")


class TooManyRows(Unavailable):
    """A broadcast table has more rows than its `max_rows`."""


@dataclass(frozen=True, eq=False)
class ToEveryBucket(KeyBy):
    """Sends each row to every bucket. The values are pairs of a key and a row."""

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The pairs with their keys. Those without an event time fail here, before there are several of each."""
        keyed = KeyBy.apply(self, elements, step_pass)
        times = keyed.times
        if times is None or not (times == NO_TIME).any():
            return keyed
        for index in np.flatnonzero(times == NO_TIME).tolist():
            step_pass.failed(self, keyed, index, no_time())
        return keyed.pick(np.flatnonzero(times != NO_TIME).tolist())

    @property
    def is_for_every_bucket(self) -> bool:
        """True."""
        return True

    @property
    def label(self) -> str:
        """The kind."""
        return "to every bucket"


@dataclass(frozen=True, eq=False)
class BroadcastRows(KeyedStep):
    """Keeps the rows of a table, and earlier ones while values may ask for them. It has no results.

    Attributes:
        side: The right side of the step that reads the rows.
        stay: How long the watermark must be past a row that has been replaced until nothing asks for it, in microseconds.
        max_rows: The largest number of rows, without deleted ones.
    """

    side: Side
    stay: int
    max_rows: int

    @cached_property
    def state_class(self) -> StateClass:
        """The class of a key's rows."""
        return WaitingClass(list, self.name)

    @property
    def bound(self) -> Bound:
        """The number of rows, and how long earlier ones are kept."""
        # A row leaves a microsecond after the last value that asks for it.
        rows, stay = counted(self.max_rows, "row"), in_words(self.stay - 1)
        return Bound(f"at most {rows} in each bucket (max_rows), and replaced ones for {stay} of event time (retention, delay)")

    @property
    def uses_time(self) -> bool:
        """True: a row holds from an event time on."""
        return True

    @property
    def is_in_every_bucket(self) -> bool:
        """True."""
        return True

    @property
    def calls_function(self) -> bool:
        """False."""
        return False

    @property
    def label(self) -> str:
        """The kind."""
        return "broadcast"

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> Any:
        """The last row of a key; None if it is deleted."""
        return state.rights[-1].value

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """Keeps the rows.

        Raises:
            StepError: There are too many, whatever the policy is: values would miss some without a trace.
        """
        (keys, times, marks), origin = elements.timed(), elements.origin
        states, stream, sequences, late = step_pass.states(self.name), origin.stream, origin.sequences.tolist(), 0
        there = self._number_before(states, len(keys))
        rows = zip(elements.places(), keys, elements.values, times, marks, strict=True)
        for index, (place, key, (_, row), time, mark) in enumerate(rows):
            at, due, is_late = placed_by_time(self.side, time, mark)
            late += is_late
            entry = Entry(due, at, time, stream, sequences[place], RIGHT, False, False, row)
            kept = states.get(key)
            waiting = Waiting([], []) if kept is None else kept
            before, was_there = waiting.next, _is_there(waiting)
            waiting.add(entry)
            waiting.next = expires(waiting.rights, self.stay)
            states[key] = waiting
            if waiting.next < before and states.index is not None:
                states.index.add(key, waiting.next)
            more = _is_there(waiting) - was_there
            there += more
            if more > 0 and there > self.max_rows:
                why = f"the table has more than {counted(self.max_rows, 'row')}, its max_rows: raise max_rows"
                step_pass.failed(self, elements, index, TooManyRows(why))
        step_pass.touched(self.name, keys)
        if late:
            step_pass.count(Counted.LATE, self.name, late)
        return elements.pick([])

    def forget(self, step_pass: StepPass, watermark: int) -> None:
        """Removes the rows for which nothing asks once the watermark has come to a time."""
        states = step_pass.states(self.name)
        due, touched = due_of(states, next_of), list[Key]()
        for key in due.pop(watermark):
            if key in states and (waiting := states[key]).next <= watermark:
                touched.append(key)
                waiting.rights = waiting.rights[expired(waiting.rights, watermark - self.stay) :]
                waiting.next = expires(waiting.rights, self.stay)
                if not waiting:
                    del states[key]
            if key in states:
                due.add(key, states[key].next)
        step_pass.touched(self.name, touched)

    def _number_before(self, states: States, changes: int) -> int:
        """The number of rows before some changes; 0 if there cannot be too many after them."""
        if len(states) + changes <= self.max_rows:
            return 0
        return sum(_is_there(waiting) for _, waiting in states.items())


def _is_there(waiting: Waiting) -> bool:
    """Whether a key has a row that is not deleted, as of the last change."""
    return bool(waiting.rights) and waiting.rights[-1].value is not None


class RowsAsOf(Mapping[Any, Any]):
    """The rows of a table as of an event time, until it is closed. Each row that it returns is a copy.

    Args:
        states: The rows that are kept, by key.
        order: The keys that are kept in order, once they are known: a list that is empty until then.
        at: The event time.
    """

    __slots__ = ("_at", "_order", "_states")

    def __init__(self, states: States, order: list[Key], at: int) -> None:
        self._states: States | None = states
        self._order, self._at = order, at

    def close(self) -> None:
        """Ends its use, since later on the table may have other rows."""
        self._states = None

    def __getitem__(self, key: Any) -> Any:
        """The row of a key."""
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return copied(row)

    def __contains__(self, key: object) -> bool:
        """Whether there is a row of a key."""
        return self._row(key) is not None

    def __iter__(self) -> Iterator[Any]:
        """The keys of all rows, in an order that only depends on them."""
        if not self._order:
            self._order.extend(in_order_of_keys(list(self._open().keys())))
        return (key for key in self._order if key in self)

    def __len__(self) -> int:
        """The number of rows."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """The rows as a dict."""
        return "the rows of a call that has ended" if self._states is None else repr(dict(self))

    def _open(self) -> States:
        if self._states is None:
            raise RuntimeError(
                "the rows of a broadcast table can be read only during the call of the function: return a copy of them from it, "
                "such as dict(rows)"
            )
        return self._states

    def _row(self, key: Any) -> Any:
        states = self._open()
        try:
            normal = normal_key(key)
        except (TypeError, ValueError):
            hash(key)  # raises TypeError, as of a dict
            return None
        waiting = states.get(normal)
        if waiting is None:
            return None
        last = bisect_right(waiting.rights, self._at, key=_AT) - 1
        return None if last < 0 else waiting.rights[last].value


@dataclass(frozen=True, eq=False)
class MapWith(JoinAsOf):
    """Applies a function to each value and the rows as of its event time.

    Attributes:
        function: Called with a value and the rows. Results that are None are dropped.
        rows: The step that keeps the rows.
    """

    function: Callable[[Any, Mapping[Any, Any]], Any]
    rows: BroadcastRows

    @property
    def calls_function(self) -> bool:
        """True."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "map_with"

    @property
    def bound(self) -> Bound:
        """How long values wait; `rows` keeps the rows."""
        return Bound(f"values for {in_words(self.right.held)} of event time (delay)")

    def display(self, state: Any) -> Any:
        """The values that wait."""
        return [entry.value for entry in state.queue]

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results that are due. Removes rows for which nothing asks from then on."""
        states, rows, order = step_pass.states(self.name), step_pass.states(self.rows.name), list[Key]()
        due, touched, fired = due_of(states, next_of), list[Key](), list[Fired]()
        for key in due.pop(watermark):
            if key not in states:
                continue
            waiting = states[key]
            count = bisect_right(waiting.queue, watermark, key=_DUE)
            leaving, waiting.queue = waiting.queue[:count], waiting.queue[count:]
            if leaving:
                touched.append(key)
                step_pass.fired(self.name, count)
                fired += self._results(key, leaving, rows, order, step_pass)
            if waiting.queue:
                waiting.next = waiting.queue[0].due
                due.add(key, waiting.next)
            else:
                del states[key]
        step_pass.touched(self.name, touched)
        self.rows.forget(step_pass, watermark)
        return fired_in_turn(fired)

    def _results(
        self, key: Key, leaving: Sequence[Entry], rows: States, order: list[Key], step_pass: StepPass
    ) -> Iterator[Fired]:
        numbers = Counter[tuple[Any, ...]]()
        for entry in leaving:
            lineage = self.name, entry.due, numbers[entry[:6]]
            numbers[entry[:6]] += 1
            seen = RowsAsOf(rows, order, entry.at)
            try:
                result = present(self.function(entry.value, seen))
            except BaseException as error:
                step_pass.failed(self, placeholder(key, entry.stream, entry.sequence), 0, error)
                continue
            finally:
                seen.close()
            if result is not None:
                yield Fired(key, result, entry.time, entry.due, entry.stream, entry.sequence, lineage)
