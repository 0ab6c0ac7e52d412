"""Runs the steps of a graph on elements, up to the next shuffle or a sink."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headrace.pipelines._errors import NotStored, StepError, Unavailable, reason_of, text_of, too_many_keys
from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.execution.call_record import CallRecord, call_record
from headrace.pipelines.execution.measures import StepMeasures
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.steps.copies import copied, copied_together
from headrace.pipelines.steps.lake import Lake
from headrace.pipelines.steps.meters import Series, added
from headrace.pipelines.steps.stateless import KeyBy, Sink, Source
from headrace.pipelines.steps.step import Cell, Counted, KeyedStep, OnError, Step, each
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END, are_out_of_range, out_of_range

log = logging.getLogger("headrace.pipelines")


_MEASURED = {
    Counted.LATE: "late",
    Counted.AHEAD: "ahead",
    Counted.FURTHER: "further",
    Counted.DISCARDED: "violated",
    Counted.VIOLATED: "violated",
}
"""The measures that count events."""
Watermark = Callable[[frozenset[int], int | None], int]


@dataclass(frozen=True, slots=True)
class Failed:
    """An element whose function raised, for the dead-letter sink."""

    step: str
    elements: Elements
    index: int
    reason: str
    """The error and its location."""
    error: str
    """The exception."""


@dataclass
class Pass:
    """One pass through the steps between two shuffles, and its results.

    Attributes:
        graph: The graph of the pipeline.
        kept: The states of each step by key, in the bucket of this pass; empty before the first shuffle.
        folder: The folder that has the files of programs; None if it is not known.
        shuffled: Elements for the next shuffle, with the number of the `key_by`.
        written: Elements for a sink, with its name.
        stored: Elements for a table, with its place.
        failed_elements: Elements for the dead-letter sink.
        changed: The keys whose states may have changed or been removed, by step, in the order of their first change.
        counts: The number of elements by event and step.
        measures: What each step has done.
        others: A lower bound of the watermark of the streams other than the elements'.
        record: Where the calls of functions are recorded.
        checked: The steps whose states are checked after each element: one that leaves a state that cannot be stored fails.
    """

    graph: Graph
    kept: MutableMapping[str, States] = field(default_factory=lambda: defaultdict(States))
    folder: Path | None = None
    shuffled: list[tuple[int, Elements]] = field(default_factory=list)
    written: list[tuple[str, Elements]] = field(default_factory=list)
    stored: list[tuple[str, Elements]] = field(default_factory=list)
    failed_elements: list[Failed] = field(default_factory=list)
    changed: defaultdict[str, dict[Key, None]] = field(default_factory=lambda: defaultdict(dict))
    counts: Counter[tuple[Counted, str]] = field(default_factory=Counter)
    measures: defaultdict[str, StepMeasures] = field(default_factory=lambda: defaultdict(StepMeasures))
    others: int = END
    record: CallRecord = field(default_factory=call_record)
    checked: frozenset[str] = frozenset()

    # What the engine calls

    def read(self, source: int, elements: Elements) -> None:
        """Runs the steps after a source on its messages, whose values are payloads.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        step = self.graph.steps[source]
        assert isinstance(step, Source)
        decoded = self._applied(step, self._told_apart(elements))
        if decoded:
            self._after(source, replace(decoded, decoded_by=source))

    def enter(self, key_by: int, elements: Elements, others: int = END) -> None:
        """Runs the steps after a `key_by` on keyed elements.

        Args:
            key_by: The number of the `key_by`.
            elements: Elements of one stream, with their marks if a step needs times.
            others: A lower bound of the watermark of all other streams that reach this `key_by`; END if there is none.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        self.others = others
        elements = self._told_apart(self.decoded_again(elements))
        if elements:
            self._after(key_by, elements)

    def combined(self, key_by: int, elements: Elements) -> Elements:
        """Elements of a stream with keys, times and marks, as they are shuffled: combined, if the step behind asks for it."""
        step = self.graph.combiner(key_by)
        if step is None or not elements:
            return elements
        started = time.perf_counter_ns()
        self.record.begin(self.graph.name, step.name, elements)
        try:
            return step.combined(elements, self)
        finally:
            self.record.end()
            self.measures[step.name].time_ns += time.perf_counter_ns() - started

    def fire_due(self, level: int, watermark: int | Watermark, present: Present | None = None) -> None:
        """Fires the timers and windows that are due at the end of a micro-batch in the steps of a level.

        Args:
            level: The number of shuffles before the steps.
            watermark: The watermark of all steps, or a function that returns it for a step's `Graph.roots` and lifetime.
            present: The clock, for steps that act by it; None where the micro-batch does not end yet.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        self.others = END
        for number, step in enumerate(self.graph.steps):
            if isinstance(step, KeyedStep) and self.graph.levels[number] == level:
                started = time.perf_counter_ns()
                self.record.begin_due(self.graph.name, step.name)
                try:
                    reached = watermark if isinstance(watermark, int) else watermark(self.graph.roots[number], step.lifetime)
                    fired = list(step.fire_due(self, reached))
                    if present is not None and step.uses_clock:
                        fired += step.fire_by_clock(self, present, reached)
                except _ENDS as error:
                    raise _exited(error, f"pipeline {self.graph.name}, step {step.name}") from error
                finally:
                    self.record.end()
                measured = self.measures[step.name]
                measured.time_ns += time.perf_counter_ns() - started
                for due in fired:
                    measured.sent += len(due)
                    self._after(number, due if self.graph.tells_apart else replace(due, lineages=None))

    def leave_to_first_bucket(self) -> None:
        """Drops counts and measures of steps of which each bucket has all states: the first bucket counts for all."""
        for name in self.graph.in_every_bucket:
            self.measures.pop(name, None)
            for what, step in [counted for counted in self.counts if counted[1] == name]:
                del self.counts[what, step]

    def decoded_again(self, elements: Elements) -> Elements:
        """Elements with their values, if they are payloads that a source decodes after the shuffle.

        Raises:
            StepError: The source's function raises, and its policy is `OnError.FAIL`.
        """
        if elements.decoded_by is None:
            return elements
        step = self.graph.steps[elements.decoded_by]
        assert isinstance(step, Source)
        started = time.perf_counter_ns()
        counts, measured = self.counts.copy(), replace(self.measures[step.name])
        decoded = self._applied_to(step, elements)
        if step.judges:  # which have counted all of them before the shuffle
            self.counts, self.measures[step.name] = counts, measured
        measured = self.measures[step.name]
        measured.sent += len(decoded) - len(elements)
        measured.time_ns += time.perf_counter_ns() - started
        return replace(decoded, decoded_by=None)

    # What steps call

    def notes(self, step: Step, elements: Elements) -> tuple[Cell, Sequence[int]]:
        """Where to write, and what, before a function is called with each of the elements."""
        return self.record.notes(self.graph.name, step.name, elements)

    def states(self, step: str) -> States:
        """The states of a step in this bucket."""
        return self.kept[step]

    def touched(self, step: str, keys: Sequence[Key]) -> None:
        """Records keys whose states may have changed or been removed."""
        self.changed[step] |= dict.fromkeys(keys)
        self.kept[step].touched(keys)

    def count(self, what: Counted, step: str, elements: int, part: str = "") -> None:
        """Adds to a count of elements of a step; of a part of it, if the count is by part."""
        self.counts[what, f"{step} {part}" if part else step] += elements
        if (name := _MEASURED.get(what)) is not None:
            measured = self.measures[step]
            setattr(measured, name, getattr(measured, name) + elements)

    def tally(self, step: str, series: Series) -> None:
        """Adds to the series of a counter or histogram."""
        measured = self.measures[step]
        measured.series = added(measured.series, series)

    def fired(self, step: str, number: int) -> None:
        """Adds to the number of timers and windows of a step that have fired."""
        self.measures[step].fired += number

    def failed(self, step: Step, elements: Elements, index: int, error: BaseException) -> None:
        """Applies a step's error policy to an element for which a function raised.

        Raises:
            StepError: The policy is `OnError.FAIL`, or something that the step needs does not answer.
            KeyboardInterrupt: Somebody interrupts the program, which is no matter of a policy.
        """
        where, raised = self._where(step, elements, index), f"{type(error).__name__}: {reason_of(error)}"
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"{where} was being processed")
            raise error
        reason = f"{where}: {raised}"
        if isinstance(error, Unavailable):
            raise StepError(f"{reason}. Nothing is wrong with the message, so it is not left out") from error
        if step.on_error is OnError.FAIL:
            raise StepError(f"{reason}. Correct the function, or use another on_error than OnError.FAIL") from error
        self.measures[step.name].failed += 1
        if step.on_error is OnError.SKIP:
            self.count(Counted.SKIPPED, step.name, 1)
            log.warning("skipped: %s", reason)
        else:
            self.failed_elements.append(Failed(step.name, elements, index, reason, raised))

    def _applied(self, step: Step, elements: Elements) -> Elements:
        """The results of a step, which is measured."""
        started = time.perf_counter_ns()
        found = self._applied_to(step, elements)
        measured = self.measures[step.name]
        measured.time_ns += time.perf_counter_ns() - started
        measured.received += len(elements)
        measured.sent += len(found)
        return found

    def _applied_to(self, step: Step, elements: Elements) -> Elements:
        self.record.begin(self.graph.name, step.name, elements)
        try:
            return step.apply(elements, self)
        except _ENDS as error:
            where = f"pipeline {self.graph.name}, step {step.name}, stream {elements.origin.stream}"
            raise _exited(error, where) from error
        finally:
            self.record.end()

    def _checked(self, step: Step, element: Elements) -> Elements:
        """The results of a step for one element; none if it fails because it leaves a state that cannot be stored."""
        assert isinstance(step, KeyedStep), "other steps have no states"
        assert element.keys is not None, "the graph puts such a step behind a key_by"
        (key,), states = element.keys, self.states(step.name)
        before = step.state_class.pack([states[key]]) if key in states else None
        found = self._applied(step, element)
        try:
            if key in states:
                step.state_class.pack([states[key]])
        except NotStored as error:
            states.renewed([key])
            if before is None:
                del states[key]
            else:
                (states[key],) = step.state_class.unpack(before)
            self.measures[step.name].sent -= len(found)
            self.failed(step, element, 0, NotStored(step.name, error.reason, key))
            return element.pick([])
        return found

    def _where(self, step: Step, elements: Elements, index: int) -> str:
        origin = elements.origin
        key = f", key {elements.keys[index]!r}" if elements.keys is not None else ""
        sequence = int(origin.sequences[elements.place(index)])
        return f"pipeline {self.graph.name}, step {step.name}{key}, stream {origin.stream}, sequence {sequence}"

    def _with_sound_times(self, step: Step, elements: Elements) -> Elements:
        """The elements except elements whose event time is out of range, which have failed."""
        times = elements.times
        if times is None or elements.marks is not None or not self.graph.uses_time:
            return elements
        wrong = are_out_of_range(times)
        if not wrong.any():
            return elements
        for index in np.flatnonzero(wrong).tolist():
            self.failed(step, elements, index, out_of_range(int(times[index])))
        return elements.pick(np.flatnonzero(~wrong).tolist())

    def _after(self, number: int, elements: Elements) -> None:
        consumers = self.graph.consumers[number]
        for place, consumer in enumerate(consumers[:-1]):
            step, branch = self.graph.steps[number], elements
            if not step.divides:
                branch, elements = self._branched(step, elements)
            self._consume(consumer, self._via(number, place, branch))
        for place, consumer in enumerate(consumers[-1:], len(consumers) - 1):
            self._consume(consumer, self._via(number, place, elements))

    def _told_apart(self, elements: Elements) -> Elements:
        """Elements with lineages, if a step needs them."""
        if not self.graph.tells_apart or elements.lineages is not None:
            return elements
        return replace(elements, lineages=[()] * len(elements))

    def _via(self, number: int, place: int, elements: Elements) -> Elements:
        """Elements for a consumer of a step; where it has several inputs, or one twice, told apart by this one."""
        consumers = self.graph.consumers[number]
        consumer = consumers[place]
        if elements.lineages is None or len(self.graph.inputs[consumer]) < 2:
            return elements
        way = self.graph.steps[number].name, consumers[:place].count(consumer)
        return replace(elements, lineages=[(*lineage, way) for lineage in elements.lineages])

    def _within(self, limit: int, step: KeyedStep, elements: Elements) -> Elements:
        """The elements except elements of new keys for which a step has no room, which have failed."""
        states, keys = self.states(step.name), elements.keys or ()
        room = limit - len(states)
        if room >= len(keys):
            return elements
        new, there = set[Key](), list[int]()
        for index, key in enumerate(keys):
            if key in states or key in new or len(new) < room:
                there.append(index)
                if key not in states:
                    new.add(key)
            else:
                self.failed(step, elements, index, too_many_keys(limit))
        return elements if len(there) == len(keys) else elements.pick(there)

    def _branched(self, step: Step, elements: Elements) -> tuple[Elements, Elements]:
        """Copies of a step's results for one branch, and the results for the others. Those that cannot be copied fail."""
        together = copied_together(elements.values)
        if together is not None:
            return replace(elements, values=together), elements
        copies, kept = each(step, copied, elements, self)
        return replace(kept, values=copies), kept

    def _consume(self, consumer: int, elements: Elements) -> None:
        step = self.graph.steps[consumer]
        if isinstance(step, KeyedStep):
            self.states(step.name).begin(elements.keys or ())
            if self.graph.max_keys is not None and not step.is_in_every_bucket:
                elements = self._within(self.graph.max_keys, step, elements)
        if step.name in self.checked and len(elements) > 1:
            for index in range(len(elements)):
                self._consume(consumer, elements.pick([index]))
            return
        found = self._checked(step, elements) if step.name in self.checked else self._applied(step, elements)
        if not found:
            return
        if isinstance(step, KeyBy):
            if sound := self._with_sound_times(step, found):
                self.shuffled.append((consumer, sound))
        elif isinstance(step, Sink):
            self.written.append((step.sink, found))
        elif isinstance(step, Lake):
            self.stored.append((step.path, found))
        else:
            self._after(consumer, found)


_ENDS = (SystemExit, GeneratorExit)
"""What ends a process, or a generator, unnamed."""


def _exited(error: BaseException, where: str) -> StepError:
    """The error for what raises where no policy applies, such as a function that creates a state."""
    return StepError(f"{where}: {type(error).__name__}: {text_of(error)}. A function must not end its process")
