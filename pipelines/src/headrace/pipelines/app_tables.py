"""The tables of an application."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines._table import Broadcast, Table
from headrace.pipelines.elements.message import Message
from headrace.pipelines.formats import Format
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.source_steps import added_source
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.table_steps import TableSteps

K = TypeVar("K")
T = TypeVar("T")


class Tables:
    """The methods of a pipeline that add tables."""

    _builder: GraphBuilder

    @overload
    def table(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], T | None] | Format[T],
        key: None = None,
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Table[bytes | None, T]: ...

    @overload
    def table(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], T | None] | Format[T],
        key: Callable[[Message], K],
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Table[K, T]: ...

    def table(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], Any] | Format[Any],
        key: Callable[[Message], Any] | None = None,
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Table[Any, Any]:
        """Adds a table: streams of changes, each of which replaces the row of its key, or deletes it. `Flow.join` reads it.

        A message without a payload, a tombstone, deletes the row of its key.

        Args:
            streams: Patterns of stream names, as of `source`.
            decode: A format such as `json(Customer)`, or a function that returns the row of a payload, or None to delete it,
                such as `after` of a change data capture's envelope.
            key: Returns the key of a message. By default, it is the message's key. `primary_key("public.customers", int)` is the
                primary key of one table of a database, and leaves out messages of other tables.
            event_time: Returns the event time of a message, as of `Flow.event_time`. By default, it is the message's.
            idle_after: The event time in other streams after which they no longer wait for a quiet table, as of `source`.
            max_ahead: See `source`.
            await_streams: See `source`.
            await_time: See `source`.
            bootstrap: Whether the streams that meet the table begin only once the table was read to its present end.
            name: The step's name.
            on_error: The policy for messages for which a function raises.

        Raises:
            GraphError: See `source`.
        """
        builder = self._builder
        made = TableSteps.checked(builder, "table", name, decode, key, event_time, on_error)
        number = added_source(
            builder,
            streams,
            None,
            idle_after=idle_after,
            max_ahead=max_ahead,
            await_streams=await_streams,
            await_time=await_time,
            name=name,
            on_error=on_error,
            bootstrap=check.flag(builder.where(name, None, "table"), "bootstrap", bootstrap),
        )
        return Table(builder, made.by_key(number))

    @overload
    def broadcast(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], T | None] | Format[T],
        key: None = None,
        max_rows: int = 10_000,
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Broadcast[bytes | None, T]: ...

    @overload
    def broadcast(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], T | None] | Format[T],
        key: Callable[[Message], K],
        max_rows: int = 10_000,
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Broadcast[K, T]: ...

    def broadcast(
        self,
        streams: str,
        *,
        decode: Callable[[bytes], Any] | Format[Any],
        key: Callable[[Message], Any] | None = None,
        max_rows: int = 10_000,
        event_time: Callable[[Message], datetime | float | None] | None = None,
        idle_after: timedelta | str | None = None,
        max_ahead: timedelta | str | None = None,
        await_streams: int | None = None,
        await_time: timedelta | str | None = None,
        bootstrap: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Broadcast[Any, Any]:
        """Adds a small table, such as one of rules, all rows of which `KeyedFlow.map_with` shows to a function.

        Every bucket has a copy of the table.

        Args:
            streams: Patterns of stream names, as of `source`.
            decode: Returns the row of a payload, or None to delete it, as of `table`.
            key: Returns the key of a message, or `primary_key(...)`, as of `table`. By default, it is the message's key.
            max_rows: The largest number of rows. The query fails if there are more.
            event_time: Returns the event time of a message, from which on its row holds. By default, it is the message's.
            idle_after: The event time in other streams after which they no longer wait for a quiet table, as of `source`.
            max_ahead: See `source`.
            await_streams: See `source`.
            await_time: See `source`.
            bootstrap: As of `table`.
            name: The step's name.
            on_error: The policy for messages for which a function raises.

        Raises:
            GraphError: `max_rows` is not a positive whole number. See `source`, too.
        """
        builder = self._builder
        place = builder.where(name, None, "broadcast")
        most = check.count(place, "max_rows", max_rows)
        made = TableSteps.checked(builder, "broadcast", name, decode, key, event_time, on_error)
        number = added_source(
            builder,
            streams,
            None,
            idle_after=idle_after,
            max_ahead=max_ahead,
            await_streams=await_streams,
            await_time=await_time,
            name=name,
            on_error=on_error,
            bootstrap=check.flag(place, "bootstrap", bootstrap),
        )
        return Broadcast(builder, made.pairs(number), most)
