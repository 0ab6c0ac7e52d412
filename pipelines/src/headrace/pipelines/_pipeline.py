"""The pipeline of an application: its sources, and the flows from there to its sinks."""

import sys
import sysconfig
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines._flow import Flow
from headrace.pipelines.app_tables import Tables
from headrace.pipelines.elements.message import Message
from headrace.pipelines.formats import Format
from headrace.pipelines.formats._contract import Given
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.source_steps import added_source
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import span

_INSTALLED = {"site-packages", "dist-packages"}
K = TypeVar("K")
T = TypeVar("T")


class Pipeline(Tables):
    """An application: its sources, its steps, and its sinks.

    ```python
    app = Pipeline("votes")
    letters = app.source("votes/*", decode=bytes.decode)
    letters.key_by(lambda letter: letter).stateful(count, Votes).sink("totals", encode=encode)
    ```

    Args:
        name: The name of the application, in errors, in `headrace status`, and in its checkpoint.
        on_error: The policy for values for which a function raises, unless the step has its own.
        dead_letters: The sink for the messages of such values under `OnError.DEAD_LETTER`.
        max_keys: The largest number of keys with a state, of each step in each bucket. A value of a further key is
            treated as one for which the step's function raised. By default, there is no limit.
        idle_flush: How far behind the clock event time advances while all streams that reach a step are quiet, so that windows,
            joins and timers produce their last results: a timedelta, or text such as "5 minutes". By default, they wait for the
            next messages.

    Raises:
        GraphError: A name has other characters than ASCII letters, digits and `._-`, `on_error` is not an `OnError`,
            `max_keys` is not a positive whole number, or `idle_flush` no positive duration.
    """

    def __init__(
        self,
        name: str,
        *,
        on_error: OnError = OnError.FAIL,
        dead_letters: str | None = None,
        max_keys: int | None = None,
        idle_flush: timedelta | str | None = None,
    ) -> None:
        check.name("a pipeline", "name", name)
        where = f"pipeline {name}"
        check.member(where, "on_error", on_error, OnError)
        if dead_letters is not None:
            check.name(where, "dead_letters", dead_letters)
        keys = None if max_keys is None else check.count(where, "max_keys", max_keys)
        flush = None if idle_flush is None else span(idle_flush, f"{where}: idle_flush")
        self._builder = GraphBuilder(name, on_error, dead_letters, keys, flush)
        self._folder = module_folder(sys._getframe(1).f_globals)

    @property
    def folder(self) -> Path | None:
        """The folder of the module that created it, which workers need; None if the module is installed or not a file."""
        return self._folder

    @property
    def name(self) -> str:
        """The name of the application."""
        return self._builder.name

    @overload
    def source(
        self,
        streams: str,
        decode: None = None,
        *,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        where: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Flow[Message]: ...

    @overload
    def source(
        self,
        streams: str,
        decode: Callable[[bytes], T | None] | Format[T],
        *,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        contract: Given | None = None,
        where: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Flow[T]: ...

    def source(
        self,
        streams: str,
        decode: Callable[[bytes], Any] | Format[Any] | None = None,
        *,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        contract: Given | None = None,
        where: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Flow[Any]:
        """Adds a source, and returns the flow of its messages.

        Args:
            streams: Patterns of stream names, separated by commas: `orders/*`.
            decode: A format such as `json(Order)`, or a function that returns the value of a payload, or None to drop the
                message. By default, the values are `Message`s.
            idle_after: The event time in other streams after which a stream without messages is idle, and no longer delays
                windows and timers: a timedelta, or text such as "10 minutes". Its later values may be late. By default, windows
                and timers wait for every stream.
            max_ahead: How far an event time may be ahead of the time at which its micro-batch was planned, and still advance the
                watermark: a timedelta, or text such as "1 hour". One wrong clock then does not make other values late. By
                default, there is no limit.
            await_streams: The number of streams of this source that must be open before event time begins. Until then, no window
                closes and no timer fires. By default, event time waits only for the streams that the gateway knows.
            await_time: How long after the application's first micro-batch event time begins, by the clock: a timedelta, or text
                such as "1 minute". With `await_streams`, it begins as soon as one of both is true.
            contract: What happens to messages that do not match the class of `decode`: a `Contract` of
                `headrace.pipelines.formats`, or `evolve`, `freeze` or `discard` for fields that the class does not have; or one
                of these for each pattern of streams, of which the first that matches decides. By default, such fields are
                ignored.
            where: A condition in CEL that values must meet, such as `value.amount > 10`; others are dropped. It sees a value as
                its JSON, and requires `decode`.
            name: The step's name.
            on_error: The policy for messages that `decode` cannot read, or for which the condition has no result.

        Raises:
            GraphError: There is no pattern or an invalid one, another parameter is invalid, another step has this name, or the
                pipeline already runs.
        """
        return Flow(
            self._builder,
            added_source(
                self._builder,
                streams,
                decode,
                idle_after=idle_after,
                max_ahead=max_ahead,
                await_streams=await_streams,
                await_time=await_time,
                contract=contract,
                where=where,
                name=name,
                on_error=on_error,
            ),
        )

    @property
    def graph(self) -> Graph:
        """The validated graph of the pipeline. Afterwards, no steps can be added.

        Raises:
            GraphError: The pipeline is invalid; the error has the reason.
            StateError: A new state of a step cannot be stored and read back.
        """
        return self._builder.graph


def module_folder(module: Mapping[str, Any]) -> Path | None:
    """Returns the folder on Python's path from which a module was imported.

    Args:
        module: The module's global names.

    Returns:
        The folder; None if the module is installed, or not a file, as in a notebook.
    """
    file = module.get("__file__")
    if not isinstance(file, str):
        return None
    folder = Path(file).absolute().parent
    packages = tuple(filter(None, (module.get("__package__") or "").split(".")))
    if packages and folder.parts[-len(packages) :] == packages:
        folder = folder.parents[len(packages) - 1]
    installed = _INSTALLED & set(folder.parts) or folder.is_relative_to(sysconfig.get_path("stdlib"))
    return None if installed or not folder.is_dir() else folder
