"""Builds the graph of a pipeline."""

from functools import cached_property
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import OnError, Step


class GraphBuilder:
    """Collects the steps of a pipeline.

    Args:
        name: The pipeline's name.
        on_error: The policy for values for which a function raises, unless the step has its own.
        dead_letters: The sink for the messages of such values, if there is one.
        max_keys: The largest number of keys with a state, of each step in each bucket; None for no limit.
        idle_flush: How far behind the clock event time advances while streams are quiet, in microseconds; None if it does not.
    """

    def __init__(
        self,
        name: str,
        on_error: OnError,
        dead_letters: str | None,
        max_keys: int | None = None,
        idle_flush: int | None = None,
    ) -> None:
        self.name = name
        self.on_error = on_error
        self._dead_letters = dead_letters
        self.max_keys = max_keys
        self._idle_flush = idle_flush
        self._steps: list[Step] = []
        self._inputs: list[tuple[int, ...]] = []
        self._names: set[str] = set()
        self._lags: list[int] = []
        self._levels: list[int] = []

    def add(self, step: Step, *inputs: int) -> int:
        """Adds a step after others, and returns its number.

        Raises:
            GraphError: The graph is complete.
        """
        if "graph" in self.__dict__:
            raise GraphError(f"pipeline {self.name} already runs: step {step.name} cannot be added")
        self._steps.append(step)
        self._inputs.append(inputs)
        self._lags.append(step.delay + max((self._lags[i] for i in inputs), default=0))
        self._levels.append(isinstance(step, KeyBy) + max((self._levels[i] for i in inputs), default=0))
        return len(self._steps) - 1

    def is_first_key_by(self, number: int) -> bool:
        """Whether a step is a `key_by` that values reach without another shuffle."""
        return isinstance(self._steps[number], KeyBy) and self._levels[number] == 1

    def lag(self, number: int) -> int:
        """How far the event times of a step's results may be behind their marks, in microseconds."""
        return self._lags[number]

    def name_of(self, number: int) -> str:
        """The name of a step."""
        return self._steps[number].name

    def level(self, number: int) -> int:
        """The number of shuffles before a step's results."""
        return self._levels[number]

    def keyed_by(self, number: int) -> str:
        """A description of the key of a step's results, which follow a `key_by`."""
        while not isinstance(step := self._steps[number], KeyBy):
            number = self._inputs[number][0]
        return step.by

    def where(self, explicit: Any, default: str | None, method: str) -> str:
        """The place of a step in errors, by its name.

        Args:
            explicit: The name that the user gave, if any.
            default: The name of the step's function; None if it has none.
            method: The method that adds the step.

        Raises:
            GraphError: The explicit name is invalid.
        """
        name = check.step_name(f"pipeline {self.name}, {method}(...)", explicit)
        return f"pipeline {self.name}, step {name or default}" if name or default else f"pipeline {self.name}, {method}(...)"

    def policy(self, where: str, on_error: Any) -> OnError:
        """The policy of a step, by default the pipeline's.

        Raises:
            GraphError: It is not an `OnError`; `where` names the step.
        """
        return self.on_error if on_error is None else check.member(where, "on_error", on_error, OnError)

    def name_for_states(self, explicit: str | None, default: str | None, method: str) -> str:
        """The name of a step with states, which are stored under it: it must not depend on other steps.

        Args:
            explicit: The name that the user gave, if any.
            default: The name of the step's function; None if it has none.
            method: The method that adds the step.

        Raises:
            GraphError: Another step has the explicit name; or there is none, and the function has no unique name.
        """
        if explicit is None and (default is None or default in self._names):
            why = "is made of a lambda" if default is None else f"would be the second one named {default}"
            raise GraphError(
                f"pipeline {self.name}: {method}(...) has states, which are stored under its name, and it {why}: "
                "give it a stable name, name='...'"
            )
        return self.name_for(explicit, default or "")

    def name_for(self, explicit: str | None, default: str) -> str:
        """A unique name for a step.

        Raises:
            GraphError: Another step has the explicit name.
        """
        if explicit is not None and explicit in self._names:
            raise GraphError(f"pipeline {self.name} has two steps named {explicit}")
        name, number = explicit or default, 2
        while name in self._names:
            name, number = f"{default}-{number}", number + 1
        self._names.add(name)
        return name

    @cached_property
    def graph(self) -> Graph:
        """The validated graph. Afterwards, no steps can be added.

        Raises:
            GraphError: The pipeline is invalid; the error has the reason.
            StateError: A new state of a step cannot be stored and read back.
        """
        graph = Graph(self.name, tuple(self._steps), tuple(self._inputs), self._dead_letters, self.max_keys, self._idle_flush)
        graph.check()
        return graph
