"""Joins of flows, with tables and with each other."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headrace.pipelines._table import Broadcast, Table
from headrace.pipelines.flow_outputs import Outputs
from headrace.pipelines.join_steps import check_right, joined_as_of, joined_within, mapped_with
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.windows.late import Late

if TYPE_CHECKING:
    from headrace.pipelines._flow import KeyedFlow

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
R = TypeVar("R")
K = TypeVar("K")


class TableJoins(Outputs[T_co]):
    """The join of each flow with a table."""

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

        A result waits until all streams, the table's too, have reached the value's event time.

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
        return self._keyed(number)


class IntervalJoins(Outputs[T_co]):
    """The join of flows with keys."""

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
        other = check_right(builder, right, IntervalJoins, builder.where(name, "join-within", "join_within"))
        number = joined_within(builder, self._number, other, before, after, how, delay, late, name, on_error)
        return self._keyed(number)

    def map_with(
        self,
        rows: Broadcast[K, R],
        function: Callable[[T_co, Mapping[K, R]], U | None],
        *,
        retention: timedelta | str | None = None,
        delay: timedelta | str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Applies a function to each value and all rows of a small table, as of its event time. None is dropped.

        The call waits until all streams, the table's too, have reached the value's event time.

        Args:
            rows: The table.
            function: Called with a value and the rows by key: a mapping for this call only, which makes copies of its rows.
            retention: How far a value may be behind its stream and still see the rows as of its event time, as of `join`.
                A value further behind sees the rows as of that time, and counts as late. By default, 0.
            delay: How far a change of the table may be behind its stream and hold from its event time on, as of `join`.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values for which the function raises, or without an event time.

        Raises:
            GraphError: A parameter is invalid, the table belongs to another pipeline, or the step needs a name.
        """
        return self._keyed(mapped_with(self._builder, self._number, rows, function, retention, delay, name, on_error))
