"""A pipeline that is being written: its steps so far, and what each of them follows."""

from functools import cached_property

from headrace.pipelines._errors import GraphError
from headrace.pipelines._graph import Graph
from headrace.pipelines._step import OnError, Step


class Draft:
    """What a pipeline and its flows add steps to.

    Args:
        name: The pipeline's name.
        on_error: What happens to a value whose function raises, unless the step says otherwise.
        dead_letters: The sink for messages whose function raises, if there is one.
    """

    def __init__(self, name: str, on_error: OnError, dead_letters: str | None) -> None:
        self.name = name
        self.on_error = on_error
        self._dead_letters = dead_letters
        self._steps: list[Step] = []
        self._inputs: list[tuple[int, ...]] = []
        self._names: set[str] = set()
        self._lags: list[int] = []

    def add(self, step: Step, *inputs: int) -> int:
        """Adds a step that follows others, and returns its number."""
        if "graph" in self.__dict__:
            raise GraphError(f"pipeline {self.name} runs already: step {step.name} comes too late")
        self._steps.append(step)
        self._inputs.append(inputs)
        self._lags.append(step.delay + max((self._lags[i] for i in inputs), default=0))
        return len(self._steps) - 1

    def lag(self, number: int) -> int:
        """How far event times may lie behind the marks that they come with, in what comes out of a step."""
        return self._lags[number]

    def name_for_states(self, given: str | None, made: str | None, method: str) -> str:
        """A name for a step that keeps states, which are found by it: it must not depend on which other steps there are.

        Args:
            given: The one that the user gave.
            made: The one that the step has of itself; None where it has none.
            method: How users call the step.

        Raises:
            GraphError: the user gave one that another step has; or gave none, and the step has none that is its own.
        """
        if given is None and (made is None or made in self._names):
            why = "is made of a lambda" if made is None else f"would be the second one named {made}"
            raise GraphError(
                f"pipeline {self.name}: {method}(...) keeps states, which are found by its name, and it {why}: "
                "give it one that stays, name='...'"
            )
        return self.name_for(given, made or "")

    def name_for(self, given: str | None, made: str) -> str:
        """A name that no other step has.

        Raises:
            GraphError: the user gave one that another step has.
        """
        if given is not None and given in self._names:
            raise GraphError(f"pipeline {self.name} has two steps named {given}")
        name, number = given or made, 2
        while name in self._names:
            name, number = f"{made}-{number}", number + 1
        self._names.add(name)
        return name

    @cached_property
    def graph(self) -> Graph:
        """The whole pipeline, checked. Nothing can be added to it any more.

        Raises:
            GraphError: it cannot run; the error says why.
        """
        graph = Graph(self.name, tuple(self._steps), tuple(self._inputs), self._dead_letters)
        graph.check()
        return graph
