"""How an application is written: a pipeline, from whose sources flows lead to its sinks."""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from headrace.pipelines._draft import Draft
from headrace.pipelines._errors import GraphError
from headrace.pipelines._flow import Flow
from headrace.pipelines._graph import Graph
from headrace.pipelines._step import OnError
from headrace.pipelines._steps import Source
from headrace.pipelines._time import span
from headrace.pipelines._written import folder_of_modules

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
        self._draft = Draft(name, on_error, dead_letters)
        self._folder = folder_of_modules(sys._getframe(1).f_globals)

    @property
    def folder(self) -> Path | None:
        """Where the module that made it lies, and those beside it that workers need; None where it is no file, or installed."""
        return self._folder

    @property
    def name(self) -> str:
        """Its name."""
        return self._draft.name

    def source(
        self,
        streams: str,
        decode: Callable[[bytes], T | None] | None = None,
        *,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
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
            max_ahead: An event time brings the watermark forward only if it lies at most so far ahead of the time at which its
                micro-batch was planned: "1 hour". One bad clock then makes nothing else late. Without it every time counts.
            name: The step's name.
            on_error: What happens to a message that `decode` raises for.
        """
        draft = self._draft
        patterns = tuple(pattern.strip() for pattern in streams.split(",") if pattern.strip())
        if not patterns:
            raise GraphError(f"pipeline {draft.name}: a source needs streams, such as 'orders/*'")
        idle = None if idle_after is None else span(idle_after, f"pipeline {draft.name}, source {patterns[0]}: idle_after")
        where = f"pipeline {draft.name}, source {patterns[0]}"
        ahead = None if max_ahead is None else span(max_ahead, f"{where}: max_ahead", least=0)
        step = Source(draft.name_for(name, patterns[0]), on_error or draft.on_error, patterns, decode, idle, ahead)
        return Flow(draft, draft.add(step))

    @property
    def graph(self) -> Graph:
        """The whole pipeline, checked. Nothing can be added to it any more.

        Raises:
            GraphError: it cannot run; the error says why.
        """
        return self._draft.graph
