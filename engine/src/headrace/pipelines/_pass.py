"""Brings elements through the steps of a graph, up to the next shuffle or to a sink."""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._errors import StepError
from headrace.pipelines._graph import Graph
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._step import Counted, KeyedStep, OnError, Step
from headrace.pipelines._steps import KeyBy, Sink, Source
from headrace.pipelines._time import END, are_out_of_range, out_of_range

log = logging.getLogger("headrace.pipelines")


@dataclass(frozen=True, slots=True)
class Failed:
    """An element whose function raised, for the dead-letter sink."""

    step: str
    elements: Elements
    index: int
    reason: str
    """What happened, and where."""
    error: str
    """What was raised."""


@dataclass
class Pass:
    """One pass through the steps between two shuffles; what it leads to is gathered here.

    Attributes:
        graph: The pipeline's.
        kept: The states of each step by key, in the bucket that the pass is about; nothing before the first shuffle.
        shuffled: Elements that go to a shuffle, with the number of the `key_by`.
        written: Elements that go to a sink, with its name.
        failed_elements: What goes to the dead-letter sink.
        changed: The keys whose states may have changed, or are gone, by step, in the order in which that happened first.
        counts: What has happened to how many elements, by what and step.
        others: How far event time has surely come in the streams other than that of the elements.
    """

    graph: Graph
    kept: MutableMapping[str, States] = field(default_factory=lambda: defaultdict(States))
    shuffled: list[tuple[int, Elements]] = field(default_factory=list)
    written: list[tuple[str, Elements]] = field(default_factory=list)
    failed_elements: list[Failed] = field(default_factory=list)
    changed: defaultdict[str, dict[Key, None]] = field(default_factory=lambda: defaultdict(dict))
    counts: Counter[tuple[Counted, str]] = field(default_factory=Counter)
    others: int = END

    # What the engine calls

    def read(self, source: int, elements: Elements) -> None:
        """Takes messages of a source, whose values are payloads, as far as they go."""
        step = self.graph.steps[source]
        assert isinstance(step, Source)
        decoded = step.apply(elements, self)
        if decoded:
            self._after(source, replace(decoded, decoded_by=source))

    def enter(self, key_by: int, elements: Elements, others: int = END) -> None:
        """Takes keyed elements on behind a shuffle.

        Args:
            key_by: The number of the step that they come from.
            elements: Elements of one stream, with their marks where a step asks for times.
            others: How far event time has surely come in all other streams that reach this `key_by`; END where there is none.
        """
        self.others = others
        if elements.decoded_by is not None:
            step = self.graph.steps[elements.decoded_by]
            assert isinstance(step, Source)
            elements = step.apply(elements, self)
        if elements:
            self._after(key_by, elements)

    def settle(self, level: int, watermark: int | Mapping[int, int]) -> None:
        """Takes on what is due at the end of a micro-batch in the steps behind so many shuffles.

        Args:
            level: How many.
            watermark: That of all streams together; by `key_by` where there are several that elements reach from sources, which
                `Graph.roots` tells.
        """
        self.others = END
        for number, step in enumerate(self.graph.steps):
            if isinstance(step, KeyedStep) and self.graph.levels[number] == level:
                for due in step.settle(self, self._watermark(number, watermark)):
                    self._after(number, due)

    # What steps call

    def states(self, step: str) -> States:
        """The states that a step keeps in this bucket."""
        return self.kept[step]

    def touched(self, step: str, keys: Sequence[Key]) -> None:
        """Notes keys whose states may have changed, or are gone."""
        self.changed[step] |= dict.fromkeys(keys)

    def count(self, what: Counted, step: str, elements: int) -> None:
        """Counts elements to which something has happened in a step."""
        self.counts[what, step] += elements

    def failed(self, step: Step, elements: Elements, index: int, error: Exception) -> None:
        """Does with an element whose function raised what the step's policy says.

        Raises:
            StepError: it says to fail.
        """
        raised = f"{type(error).__name__}: {error}"
        reason = f"{self._where(step, elements, index)}: {raised}"
        if step.on_error is OnError.FAIL:
            raise StepError(f"{reason}. Mend the function, or give the step another on_error than OnError.FAIL") from error
        if step.on_error is OnError.SKIP:
            self.count(Counted.SKIPPED, step.name, 1)
            log.warning("skipped: %s", reason)
        else:
            self.failed_elements.append(Failed(step.name, elements, index, reason, raised))

    def _watermark(self, number: int, watermark: int | Mapping[int, int]) -> int:
        if isinstance(watermark, int):
            return watermark
        return min(watermark.get(key_by, NO_TIME) for key_by in self.graph.roots[number])

    def _where(self, step: Step, elements: Elements, index: int) -> str:
        origin = elements.origin
        key = f", key {elements.keys[index]!r}" if elements.keys is not None else ""
        sequence = int(origin.sequences[elements.place(index)])
        return f"pipeline {self.graph.name}, step {step.name}{key}, stream {origin.stream}, sequence {sequence}"

    def _with_sound_times(self, step: Step, elements: Elements) -> Elements:
        """Elements that arrive without those whose time is none, wherever it comes from."""
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
        for consumer in self.graph.consumers[number]:
            step = self.graph.steps[consumer]
            found = step.apply(elements, self)
            if not found:
                continue
            if isinstance(step, KeyBy):
                if sound := self._with_sound_times(step, found):
                    self.shuffled.append((consumer, sound))
            elif isinstance(step, Sink):
                self.written.append((step.sink, found))
            else:
                self._after(consumer, found)
