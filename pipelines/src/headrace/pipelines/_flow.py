"""Flows: the values between the sources and the sinks of a pipeline. Each method adds a step."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines import methods as methods
from headrace.pipelines._errors import GraphError
from headrace.pipelines._table import Table
from headrace.pipelines._windowed import Windowed, windowed
from headrace.pipelines.build import aggregation_of, check_state, own_name, stateful_step
from headrace.pipelines.elements.elements import Key
from headrace.pipelines.elements.headers import Header, Headers
from headrace.pipelines.elements.message import Message
from headrace.pipelines.formats import Format, columns_of
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.join_steps import check_right, joined_as_of, joined_within
from headrace.pipelines.methods import Method
from headrace.pipelines.programs.program import program_of
from headrace.pipelines.split_steps import split_into
from headrace.pipelines.steps.aggregation import Aggregation, Window
from headrace.pipelines.steps.columnar import DecodeColumns, KeyStates, StatefulColumns, ToColumns
from headrace.pipelines.steps.context import Context
from headrace.pipelines.steps.deduplicate import Deduplicate, DeduplicateKeys, KeyById, key_of
from headrace.pipelines.steps.lake import Lake, lake_columns
from headrace.pipelines.steps.lake_partitions import partition_columns
from headrace.pipelines.steps.lake_places import opened_with
from headrace.pipelines.steps.lasting import LastingRunning
from headrace.pipelines.steps.program import StatefulProgram, payload
from headrace.pipelines.steps.running import Running
from headrace.pipelines.steps.stateless import Merge, Sink, to_bytes
from headrace.pipelines.steps.step import OnError, Step
from headrace.pipelines.time.time import TimeUnit, span
from headrace.pipelines.windows.late import Late
from headrace.pipelines.windows.windows import Count, Grid, Session

if TYPE_CHECKING:
    import pyarrow as pa

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")
K = TypeVar("K")


class Flow(Generic[T_co]):
    """A flow of values, in the order of their streams. Each method adds a step, and returns the flow of its results.

    Functions must have no side effects: they may be called again for the same value.

    All methods raise `GraphError` if another step has the given name, or if the pipeline already runs.
    """

    def __init__(self, builder: GraphBuilder, number: int) -> None:
        self._builder = builder
        self._number = number

    def map(self, function: Callable[[T_co], U | None], *, name: str | None = None, on_error: OnError | None = None) -> "Flow[U]":
        """Applies a function to each value. Results that are None are dropped."""
        return Flow(self._builder, self._then(methods.MAP, function, name, on_error))

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

    @overload
    def join(
        self,
        table: Table[K, R],
        *,
        on: Callable[[T_co], K],
        how: Literal["inner"] = "inner",
        as_of: Literal[True] = True,
        retention: timedelta | str,
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, R]]": ...

    @overload
    def join(
        self,
        table: Table[K, R],
        *,
        on: Callable[[T_co], K],
        how: Literal["left"],
        as_of: Literal[True] = True,
        retention: timedelta | str,
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, R | None]]": ...

    @overload
    def join(
        self,
        table: Table[K, R],
        *,
        on: Callable[[T_co], K],
        how: Literal["inner"] = "inner",
        as_of: Literal[False],
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, R]]": ...

    @overload
    def join(
        self,
        table: Table[K, R],
        *,
        on: Callable[[T_co], K],
        how: Literal["left"],
        as_of: Literal[False],
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, R | None]]": ...

    def join(
        self,
        table: Table[Any, Any],
        *,
        on: Callable[[T_co], Any],
        how: str = "inner",
        as_of: bool = True,
        retention: timedelta | str | None = None,
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Returns each value with the row of its key, as a tuple, in the order of their streams.

        A result waits until event time has come to the value in all streams, also of the table.

        Args:
            table: The table.
            on: Returns the key of a value.
            how: "inner" drops values without a row; "left" pairs them with None.
            as_of: Whether it is the row as of the value's event time. Otherwise, it is the row as of the mark of the value's
                stream, which is later for a value that is behind its stream.
            retention: How far a value may be behind its stream and still meet the row as of its event time, which is how long a
                row is kept after it was replaced: a timedelta, or text such as "1 hour". A value further behind meets the row
                as of that time, and counts as late.
            delay: How far a change of the table may be behind its stream and hold from its event time on. Values wait for it.
                A change further behind holds from that time on, and counts as late. By default, 0.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values for which `on` raises, or without an event time.

        Raises:
            GraphError: A parameter is invalid, the table belongs to another pipeline, or the step needs a name.
        """
        builder = self._builder
        number = joined_as_of(builder, self._number, table, on, how, as_of, retention, delay, name, on_error)
        return KeyedFlow(builder, number)

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

    def sink(
        self,
        sink: str,
        encode: Callable[[T_co], bytes] | Format[T_co] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes the values to a sink of the gateway.

        Args:
            sink: The name of the sink.
            encode: A format such as `json(Order)`, or a function that returns the payload of a value. By default, values must
                be bytes or str.
            name: The step's name.
            on_error: The policy for values that `encode` cannot write.
        """
        builder = self._builder
        check.name(builder.where(name, None, "sink"), "sink", sink)
        where = builder.where(name, f"to-{sink}", "sink")
        encoder = _encoder(where, encode)
        policy = builder.policy(where, on_error)
        builder.add(Sink(builder.name_for(name, f"to-{sink}"), policy, sink, encoder), self._number)

    def sink_by(
        self,
        function: Callable[[T_co], str | None],
        sinks: Sequence[str],
        encode: Callable[[T_co], bytes] | Format[T_co] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes each value to the sink that a function names, one of a list.

        Args:
            function: Returns the name of the sink of a value; None to write it nowhere.
            sinks: The names of all sinks that it may return.
            encode: As of `sink`.
            name: The step's name.
            on_error: The policy for values for which the function raises or returns another name, or that `encode` cannot write.

        Raises:
            GraphError: A parameter is invalid.
        """
        builder = self._builder
        where = builder.where(name, own_name(function) or "sinkby", "sink_by")
        encoder = _encoder(where, encode)
        for sink in check.texts(where, "sinks", sinks):
            check.name(where, "sinks", sink)
        parts = split_into(builder, self._number, "sink_by", function, "sinks", sinks, name, on_error)
        policy = builder.policy(where, on_error)
        for sink, number in parts.items():
            builder.add(Sink(builder.name_for(None, f"to-{sink}"), policy, sink, encoder), number)

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

    def lake(
        self,
        path: str | Path,
        *,
        schema: "type[Any] | pa.Schema",
        format: str = "parquet",
        partition_by: Sequence[str] = (),
        table: str | None = None,
        options: Mapping[str, str] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes the values as rows of a table of files, each once. Readers see whole micro-batches, after their commit.

        Args:
            path: The folder of the table, on a disk that all workers share, or, of a Delta table, `hdfs://namenode:9820/folder`,
                or `s3://bucket/folder`, with credentials, region and endpoint from the environment (`AWS_...`) of driver and
                workers.
            schema: The columns: a dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct` or pydantic model, or a schema of
                pyarrow. With the latter, values are dicts, or objects with these attributes. The columns of a columnar step are
                converted to the types of the schema, without a loss.
            format: "parquet": files in a folder for each micro-batch, without a log; "delta": a Delta table, whose log also knows
                the micro-batches. It needs `headrace-engine[lake]` on the driver, on S3 and HDFS also on the workers. "iceberg":
                an Iceberg table in a folder. It needs `headrace-engine[iceberg]` on the driver.
            partition_by: The columns that divide the table: texts, signed integers, booleans or dates. Each combination of
                values has files of its own, of Parquet in a folder such as `day=2026-11-29`.
            table: The name of an Iceberg table, as `catalog.namespace.table`.
            options: Options of the format's library, beside the environment: deltalake's storage options, such as
                `aws_endpoint_url`, or properties of pyiceberg's catalog, such as `uri`.
            name: The step's name.
            on_error: The policy for values that the columns cannot hold.

        Raises:
            GraphError: A parameter is invalid, or another step writes to this table.
        """
        builder = self._builder
        where = builder.where(name, "lake", "lake")
        policy = builder.policy(where, on_error)
        place, columns = lake_columns(where, path, format, schema)
        divided_by = partition_columns(where, partition_by, columns.schema)
        known = opened_with(where, format, table, options)
        builder.add(Lake(builder.name_for(name, "lake"), policy, place, format, columns, divided_by, *known), self._number)

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


class KeyedFlow(Flow[T_co]):
    """A flow of values partitioned by key. The results of `map`, `flat_map` and `filter` keep their keys."""

    def map(
        self, function: Callable[[T_co], U | None], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]":
        """Applies a function to each value. Results that are None are dropped."""
        return KeyedFlow(self._builder, self._then(methods.MAP, function, name, on_error))

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

    def stateful(
        self,
        function: Callable[[T_co, S], U | None] | Callable[[T_co, S, Context], U | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], U | None] | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Applies a function to each value and the state of its key, which it may change. Results that are None are dropped.

        Args:
            function: Called with the values of each key in order, and the key's state. If it has a third parameter, it also
                receives a `Context`, which describes the value, and sets timers.
            state: Creates the state of a new key: a class, or a function that returns a list, dict, set or instance.
            on_timer: Called with a key's state and a `Context` when the watermark reaches a timer of the key.
            ttl: The event time without a value after which a key's state is removed: a timedelta, or text such as "1 hour".
            name: The step's name, which also identifies its states in the checkpoint: keep it if you rename the function. It is
                required for a lambda, or if another step has the function's name.
            on_error: The policy for values for which a function raises. The key's state is then the same as before the call.

        Raises:
            GraphError: The state is immutable, `on_timer` is given without a context, `ttl` is not a positive duration, or the
                step needs a name.
        """
        return self._stateful(False, function, state, on_timer, ttl, name, on_error)

    def stateful_flat(
        self,
        function: Callable[[T_co, S], Iterable[U] | None] | Callable[[T_co, S, Context], Iterable[U] | None],
        state: Callable[[], S],
        *,
        on_timer: Callable[[S, Context], Iterable[U] | None] | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Like `stateful`, with functions that return or yield any number of results.

        Raises:
            GraphError: See `stateful`.
        """
        return self._stateful(True, function, state, on_timer, ttl, name, on_error)

    @overload
    def join_within(
        self,
        right: "KeyedFlow[U]",
        *,
        before: timedelta | str,
        after: timedelta | str,
        how: Literal["inner"] = "inner",
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, U]]": ...

    @overload
    def join_within(
        self,
        right: "KeyedFlow[U]",
        *,
        before: timedelta | str,
        after: timedelta | str,
        how: Literal["left"],
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, U | None]]": ...

    @overload
    def join_within(
        self,
        right: "KeyedFlow[U]",
        *,
        before: timedelta | str,
        after: timedelta | str,
        how: Literal["full"],
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co | None, U | None]]": ...

    def join_within(
        self,
        right: "KeyedFlow[Any]",
        *,
        before: timedelta | str,
        after: timedelta | str,
        how: str = "inner",
        delay: timedelta | str | None = None,
        late: Late = Late.DROP,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Returns each value with each value of another flow that has its key and an event time close to its own, as tuples.

        A result is emitted once event time has passed everything that it may contain, in the order of the streams. Its event
        time is the later one of both.

        Args:
            right: The other flow.
            before: How long before a value the other one may be: a timedelta, or text such as "5 minutes".
            after: How long after it.
            how: "inner" drops values that meet none; "left" pairs values of this flow with None, and "full" values of both.
            delay: How far a value may be behind its stream. Results wait for it. By default, 0.
            late: What happens to values further behind. With `Late.FIRE`, they meet none.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values without an event time.

        Raises:
            GraphError: A parameter is invalid, `right` belongs to another pipeline, or the step needs a name.
        """
        builder = self._builder
        other = check_right(builder, right, KeyedFlow, name)
        number = joined_within(builder, self._number, other, before, after, how, delay, late, name, on_error)
        return KeyedFlow(builder, number)

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

    def stateful_columns(
        self,
        function: "Callable[[pa.RecordBatch, KeyStates[S]], pa.RecordBatch | None]",
        state: Callable[[], S],
        *,
        headers: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Applies a function to many values at once, with the states of their keys. It returns None for no results.

        Args:
            function: Called with a record batch that has a column `key`, with the values of each key in order, and the states:
                `states[key]` is the state of a key, which it may change.
            state: Creates the state of a new key.
            headers: Whether the batches have a column `headers`, as for `map_columns`.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for all values of a batch for which the function raises. It must raise before it changes states.

        Raises:
            GraphError: The step needs a name.
        """
        builder, method = self._builder, "stateful_columns"
        where = builder.where(name, own_name(function), method)
        check.function(where, "function", function, "batch", "states", instead_of_yield="return a record batch")
        check_state(where, state)
        check.flag(where, "headers", headers)
        policy = builder.policy(where, on_error)
        name = builder.name_for_states(name, own_name(function), method)
        return self._with(StatefulColumns(name, policy, function, state, headers))

    def stateful_program(
        self,
        command: Collection[str],
        *,
        state: Collection[str],
        name: str,
        files: Collection[str] = (),
        encode: Callable[[T_co], bytes | None] | Format[T_co] | None = None,
        timeout: timedelta | str = "30 seconds",
        on_error: OnError | None = None,
    ) -> "KeyedFlow[bytes]":
        """Has a program in any language process the values, with the states of their keys.

        Each worker starts the program once, and keeps it running. docs/write/programs.md describes the protocol that it speaks.

        Args:
            command: The command and its arguments, such as `["./votes"]`. A path is relative to the application's folder, and
                its file is shipped to the workers. A name without a slash must be installed on every machine.
            state: The names of the fields of a state. Their values are bytes.
            name: The step's name, which also identifies its states in the checkpoint.
            files: Further files and folders that the program needs, relative to the application's folder. They are shipped too.
            encode: A format, or a function that returns the payload of a value. By default, values must be bytes, text or
                messages.
            timeout: The time that the program has for up to 4,096 values: a timedelta, or text such as "1 minute".
            on_error: The policy for values for which `encode` raises, or which the program could not process. If the program
                ends or breaks the protocol, the query fails in any case.

        Raises:
            GraphError: A parameter is invalid, or another step has the name.
        """
        builder = self._builder
        where = builder.where(name, None, "stateful_program")
        if isinstance(encode, Format):
            encode = encode.encoder()
        elif encode is not None:
            check.function(where, "encode", encode, "value", instead_of_yield="yield in a flat_map before this step")
        policy = builder.policy(where, on_error)
        program = program_of(builder.name, name, command, state, files, timeout)
        name = builder.name_for_states(name, None, "stateful_program")
        return self._with(StatefulProgram(name, policy, program, encode or payload))

    @overload
    def window(
        self, windows: Grid | Session, *, delay: timedelta | str | None = None, late: Late = Late.DROP
    ) -> Windowed[T_co, Window]: ...

    @overload
    def window(self, windows: Count) -> Windowed[T_co, None]: ...

    def window(
        self, windows: Grid | Session | Count, *, delay: timedelta | str | None = None, late: Late = Late.DROP
    ) -> Windowed[T_co, Any]:
        """Groups the values of each key into windows.

        Args:
            windows: The windows: `tumbling(...)`, `sliding(...)`, `session(...)` or `count_window(...)`.
            delay: How far the watermark must be past a window's end before the window is closed, so that values that are out of
                order are still included: a timedelta, or text such as "10 seconds".
            late: What happens to values whose windows are all closed.

        Raises:
            GraphError: `windows` or `delay` are invalid, or `delay` or `late` are given for windows that count values.
        """
        return windowed(self._builder, windows, delay, late, self._builder.lag(self._number), self._with)

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, U],
        *,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, R],
        *,
        output: Callable[[Any, R, None], U | None],
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[A]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        output: Callable[[Any, A, None], U | None],
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, Any] | None = None,
        *,
        initial: Callable[[], Any] | None = None,
        update: Callable[[Any, T_co], Any] | None = None,
        output: Callable[[Any, Any, Any], Any] | None = None,
        ttl: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Emits, for each value, the aggregate of all values of its key so far.

        Args:
            aggregation: The aggregation; or pass functions, as for `Windowed.aggregate`.
            initial: Returns a new accumulator.
            update: Returns the accumulator with another value.
            output: Returns the result for a key, an accumulator and None.
            ttl: The event time without a value after which a key's aggregate is removed, as for `stateful`.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values for which a function raises.

        Raises:
            GraphError: Neither or both of an aggregation and functions are given, `ttl` is not a positive duration, or the step
                needs a name.
        """
        builder = self._builder
        where = builder.where(name, "aggregate", "aggregate")
        found = aggregation_of(where, aggregation, initial, update, None, output)
        lives = None if ttl is None else span(ttl, f"{where}: ttl")
        policy = builder.policy(where, on_error)
        name = builder.name_for_states(name, "aggregate", "aggregate")
        return self._with(Running(name, policy, found) if lives is None else LastingRunning(name, policy, found, lives))

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
        builder, method = self._builder, "stateful_flat" if flat else "stateful"
        where = builder.where(name, own_name(function), method)
        step = stateful_step(
            where, builder.policy(where, on_error), flat, function, state, on_timer, ttl, builder.lag(self._number)
        )
        return self._with(step(builder.name_for_states(name, own_name(function), method)))

    def _with(self, step: Step) -> "KeyedFlow[Any]":
        return KeyedFlow(self._builder, self._builder.add(step, self._number))


def _checked_ids(builder: GraphBuilder, id: Any, within: Any, name: Any, on_error: Any) -> tuple[int, OnError]:
    """The span in microseconds and the policy of a `deduplicate`."""
    where = builder.where(name, "deduplicate", "deduplicate")
    if id is not None:
        check.function(where, "id", id, "value", instead_of_yield="return an id, such as a tuple")
    return span(within, f"{where}: within"), builder.policy(where, on_error)


def _encoder(where: str, encode: Any) -> Callable[[Any], Any]:
    """Returns the function that makes payloads.

    Raises:
        GraphError: It is no such function, nor a format.
    """
    if isinstance(encode, Format):
        return encode.encoder()
    if encode is None:
        return to_bytes
    check.function(where, "encode", encode, "value", instead_of_yield="yield in a flat_map before the sink")
    found: Callable[[Any], Any] = encode
    return found
