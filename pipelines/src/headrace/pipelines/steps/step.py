"""The base classes of steps, and what steps need of the pass that runs them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.returned import is_lazy, present
from headrace.pipelines.time.present import Present


class OnError(Enum):
    """The policy for an element for which a function raises."""

    FAIL = "fail"
    """The query fails. After a restart, it processes the element again."""
    SKIP = "skip"
    """The element is skipped, logged and counted."""
    DEAD_LETTER = "dead-letter"
    """Its message goes to the pipeline's dead-letter sink, with the reason."""


class Counted(Enum):
    """The events that are counted, by step."""

    LATE = "late"
    """Elements that arrived after their windows were closed, whatever happened to them."""
    SKIPPED = "skipped"
    """Elements that were skipped, since a function raised."""
    AHEAD = "ahead"
    """Elements whose event times are too far ahead of the present to advance the watermark."""
    BEHIND = "behind"
    """Streams whose first event time the watermark had passed when they began."""
    REPEATED = "repeated"
    """Live messages that the history of the application has, too, and that were dropped."""
    FURTHER = "further"
    """Messages with fields that their class does not have, and that their contract permits."""
    DISCARDED = "discarded"
    """Messages of which their contract discards values that do not fit."""
    VIOLATED = "violated"
    """Messages that break their contract."""


class Cell(Protocol):
    """Where the note of a message goes."""

    def __setitem__(self, index: int, note: int, /) -> None:
        """Writes the note, at index 0."""


class StepPass(Protocol):
    """One pass of elements through steps, between two shuffles."""

    def failed(self, step: "Step", elements: Elements, index: int, error: BaseException) -> None:
        """Applies a step's error policy to an element for which a function raised, which is dropped.

        `sys.exit` raises, too, so a function that calls it is treated as one that raises any other exception.

        Raises:
            StepError: The policy is `OnError.FAIL`.
        """

    def notes(self, step: "Step", elements: Elements) -> tuple[Cell, Sequence[int]]:
        """Where to write, and what, before a function is called with each of the elements, so that a crash can be explained."""

    def count(self, what: Counted, step: str, elements: int, part: str = "") -> None:
        """Adds to a count of elements of a step; of a part of it, if the count is by part."""

    def tally(self, step: str, series: Mapping[str, tuple[int, ...]]) -> None:
        """Adds to the series of a counter or histogram."""

    def fired(self, step: str, number: int) -> None:
        """Adds to the number of timers and windows of a step that have fired."""

    def states(self, step: str) -> States:
        """The states of a step, by key, in the bucket of this pass."""

    def touched(self, step: str, keys: Sequence[Key]) -> None:
        """Records keys whose states may have changed or been removed."""

    @property
    def folder(self) -> Path | None:
        """The folder that has the files of programs; None if it is not known."""

    @property
    def others(self) -> int:
        """A lower bound of the watermark of the other streams. Timers and windows fire by the lower one of it and the mark."""


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """A step of a pipeline.

    Attributes:
        name: Unique in its pipeline; identifies the step in errors, and its states in the checkpoint.
        on_error: The policy for elements for which a function raises.
    """

    name: str
    on_error: OnError

    @abstractmethod
    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results for these elements."""

    @property
    def label(self) -> str:
        """Its kind, in the description of the graph."""
        return type(self).__name__.lower()

    @property
    def uses_time(self) -> bool:
        """Whether it needs event times and watermarks."""
        return False

    @property
    def tells_apart(self) -> bool:
        """Whether it needs the lineages of its elements."""
        return False

    @property
    def uses_ids(self) -> bool:
        """Whether it needs the ids of messages."""
        return False

    @property
    def reads_headers(self) -> bool:
        """Whether it needs the headers of its elements."""
        return False

    @property
    def calls_function(self) -> bool:
        """Whether it calls a function with single values, which may be messages."""
        return True

    @property
    def passes_headers(self) -> bool:
        """Whether its results have the headers of the elements that they come from."""
        return True

    @property
    def divides(self) -> bool:
        """Whether each of its results is for only one of the steps that follow, so that they need no copies."""
        return False

    @property
    def delay(self) -> int:
        """How far the event times of its results may be behind their marks, in microseconds."""
        return 0


class KeyedStep(Step):
    """A step with a state for each key. It follows a `key_by`."""

    @property
    @abstractmethod
    def state_class(self) -> StateClass:
        """How its states are created, stored and upgraded."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What bounds its states."""

    @property
    def kind(self) -> str:
        """The kind of its states, in the fingerprint. States of another kind cannot be used."""
        return self.label

    @property
    def divided(self) -> str:
        """A complete description of its windows, in the fingerprint; empty if it has none."""
        return ""

    @property
    def is_in_every_bucket(self) -> bool:
        """Whether each bucket has the states of all keys."""
        return False

    @property
    def lifetime(self) -> int | None:
        """The event time after which its states expire, in microseconds; None for never.

        It waits for a stream that has stopped no longer than that.
        """
        return None

    @property
    def ends(self) -> bool:
        """Whether it has results at the end of event time although it does not use event time."""
        return False

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """The results that are due at the end of a micro-batch, given the watermark of all streams.

        The cost depends on the number of keys that are due, not on the number of states.
        """
        return ()

    @property
    def uses_clock(self) -> bool:
        """Whether it acts by the clock, too."""
        return False

    @property
    def tick(self) -> int | None:
        """After how much time it needs a micro-batch, even without messages, in microseconds; None if it needs none."""
        return None

    def fire_by_clock(self, step_pass: StepPass, present: Present, watermark: int) -> Sequence[Elements]:
        """The results that are due by the clock at the end of a micro-batch, after the results of `fire_due`."""
        return ()

    def display(self, state: Any) -> Any:
        """A state for display."""
        return state

    @property
    def display_class(self) -> type | None:
        """The class of the states that `display` returns; None if they are dicts or tuples that it makes."""
        return type(self.state_class.make())


def each(step: Step, function: Callable[[Any], Any], elements: Elements, step_pass: StepPass) -> tuple[list[Any], Elements]:
    """The results of a function for each element, and the elements for which it did not raise.

    It is called once for each, since it may change the value.

    Raises:
        StepError: It raises, or a result is not there yet, and the step's policy is `OnError.FAIL`.
    """
    results, failed = list[Any](), list[int]()
    cell, notes = step_pass.notes(step, elements)
    rows, count, keep = zip(notes, elements.values, strict=True), len(elements), results.append
    while len(results) + len(failed) < count:
        try:
            # If the function raises, the results before are there, and the iterator continues behind the value.
            for cell[0], value in rows:
                keep(function(value))
        except BaseException as error:
            failed.append(len(results) + len(failed))
            step_pass.failed(step, elements, failed[-1], error)
    if any(map(is_lazy, set(map(type, results)))):
        return _present(step, results, _without(elements, failed), step_pass)
    return results, _without(elements, failed)


def _present(step: Step, results: Sequence[Any], elements: Elements, step_pass: StepPass) -> tuple[list[Any], Elements]:
    """The results that are there, and their elements. The others fail."""
    there, failed = list[Any](), list[int]()
    for index, result in enumerate(results):
        try:
            there.append(present(result))
        except TypeError as error:
            failed.append(index)
            step_pass.failed(step, elements, index, error)
    return there, _without(elements, failed)


def _without(elements: Elements, indices: Collection[int]) -> Elements:
    if not indices:
        return elements
    gone = frozenset(indices)
    return elements.pick([index for index in range(len(elements)) if index not in gone])
