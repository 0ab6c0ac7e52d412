"""Adds joins to the graph of a pipeline."""

from collections.abc import Callable
from datetime import timedelta
from operator import itemgetter
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines._table import Broadcast, Table
from headrace.pipelines.build import own_name
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.joins.as_of import JoinAsOf
from headrace.pipelines.joins.broadcast import BroadcastRows, MapWith, ToEveryBucket
from headrace.pipelines.joins.in_window import JoinInWindow
from headrace.pipelines.joins.step import Entrance, Join, SameKey, Side
from headrace.pipelines.joins.waiting import LEFT, RIGHT
from headrace.pipelines.joins.within import JoinWithin
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import span
from headrace.pipelines.windows.late import Late
from headrace.pipelines.windows.windows import Count, Grid, Session

_KEY = itemgetter(0)


def joined_within(
    builder: GraphBuilder,
    left: int,
    right: int,
    before: timedelta | str,
    after: timedelta | str,
    how: str,
    delay: timedelta | str | None,
    late: Late,
    name: str | None,
    on_error: OnError | None,
) -> int:
    """Adds an interval join after two keyed steps, and returns its number.

    Raises:
        GraphError: A parameter is invalid, or the step needs a name.
    """
    where = builder.where(name, "join-within", "join_within")
    earlier = span(before, f"{where}: before", least=0)
    later = span(after, f"{where}: after", least=0)
    _check_how(where, how, "inner", "left", "full")
    allowed = 0 if delay is None else span(delay, f"{where}: delay", least=0)
    check.member(where, "late", late, Late)
    _check_late(where, late, how)
    policy = builder.policy(where, on_error)
    held_left, held_right = (allowed + builder.lag(number) for number in (left, right))
    sides = (
        Side(held_left, later + held_right + 1, how != "inner", builder.lag(left)),
        Side(held_right, earlier + held_left + 1, how == "full", builder.lag(right)),
    )
    made = builder.name_for_states(name, "join-within", "join_within")
    return _added(builder, left, right, JoinWithin(made, policy, *sides, late, earlier, later))


def joined_in_windows(
    builder: GraphBuilder,
    left: int,
    right: int,
    windows: Grid | Session | Count,
    delay: int,
    late: Late,
    how: str,
    name: str | None,
    on_error: OnError | None,
) -> int:
    """Adds a join of values in the same window after two keyed steps, and returns its number.

    Raises:
        GraphError: A parameter is invalid, or the step needs a name.
    """
    where = builder.where(name, "window-join", "join")
    if not isinstance(windows, Grid) or windows.every < windows.size:
        raise GraphError(
            f"{where}: a join needs tumbling windows, since a value must be in one only, from its arrival on; use join_within "
            "for values that are close to each other"
        )
    _check_how(where, how, "inner", "left", "full")
    _check_late(where, late, how)
    policy = builder.policy(where, on_error)
    held_left, held_right = (delay + builder.lag(number) for number in (left, right))
    wait = windows.size + max(held_left, held_right)
    sides = (
        Side(held_left, wait, how != "inner", builder.lag(left)),
        Side(held_right, wait, how == "full", builder.lag(right)),
    )
    made = builder.name_for_states(name, "window-join", "join")
    return _added(builder, left, right, JoinInWindow(made, policy, *sides, late, windows))


def joined_as_of(
    builder: GraphBuilder,
    left: int,
    table: Any,
    on: Callable[[Any], Any],
    how: str,
    as_of: bool,
    retention: timedelta | str | None,
    delay: timedelta | str | None,
    name: str | None,
    on_error: OnError | None,
) -> int:
    """Adds a join with a table after a step, and returns its number.

    Raises:
        GraphError: A parameter is invalid, or the step needs a name.
    """
    where = builder.where(name, "join", "join")
    if not isinstance(table, Table):
        raise GraphError(f"{where}: table is what app.table(...) returns, not {check.excerpt(table)}")
    _check_pipeline(where, "table", builder, table._builder)
    check.function(where, "on", on, "value", instead_of_yield="return a key, such as a tuple")
    _check_how(where, how, "inner", "left")
    kept = _retention(where, check.flag(where, "as_of", as_of), retention)
    allowed = 0 if delay is None else span(delay, f"{where}: delay", least=0)
    policy = builder.policy(where, on_error)
    held = allowed + builder.lag(table._number)
    sides = (
        Side(kept + builder.lag(left), held + 1, how == "left", builder.lag(left)),
        Side(held, 0, False, builder.lag(table._number)),
    )
    made = builder.name_for_states(name, "join", "join")
    keyed = builder.add(KeyBy(builder.name_for(None, f"{made}-key"), policy, on), left)
    return _added(builder, keyed, table._number, JoinAsOf(made, policy, *sides, Late.PLACE_IN_OLDEST))


def mapped_with(
    builder: GraphBuilder,
    left: int,
    rows: Any,
    function: Callable[[Any, Any], Any],
    retention: timedelta | str | None,
    delay: timedelta | str | None,
    name: str | None,
    on_error: OnError | None,
) -> int:
    """Adds a step after a keyed one whose function sees the rows of a broadcast table, and returns its number.

    Raises:
        GraphError: A parameter is invalid, or the step needs a name.
    """
    where = builder.where(name, own_name(function), "map_with")
    if not isinstance(rows, Broadcast):
        raise GraphError(f"{where}: rows is what app.broadcast(...) returns, not {check.excerpt(rows)}")
    _check_pipeline(where, "rows", builder, rows._builder)
    check.function(where, "function", function, "value", "rows", instead_of_yield="return one result, such as a list")
    kept = 0 if retention is None else span(retention, f"{where}: retention", least=0)
    allowed = 0 if delay is None else span(delay, f"{where}: delay", least=0)
    policy = builder.policy(where, on_error)
    changes, level = rows._number, builder.level(left)
    held = allowed + builder.lag(changes)
    sides = (
        Side(kept + builder.lag(left), held + 1, False, builder.lag(left)),
        Side(held, 0, False, builder.lag(changes)),
    )
    made = builder.name_for_states(name, own_name(function), "map_with")
    for _ in range(1, level):
        changes = builder.add(KeyBy(builder.name_for(None, f"{made}-rows-key"), policy, _KEY), changes)
    changes = builder.add(ToEveryBucket(builder.name_for(None, f"{made}-rows-key"), policy, _KEY), changes)
    stay = sides[0].held + sides[0].wait
    kept_rows = BroadcastRows(builder.name_for(f"{made}-rows", ""), policy, sides[1], stay, rows._max_rows)
    changes = builder.add(kept_rows, changes)
    entrance = builder.add(Entrance(builder.name_for(None, f"{made}-values"), policy, LEFT), left)
    return builder.add(MapWith(made, policy, *sides, Late.PLACE_IN_OLDEST, function, kept_rows), entrance, changes)


def check_right(builder: GraphBuilder, right: Any, kind: type[Any], where: str) -> int:
    """Returns the number of the step of the right side.

    Raises:
        GraphError: It is not a keyed flow of this pipeline.
    """
    if not isinstance(right, kind):
        raise GraphError(f"{where}: right is a flow after key_by, not {check.excerpt(right)}")
    _check_pipeline(where, "right", builder, right._builder)
    number: int = right._number
    return number


def _check_pipeline(where: str, parameter: str, builder: GraphBuilder, other: GraphBuilder) -> None:
    if other is not builder:
        raise GraphError(f"{where}: {parameter} is of another pipeline: {other.name}")


def _check_how(where: str, how: Any, *choices: str) -> None:
    if not isinstance(how, str) or how not in choices:
        names = [repr(choice) for choice in choices]
        raise GraphError(f"{where}: how must be {', '.join(names[:-1])} or {names[-1]}, not {check.excerpt(how)}")


def _check_late(where: str, late: Late, how: str) -> None:
    if late is Late.FIRE and how == "inner":
        raise GraphError(
            f"{where}: late: a late value would make a result alone, which an inner join has not; "
            "use how='left', how='full' or another policy"
        )


def _retention(where: str, as_of: bool, retention: Any) -> int:
    """How long earlier rows are kept, in microseconds."""
    if as_of and retention is None:
        raise GraphError(
            f"{where}: retention is needed: how far a value may be behind its stream and still meet the row of its time, such as "
            "'1 hour'; or pass as_of=False"
        )
    if not as_of and retention is not None:
        raise GraphError(f"{where}: retention is for as_of=True: without it, no earlier rows are kept")
    return 0 if retention is None else span(retention, f"{where}: retention", least=0)


def _added(builder: GraphBuilder, left: int, right: int, join: Join) -> int:
    """Adds a join after two keyed steps, which get as many shuffles before them as the one that has more."""
    most = max(builder.level(left), builder.level(right))
    entrances = []
    for number, side, word in ((left, LEFT, "left"), (right, RIGHT, "right")):
        for _ in range(builder.level(number), most):
            again = SameKey(builder.name_for(None, f"{join.name}-{word}-key"), join.on_error, None, builder.keyed_by(number))
            number = builder.add(again, number)
        entrances.append(builder.add(Entrance(builder.name_for(None, f"{join.name}-{word}"), join.on_error, side), number))
    return builder.add(join, *entrances)
