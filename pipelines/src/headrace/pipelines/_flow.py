"""Flows: the values between the sources and the sinks of a pipeline. Each method adds a step."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines import methods
from headrace.pipelines._errors import GraphError
from headrace.pipelines.async_steps import mapped_async
from headrace.pipelines.build import own_name
from headrace.pipelines.elements.elements import Key
from headrace.pipelines.elements.headers import Header, Headers
from headrace.pipelines.elements.message import Message
from headrace.pipelines.flow_joins import IntervalJoins, TableJoins
from headrace.pipelines.flow_meters import Metered
from headrace.pipelines.flow_states import States
from headrace.pipelines.formats import Format, columns_of
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.methods import Method
from headrace.pipelines.split_steps import split_into
from headrace.pipelines.steps.async_map import Call
from headrace.pipelines.steps.columnar import DecodeColumns, ToColumns
from headrace.pipelines.steps.deduplicate import Deduplicate, DeduplicateKeys, KeyById, key_of
from headrace.pipelines.steps.stateless import Merge
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import TimeUnit, span

if TYPE_CHECKING:
    import pyarrow as pa

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
A = TypeVar("A")
R = TypeVar("R")


class Flow(Metered[T_co], TableJoins[T_co]):
    """A flow of values, in the order of their streams. Each method adds a step, and returns the flow of its results.

    Functions must have no side effects: they may be called again for the same value.

    All methods raise `GraphError` if another step has the given name, or if the pipeline already runs.
    """

    def map(self, function: Callable[[T_co], U | None], *, name: str | None = None, on_error: OnError | None = None) -> "Flow[U]":
        """Applies a function to each value. Results that are None are dropped."""
        return Flow(self._builder, self._then(methods.MAP, function, name, on_error))

    def map_async(
        self,
        function: Callable[[T_co, Call], Awaitable[U | None]],
        *,
        concurrency: int = 100,
        timeout: timedelta | str = "30 seconds",
        retries: int = 0,
        setup: Callable[[], object] | None = None,
        teardown: Callable[[Any], object] | None = None,
        cache_by: Callable[[T_co], Key] | None = None,
        cache_ttl: timedelta | str = "1 minute",
        cache_size: int = 10_000,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[U]":
        """Applies an async function to each value, to several at a time. Results that are None are dropped; the order is kept.

        A call may be repeated, after a fault even if it succeeded: its `Call` has an id that stays the same.

        Args:
            function: Called with a value and a `Call`, on an event loop of the process.
            concurrency: How many calls a process makes at a time, at most 10,000.
            timeout: How long an attempt may take: a timedelta, or text such as "2 seconds".
            retries: How often a call that raises or takes too long is repeated, after 0.1 s, 0.2 s and so on up to 5 s.
            setup: Makes the `Call.client` of each process, such as a session of an HTTP library; may be async.
            teardown: Called with the client before its process ends in order, so not after a kill; may be async.
            cache_by: Returns the key of a value, such as the id of a customer. Values with equal keys then have the result of one
                call in each process. By default, each value has a call of its own.
            cache_ttl: How long a result is kept, by the clock: a timedelta, or text such as "5 minutes".
            cache_size: How many results a process keeps at most.
            name: The step's name.
            on_error: The policy for values whose last attempt fails. If `setup` raises, the query fails.

        Raises:
            GraphError: A parameter is invalid.
        """
        number = mapped_async(
            self._builder,
            self._number,
            function,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            setup=setup,
            teardown=teardown,
            cache_by=cache_by,
            cache_ttl=cache_ttl,
            cache_size=cache_size,
            name=name,
            on_error=on_error,
        )
        return Flow(self._builder, number)

    def flat_map(
        self, function: Callable[[T_co], Iterable[U]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[U]":
        """Applies a function that returns or yields any number of results for each value."""
        return Flow(self._builder, self._then(methods.FLAT_MAP, function, name, on_error))

    def filter(
        self, function: Callable[[T_co], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[T_co]":
        """Keeps the values for which the function is true."""
        return Flow(self._builder, self._then(methods.FILTER, function, name, on_error))

    def map_with_headers(
        self, function: Callable[[T_co, Headers], U | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[U]":
        """Applies a function to each value and its headers. Results that are None are dropped."""
        return Flow(self._builder, self._then(methods.MAP_WITH_HEADERS, function, name, on_error))

    def set_headers(
        self, function: Callable[[T_co, Headers], Iterable[Header]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[T_co]":
        """Sets the headers of each value: the function receives the value and its headers, and returns the new headers.

        A header is a name and a value, which is bytes or None. The headers of a `Message` remain the source's.
        """
        return Flow(self._builder, self._then(methods.SET_HEADERS, function, name, on_error))

    def event_time(
        self,
        function: Callable[[T_co], datetime | float | None],
        *,
        unit: TimeUnit | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[T_co]":
        """Assigns event times: the function returns a datetime with a time zone, a number since 1970 UTC, or None for no time.

        By default, the event times of the messages hold. This step must precede the first `key_by` or `deduplicate`.

        Args:
            function: Returns the event time of a value.
            unit: The unit of numbers, which may then have fractions. By default, they are whole microseconds.
            name: The step's name.
            on_error: The policy for values for which the function raises or returns no valid time.

        Raises:
            GraphError: A parameter is invalid.
        """
        return Flow(self._builder, self._then(methods.event_time(self._builder, unit, name), function, name, on_error))

    @overload
    def merge(self, *, name: str | None = None) -> "Flow[T_co]": ...

    @overload
    def merge(self, first: "Flow[U]", /, *, name: str | None = None) -> "Flow[T_co | U]": ...

    @overload
    def merge(self, first: "Flow[U]", second: "Flow[A]", /, *, name: str | None = None) -> "Flow[T_co | U | A]": ...

    @overload
    def merge(
        self, first: "Flow[U]", second: "Flow[A]", third: "Flow[R]", /, *, name: str | None = None
    ) -> "Flow[T_co | U | A | R]": ...

    @overload
    def merge(self, *others: "Flow[U]", name: str | None = None) -> "Flow[T_co | U]": ...

    def merge(self, *others: "Flow[Any]", name: str | None = None) -> "Flow[Any]":
        """Merges this flow with others. The values of each stream stay in order.

        Raises:
            GraphError: Something is not a flow, or belongs to another pipeline.
        """
        builder = self._builder
        where = builder.where(name, "merge", "merge")
        for other in others:
            if not isinstance(other, Flow):
                raise GraphError(f"{where}: others are flows, each an argument of its own, and one is {check.excerpt(other)}")
            if other._builder is not builder:
                raise GraphError(f"{where}: others: a flow is one of other pipelines: of {other._builder.name}")
        step = Merge(builder.name_for(name, "merge"), OnError.FAIL)
        return Flow(builder, builder.add(step, self._number, *(other._number for other in others)))

    def key_by(
        self, function: Callable[[T_co], Key] | None = None, *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[T_co]":
        """Partitions the values by key. The values of each key stay in order. By default, the message's key counts."""
        return KeyedFlow(self._builder, self._then(methods.KEY_BY, function, name, on_error))

    def deduplicate(
        self,
        id: Callable[[T_co], Key | None] | None = None,
        *,
        within: timedelta | str,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[T_co]":
        """Drops values whose id has occurred before, within the event time `within`.

        This step partitions values by id, so a `key_by` before it has no effect after it.

        Args:
            id: Returns the id of a value; by default, the id of its message. A value whose id is None is kept.
            within: How long an id is remembered, in event time: a timedelta, or text such as "1 hour".
            name: The step's name.
            on_error: The policy for values for which the function raises.

        Raises:
            GraphError: `within` is not a positive duration, or the step needs a name.
        """
        builder = self._builder
        span_us, policy = _checked_ids(builder, id, within, name, on_error)
        name = builder.name_for_states(name, "deduplicate", "deduplicate")
        keyed = builder.add(KeyById(builder.name_for(None, f"{name}-by-id"), policy, key_of, id), self._number)
        return Flow(builder, builder.add(DeduplicateKeys(name, policy, None, span_us), keyed))

    def map_columns(
        self,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]",
        *,
        headers: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Flow[Any]":
        """Applies a function to many values at once, from record batch to record batch, or to None for no results.

        This step must follow a source without `decode`, whose batches have the columns `key`, `value`, `event_time` and
        `sequence`, or `to_columns`, or another columnar step. Each call receives messages of one stream, in order. Other steps
        receive each row of the result as a dict. A sink without `encode` writes the column `value`, and the column `key` if there
        is one.

        With `headers`, the batches have a column `headers`: a list of structs of `name` and `value` for each row. Such a column
        in the result sets the headers of its rows.
        """
        return Flow(self._builder, self._map_columns(function, headers, name, on_error))

    def decode_columns(
        self: "Flow[Message]", format: Format[Any], *, name: str | None = None, on_error: OnError | None = None
    ) -> "Flow[dict[str, Any]]":
        """Decodes messages a block at a time, into record batches with a column for each field, for columnar steps.

        The rows are as with `decode=format` and `to_columns`, and cost less. Other steps receive each row as a dict.
        This step must follow a source without `decode`.

        Args:
            format: A format such as `json(Order)`, whose class has fields, or `avro(schema)`.
            name: The step's name.
            on_error: The policy for messages that cannot be decoded.

        Raises:
            GraphError: The format has no columns, or a field has a type without an Arrow column.
        """
        return Flow(self._builder, self._decode_columns(format, name, on_error))

    def to_columns(self, kind: type[Any], *, name: str | None = None, on_error: OnError | None = None) -> "Flow[Any]":
        """Turns objects of a class into rows of record batches with a column for each field, for columnar steps.

        Args:
            kind: The class: a dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct` or pydantic model.
            name: The step's name.
            on_error: The policy for objects that the columns cannot hold, such as a number beyond 64 bits.

        Raises:
            GraphError: The type is not such a class, or a field has a type without an Arrow column.
        """
        return Flow(self._builder, self._to_columns(kind, name, on_error))

    def split(
        self,
        function: Callable[[T_co], str | None],
        into: Sequence[str],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Mapping[str, Flow[T_co]]":
        """Divides the values among several flows, each into the one that a function names.

        Args:
            function: Returns the name of a value's flow; None to drop the value.
            into: The names of all flows. Each of them needs a consumer.
            name: The step's name.
            on_error: The policy for values for which the function raises or returns another name.

        Returns:
            The flows by name.

        Raises:
            GraphError: A parameter is invalid.
        """
        parts = split_into(self._builder, self._number, "split", function, "into", into, name, on_error)
        return {flow: Flow(self._builder, number) for flow, number in parts.items()}

    def _keyed(self, number: int) -> "KeyedFlow[Any]":
        return KeyedFlow(self._builder, number)

    def _then(self, method: Method, function: Any, name: str | None, on_error: OnError | None) -> int:
        return self._builder.add(method.step(self._builder, function, name, on_error), self._number)

    def _decode_columns(self, format: Format[Any], name: str | None, on_error: OnError | None) -> int:
        builder = self._builder
        where = builder.where(name, "decode_columns", "decode_columns")
        if not isinstance(format, Format):
            raise GraphError(f"{where}: format is a format such as json(Order), not {check.excerpt(format)}")
        policy = builder.policy(where, on_error)
        try:
            decoder = format.column_decoder()
        except GraphError as error:
            raise GraphError(f"{where}: format: {error}") from error
        return builder.add(DecodeColumns(builder.name_for(name, "decode_columns"), policy, decoder), self._number)

    def _to_columns(self, kind: type[Any], name: str | None, on_error: OnError | None) -> int:
        builder = self._builder
        where = builder.where(name, "to_columns", "to_columns")
        policy = builder.policy(where, on_error)
        try:
            columns = columns_of(kind)
        except GraphError as error:
            raise GraphError(f"{where}: kind: {error}") from error
        return builder.add(ToColumns(builder.name_for(name, "to_columns"), policy, columns), self._number)

    def _map_columns(self, function: Any, headers: bool, name: str | None, on_error: OnError | None) -> int:
        where = self._builder.where(name, own_name(function), "map_columns")
        return self._then(methods.map_columns(check.flag(where, "headers", headers)), function, name, on_error)


class KeyedFlow(Flow[T_co], IntervalJoins[T_co], States[T_co]):
    """A flow of values partitioned by key. The results of `map`, `flat_map` and `filter` keep their keys."""

    def map(
        self, function: Callable[[T_co], U | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """Applies a function to each value. Results that are None are dropped."""
        return KeyedFlow(self._builder, self._then(methods.MAP, function, name, on_error))

    def map_async(
        self,
        function: Callable[[T_co, Call], Awaitable[U | None]],
        *,
        concurrency: int = 100,
        timeout: timedelta | str = "30 seconds",
        retries: int = 0,
        setup: Callable[[], object] | None = None,
        teardown: Callable[[Any], object] | None = None,
        cache_by: Callable[[T_co], Key] | None = None,
        cache_ttl: timedelta | str = "1 minute",
        cache_size: int = 10_000,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Applies an async function to each value, as `Flow.map_async`."""
        number = mapped_async(
            self._builder,
            self._number,
            function,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            setup=setup,
            teardown=teardown,
            cache_by=cache_by,
            cache_ttl=cache_ttl,
            cache_size=cache_size,
            name=name,
            on_error=on_error,
        )
        return KeyedFlow(self._builder, number)

    def flat_map(
        self, function: Callable[[T_co], Iterable[U]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """Applies a function that returns or yields any number of results for each value."""
        return KeyedFlow(self._builder, self._then(methods.FLAT_MAP, function, name, on_error))

    def filter(
        self, function: Callable[[T_co], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[T_co]":
        """Keeps the values for which the function is true."""
        return KeyedFlow(self._builder, self._then(methods.FILTER, function, name, on_error))

    def map_with_headers(
        self, function: Callable[[T_co, Headers], U | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """Applies a function to each value and its headers. Results that are None are dropped."""
        return KeyedFlow(self._builder, self._then(methods.MAP_WITH_HEADERS, function, name, on_error))

    def split(
        self,
        function: Callable[[T_co], str | None],
        into: Sequence[str],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "Mapping[str, KeyedFlow[T_co]]":
        """Divides the values among several flows, as `Flow.split`. They keep their keys."""
        parts = split_into(self._builder, self._number, "split", function, "into", into, name, on_error)
        return {flow: KeyedFlow(self._builder, number) for flow, number in parts.items()}

    def set_headers(
        self, function: Callable[[T_co, Headers], Iterable[Header]], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[T_co]":
        """Sets the headers of each value, as `Flow.set_headers`."""
        return KeyedFlow(self._builder, self._then(methods.SET_HEADERS, function, name, on_error))

    def map_columns(
        self,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]",
        *,
        headers: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Like `Flow.map_columns`. A column `key` in the results sets new keys."""
        return KeyedFlow(self._builder, self._map_columns(function, headers, name, on_error))

    def decode_columns(
        self: "KeyedFlow[Message]", format: Format[Any], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[dict[str, Any]]":
        """Decodes messages a block at a time, as `Flow.decode_columns`."""
        return KeyedFlow(self._builder, self._decode_columns(format, name, on_error))

    def to_columns(self, kind: type[Any], *, name: str | None = None, on_error: OnError | None = None) -> "KeyedFlow[Any]":
        """Turns objects of a class into rows, as `Flow.to_columns`."""
        return KeyedFlow(self._builder, self._to_columns(kind, name, on_error))

    def deduplicate(
        self,
        id: Callable[[T_co], Key | None] | None = None,
        *,
        within: timedelta | str,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[T_co]":
        """Drops values whose id has occurred before for their key, within the event time `within`.

        Args:
            id: Returns the id of a value; by default, the id of its message. A value whose id is None is kept.
            within: How long an id is remembered, in event time: a timedelta, or text such as "1 hour".
            name: The step's name.
            on_error: The policy for values for which the function raises.

        Raises:
            GraphError: `within` is not a positive duration, or the step needs a name.
        """
        builder = self._builder
        span_us, policy = _checked_ids(builder, id, within, name, on_error)
        name = builder.name_for_states(name, "deduplicate", "deduplicate")
        return self._with(Deduplicate(name, policy, id, span_us))


def _checked_ids(builder: GraphBuilder, id: Any, within: Any, name: Any, on_error: Any) -> tuple[int, OnError]:
    """The span in microseconds and the policy of a `deduplicate`."""
    where = builder.where(name, "deduplicate", "deduplicate")
    if id is not None:
        check.function(where, "id", id, "value", instead_of_yield="return an id, such as a tuple")
    return span(within, f"{where}: within"), builder.policy(where, on_error)
