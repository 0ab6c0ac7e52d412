"""What every step of a pipeline is, and what one asks of the run that it is part of."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._state import StateClass


class OnError(Enum):
    """What happens to an element whose function raises."""

    FAIL = "fail"
    """The query fails; started again, it meets the element again."""
    SKIP = "skip"
    """The element is left out, logged and counted."""
    DEAD_LETTER = "dead-letter"
    """Its message goes to the pipeline's dead-letter sink, with the reason."""


class Counted(Enum):
    """What is counted of elements, by step."""

    LATE = "late"
    """They came after their windows were closed, whatever became of them."""
    SKIPPED = "skipped"
    """They were left out, since a function raised."""
    AHEAD = "ahead"
    """They lie too far ahead of the present to bring event time forward."""


class Run(Protocol):
    """One pass of elements through steps, between two shuffles."""

    def failed(self, step: "Step", elements: Elements, index: int, error: Exception) -> None:
        """Notes that a step's function raised at an element, which goes no further.

        Raises:
            StepError: the step's policy is to fail.
        """

    def count(self, what: Counted, step: str, elements: int) -> None:
        """Counts elements to which something has happened in a step."""

    def states(self, step: str) -> States:
        """The states that a step keeps, by key, in the bucket that the run is about."""

    def touched(self, step: str, keys: Sequence[Key]) -> None:
        """Notes keys whose states may have changed, or are gone."""

    @property
    def others(self) -> int:
        """How far event time has surely come in all streams but that of the elements: what fires, fires by the lower of both."""


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """A step of a pipeline.

    Attributes:
        name: Unique in its pipeline; names the step in errors, and its state in the checkpoint.
        on_error: What happens to an element whose function raises.
    """

    name: str
    on_error: OnError

    @abstractmethod
    def apply(self, elements: Elements, run: Run) -> Elements:
        """What comes out for these elements."""

    @property
    def label(self) -> str:
        """What it is, for people who look at the graph."""
        return type(self).__name__.lower()

    @property
    def uses_time(self) -> bool:
        """Whether it asks for event times and watermarks."""
        return False

    @property
    def uses_ids(self) -> bool:
        """Whether it asks for the ids of messages."""
        return False

    @property
    def delay(self) -> int:
        """How far, in microseconds, the event times of what comes out may lie behind the marks that it comes with."""
        return 0


class KeyedStep(Step):
    """A step that keeps a state for each key. It runs behind a `key_by`."""

    @property
    @abstractmethod
    def state_class(self) -> StateClass:
        """How its states are made, stored and brought up to date."""

    @property
    def kind(self) -> str:
        """What it keeps, in a word that people understand; states of another kind are not its own."""
        return self.label

    @property
    def divided(self) -> str:
        """The windows that its states are divided by, told in full; empty where there are none."""
        return ""

    def settle(self, run: Run, watermark: int) -> Sequence[Elements]:
        """What comes out once all elements of a micro-batch are in, and the watermark of all streams is this.

        The cost is that of what is due, however many states there are.
        """
        return ()

    def shown(self, state: Any) -> Any:
        """A state as people are shown it."""
        return state


def each(step: Step, function: Callable[[Any], Any], elements: Elements, run: Run) -> tuple[list[Any], Elements]:
    """What a function returns for each element, and the elements for which it did.

    Where it raises it is called again for the elements before, so as to find out which one it was.

    Raises:
        StepError: it raises, and the step's policy is to fail.
    """
    try:
        return list(map(function, elements.values)), elements
    except Exception:
        return _one_by_one(step, function, elements, run)


def _one_by_one(step: Step, function: Callable[[Any], Any], elements: Elements, run: Run) -> tuple[list[Any], Elements]:
    results, there = [], []
    for index, value in enumerate(elements.values):
        try:
            results.append(function(value))
        except Exception as error:
            run.failed(step, elements, index, error)
        else:
            there.append(index)
    return results, elements.pick(there)
