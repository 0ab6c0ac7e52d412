"""How an application is written: a pipeline, from whose sources flows lead to its sinks."""

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TypeVar

from headrace.pipelines._errors import GraphError
from headrace.pipelines._flow import Flow
from headrace.pipelines._graph import Graph
from headrace.pipelines._step import OnError, Step
from headrace.pipelines._steps import Source
from headrace.pipelines._time import span

T = TypeVar("T")


class Pipeline:
    """An application: where its messages come from, what is done to each, and where the results go.

    ```python
    app = Pipeline("votes")
    letters = app.source("votes/*", decode=bytes.decode)
    letters.key_by(lambda letter: letter).stateful(count, Votes).sink("totals", encode=encode)
    ```

    Args:
        name: Names the application in errors, in `headrace status`, and in its checkpoint.
        on_error: What happens to a value whose function raises, unless the step says otherwise.
        dead_letters: The sink for messages whose function raises, under `OnError.DEAD_LETTER`.
    """

    def __init__(self, name: str, *, on_error: OnError = OnError.FAIL, dead_letters: str | None = None) -> None:
        self.name = name
        self.on_error = on_error
        self._dead_letters = dead_letters
        self._steps: list[Step] = []
        self._inputs: list[tuple[int, ...]] = []
        self._names: set[str] = set()
        self._lags: list[int] = []

    def source(
        self,
        streams: str,
        decode: Callable[[bytes], T | None] | None = None,
        *,
        idle_after: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Flow[T]:
        """The messages of streams.

        Args:
            streams: Patterns of their names, separated by commas: `orders/*`.
            decode: Makes a value of each payload; messages that it returns None for go no further. Without it, the values are
                whole `Message`s.
            idle_after: A stream holds up windows and timers no more once event time has gone on so far in others without a
                value of it: "10 minutes". What it brings later may be late. Without it a stream that is quiet is waited for.
            name: The step's name.
            on_error: What happens to a message that `decode` raises for.
        """
        patterns = tuple(pattern.strip() for pattern in streams.split(",") if pattern.strip())
        if not patterns:
            raise GraphError(f"pipeline {self.name}: a source needs streams, such as 'orders/*'")
        idle = None if idle_after is None else span(idle_after, f"pipeline {self.name}, source {patterns[0]}: idle_after")
        step = Source(self.name_for(name, patterns[0]), on_error or self.on_error, patterns, decode, idle)
        return Flow(self, self.add(step))

    @cached_property
    def graph(self) -> Graph:
        """The whole pipeline, checked. Nothing can be added to it any more.

        Raises:
            GraphError: it cannot run; the error says why.
        """
        graph = Graph(self.name, tuple(self._steps), tuple(self._inputs), self._dead_letters)
        graph.check()
        return graph

    # What flows call

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
