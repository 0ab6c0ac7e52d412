"""Flows: values on their way from the sources of a pipeline to its sinks. Each method adds a step."""

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace.pipelines._aggregation import Aggregation, Window
from headrace.pipelines._build import aggregation_of, stateful_step
from headrace.pipelines._columnar import KeyStates, MapColumns, StatefulColumns
from headrace.pipelines._context import Context
from headrace.pipelines._deduplicate import Deduplicate, DeduplicateKeys, KeyById, key_of
from headrace.pipelines._draft import Draft
from headrace.pipelines._elements import Key
from headrace.pipelines._errors import GraphError
from headrace.pipelines._running import Running
from headrace.pipelines._step import OnError, Step
from headrace.pipelines._steps import EventTime, Filter, FlatMap, KeyBy, Map, Merge, Sink, to_bytes
from headrace.pipelines._time import span
from headrace.pipelines._windowed import Windowed, windowed
from headrace.pipelines._windows import Count, Grid, Late, Session

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")


class Flow(Generic[T]):
    """Values on their way, in the order of their stream. Each method adds a step and returns what comes out of it."""

    def __init__(self, draft: Draft, number: int) -> None:
        self._draft = draft
        self._number = number

    def map(self, function: Callable[[T], U | None], *, name: str | None = None, on_error: OnError | None = None) -> "Flow[U]":
        """What the function makes of each value; None goes no further."""
        return Flow(self._draft, self._then(Map, function, name, on_error))

    def flat_map(
        self, function: Callable[[T], Iterable[U]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[U]":
        """Everything that the function yields for each value."""
        return Flow(self._draft, self._then(FlatMap, function, name, on_error))

    def filter(self, function: Callable[[T], bool], *, name: str | None = None, on_error: OnError | None = None) -> "Flow[T]":
        """The values for which the function is true."""
        return Flow(self._draft, self._then(Filter, function, name, on_error))

    def event_time(
        self, function: Callable[[T], datetime | int | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[T]":
        """The same values, that happened at the time that the function says: a datetime, or microseconds since 1970 UTC.

        Without it the times are those that the source gave. It must be said before the first `key_by`.
        """
        return Flow(self._draft, self._then(EventTime, function, name, on_error))

    def merge(self, *others: "Flow[T]", name: str | None = None) -> "Flow[T]":
        """The values of several flows. Those of each stream stay in order."""
        draft = self._draft
        if any(other._draft is not draft for other in others):
            raise GraphError(f"pipeline {draft.name} cannot merge flows of another pipeline")
        step = Merge(draft.name_for(name, "merge"), OnError.FAIL)
        return Flow(draft, draft.add(step, self._number, *(other._number for other in others)))

    def key_by(
        self, function: Callable[[T], Key] | None = None, *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[T]":
        """The same values, those of each key together and in order. Without a function, the key is that of the message."""
        return KeyedFlow(self._draft, self._then(KeyBy, function, name, on_error))

    def deduplicate(
        self,
        id: Callable[[T], Key | None] | None = None,
        *,
        within: timedelta | str,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[T]":
        """The values whose id was not there before, until event time has gone on by `within` since.

        Values with the same id come together for this, wherever they came from; so a `key_by` before it has no effect any more.

        Args:
            id: The id of a value; without it, that of its message. A value whose id is None goes on.
            within: For how long an id is remembered: "1 hour".
            name: The step's name.
            on_error: What happens to a value that the function raises for.
        """
        draft = self._draft
        name, policy = draft.name_for_states(name, "deduplicate", "deduplicate"), on_error or draft.on_error
        keyed = draft.add(KeyById(draft.name_for(None, f"{name}-by-id"), policy, key_of, id), self._number)
        return Flow(draft, draft.add(DeduplicateKeys(name, policy, None, _within(draft, name, within)), keyed))

    def map_columns(
        self,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]",
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[Any]":
        """What the function makes of many values at once, given as an Arrow record batch; None for nothing.

        It follows a source without a decoder, whose batches have the columns `key`, `value`, `event_time` and `sequence`, or
        another columnar step. Each call has messages of one stream, in order. Steps that are not columnar see each row of the
        result as a dict; a sink without an encode function takes its column `value`, and its column `key` where there is one.
        """
        return Flow(self._draft, self._then(MapColumns, function, name, on_error))

    def sink(
        self,
        sink: str,
        encode: Callable[[T], bytes] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes the values to a sink of the gateway.

        Args:
            sink: Its name.
            encode: Makes a payload of each value; without it, values must be bytes or str.
            name: The step's name.
            on_error: What happens to a value that `encode` raises for.
        """
        draft = self._draft
        step = Sink(draft.name_for(name, f"to-{sink}"), on_error or draft.on_error, sink, encode or to_bytes)
        draft.add(step, self._number)

    def _then(self, kind: Callable[..., Step], function: Any, name: str | None, on_error: OnError | None) -> int:
        draft = self._draft
        made = _name_of(function, kind.__name__.lower())
        step = kind(draft.name_for(name, made), on_error or draft.on_error, function)
        return draft.add(step, self._number)


class KeyedFlow(Flow[T]):
    """Values by key. What follows a `map` or `filter` here keeps its key."""

    def map(
        self, function: Callable[[T], U | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """What the function makes of each value; None goes no further."""
        return KeyedFlow(self._draft, self._then(Map, function, name, on_error))

    def flat_map(
        self, function: Callable[[T], Iterable[U]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """Everything that the function yields for each value."""
        return KeyedFlow(self._draft, self._then(FlatMap, function, name, on_error))

    def filter(
        self, function: Callable[[T], bool], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[T]":
        """The values for which the function is true."""
        return KeyedFlow(self._draft, self._then(Filter, function, name, on_error))

    def stateful(
        self,
        function: Callable[[T, S], U | None] | Callable[[T, S, Context], U | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], U | None] | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """What the function makes of each value and the state of its key, which it may change; None goes no further.

        Args:
            function: Called with the values of each key in order. With a third parameter it is given a `Context`, too, which
                tells about the value, and sets timers.
            state: Makes the state of a key that is new: a class, or a function that returns a list, dict, set or instance.
            on_timer: Called with a key's state and a `Context` when event time has come to a timer that the key has set.
            ttl: A state is forgotten once event time has gone on so far without a value of its key: "1 hour".
            name: The step's name, which is also that of its states in the checkpoint: keep it when the function is renamed.
                A step made of a lambda needs one, and so does one whose function has given its name to another step.
            on_error: What happens to a value that a function raises for. Its key's state is then as it was before.
        """
        return self._stateful(False, function, state, on_timer, ttl, name, on_error)

    def stateful_flat(
        self,
        function: Callable[[T, S], Iterable[U] | None] | Callable[[T, S, Context], Iterable[U] | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], Iterable[U] | None] | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """As `stateful`, with functions that return or yield any number of results."""
        return self._stateful(True, function, state, on_timer, ttl, name, on_error)

    def map_columns(
        self,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]",
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """What the function makes of many values at once; None for nothing. A column `key` says their keys anew."""
        return KeyedFlow(self._draft, self._then(MapColumns, function, name, on_error))

    def stateful_columns(
        self,
        function: "Callable[[pa.RecordBatch, KeyStates[S]], pa.RecordBatch | None]",
        state: Callable[[], S],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """What the function makes of many values at once and the states of their keys; None for nothing.

        Args:
            function: Takes a record batch that has the column `key`, in which the values of each key are in order, and the
                states: `states[key]` is that of a key, which it may change.
            state: Makes the state of a key that is new.
            name: The step's name, which is also that of its states in the checkpoint.
            on_error: What happens to the values of a batch that the function raises for, all together; it must not have
                changed states by then.
        """
        draft = self._draft
        name = draft.name_for_states(name, _own_name(function), "stateful_columns")
        return self._with(StatefulColumns(name, on_error or draft.on_error, function, state))

    @overload
    def window(
        self, windows: Grid | Session, *, delay: timedelta | str | None = None, late: Late = Late.DROP
    ) -> Windowed[T, Window]: ...

    @overload
    def window(self, windows: Count) -> Windowed[T, None]: ...

    def window(
        self, windows: Grid | Session | Count, *, delay: timedelta | str | None = None, late: Late = Late.DROP
    ) -> Windowed[T, Any]:
        """Gathers the values of each key in windows, of which results are then made.

        Args:
            windows: Which: `tumbling`, `sliding`, `session` or `count_window`.
            delay: How far event time must have gone on after a window's end until it is closed, so that values which come out of
                order still find it: "10 seconds".
            late: What happens to values whose windows are all closed.
        """
        return windowed(self._draft, windows, delay, late, self._draft.lag(self._number), self._with)

    @overload
    def aggregate(
        self, aggregation: Aggregation[T, Any, U], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T, Any, R],
        *,
        output: Callable[[Any, R, None], U | None],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T], A],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[A]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T], A],
        output: Callable[[Any, A, None], U | None],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    def aggregate(
        self,
        aggregation: Aggregation[T, Any, Any] | None = None,
        *,
        initial: Callable[[], Any] | None = None,
        update: Callable[[Any, T], Any] | None = None,
        output: Callable[[Any, Any, Any], Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """For each value, the result of all values of its key so far.

        Args:
            aggregation: Says how; or three functions do, as `Windowed.aggregate` tells.
            initial: Makes an accumulator.
            update: Returns an accumulator with one more value.
            output: Makes the result of a key, an accumulator and None.
            name: The step's name, which is also that of its states in the checkpoint.
            on_error: What happens to a value that a function raises for.
        """
        draft = self._draft
        name = draft.name_for_states(name, "aggregate", "aggregate")
        found = aggregation_of(f"pipeline {draft.name}, step {name}", aggregation, initial, update, None, output)
        return self._with(Running(name, on_error or draft.on_error, found))

    def deduplicate(
        self,
        id: Callable[[T], Key | None] | None = None,
        *,
        within: timedelta | str,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[T]":
        """The values whose id was not there before for their key, until event time has gone on by `within` since.

        Args:
            id: The id of a value; without it, that of its message. A value whose id is None goes on.
            within: For how long an id is remembered: "1 hour".
            name: The step's name.
            on_error: What happens to a value that the function raises for.
        """
        draft = self._draft
        name = draft.name_for_states(name, "deduplicate", "deduplicate")
        return self._with(Deduplicate(name, on_error or draft.on_error, id, _within(draft, name, within)))

    def _stateful(
        self,
        flat: bool,
        function: Callable[..., Any],
        state: Callable[[], Any],
        on_timer: Callable[..., Any] | None,
        ttl: timedelta | str | None,
        name: str | None,
        on_error: OnError | None,
    ) -> "KeyedFlow[Any]":
        draft = self._draft
        name = draft.name_for_states(name, _own_name(function), "stateful_flat" if flat else "stateful")
        lag, policy = draft.lag(self._number), on_error or draft.on_error
        where = f"pipeline {draft.name}, step {name}"
        return self._with(stateful_step(where, name, policy, flat, function, state, on_timer, ttl, lag))

    def _with(self, step: Step) -> "KeyedFlow[Any]":
        return KeyedFlow(self._draft, self._draft.add(step, self._number))


def _within(draft: Draft, step: str, within: timedelta | str) -> int:
    return span(within, f"pipeline {draft.name}, step {step}: within")


def _name_of(function: Any, otherwise: str) -> str:
    return _own_name(function) or otherwise


def _own_name(function: Any) -> str | None:
    """A function's name; None where it has none that is its own."""
    name: str | None = getattr(function, "__name__", None)
    return name if name != "<lambda>" and inspect.isroutine(function) else None
