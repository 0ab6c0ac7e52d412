"""Windowed values, before they are aggregated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.build import aggregation_of
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.join_steps import check_right, joined_in_windows
from headrace.pipelines.steps.aggregation import Aggregation, Functions, collect
from headrace.pipelines.steps.clock_ttl import clock_count_windows
from headrace.pipelines.steps.count_windows import CountWindows
from headrace.pipelines.steps.step import OnError, Step
from headrace.pipelines.time.time import span
from headrace.pipelines.windows.late import Late, LateValues
from headrace.pipelines.windows.step import TimeWindows
from headrace.pipelines.windows.windows import Count, Grid, Session

if TYPE_CHECKING:
    from headrace.pipelines._flow import KeyedFlow
    from headrace.pipelines.flow_outputs import Outputs

_lists: Aggregation[Any, Any, Any] = collect()
_SESSIONS = "which values a session takes depends on the marks and sessions before them, which only the step knows"
_COUNTS = "a window that counts values may end between two that were combined"

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
A = TypeVar("A")
R = TypeVar("R")
W_co = TypeVar("W_co", covariant=True)


@dataclass(frozen=True)
class Windowed(Generic[T_co, W_co]):
    """Values by key and window, from `KeyedFlow.window`. Its methods aggregate them.

    Functions receive the window as a `Window`, or None for windows that count values. The event time of a window's result is the
    window's last microsecond; its key is the values' key.
    """

    _builder: GraphBuilder
    _windows: Grid | Session | Count
    _delay: int
    _late: Late
    _emit_every: int | None
    _flow: "Outputs[Any]"

    def late_values(self, *, name: str | None = None) -> "KeyedFlow[T_co]":
        """Returns the flow of late values, unchanged: values that arrive after all their windows were closed.

        This flow is independent of the results of the windows, and of `late`.

        Raises:
            GraphError: The windows are sessions, which may still merge with others, or count values.
        """
        if not isinstance(self._windows, Grid):
            raise GraphError(
                f"pipeline {self._builder.name}: late_values() requires tumbling or sliding windows; sessions have late=Late.FIRE"
            )
        self._builder.where(name, "late-values", "late_values")
        made = self._builder.name_for(name, "late-values")
        return self._then(LateValues(made, OnError.FAIL, self._windows, self._delay + self._lag))

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, U],
        *,
        before_shuffle: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, R],
        *,
        output: Callable[[Any, R, W_co], U | None],
        before_shuffle: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        combine: Callable[[A, A], A] | None = None,
        before_shuffle: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[A]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T_co], A],
        combine: Callable[[A, A], A] | None = None,
        output: Callable[[Any, A, W_co], U | None],
        before_shuffle: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    def aggregate(
        self,
        aggregation: Aggregation[T_co, Any, Any] | None = None,
        *,
        initial: Callable[[], Any] | None = None,
        update: Callable[[Any, T_co], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        output: Callable[[Any, Any, Any], Any] | None = None,
        before_shuffle: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """Emits the aggregate of each window.

        Args:
            aggregation: The aggregation, such as `count()` or your own; or pass functions.
            initial: Returns a new accumulator, without values.
            update: Returns the accumulator with another value: the same one, changed, or a new one.
            combine: Returns the accumulator of the values of two, for sessions that merge.
            output: Returns the result for a key, an accumulator and a `Window` (None for windows that count values); None is
                dropped. With an aggregation, it receives the aggregation's result instead of the accumulator. By default, the
                result is the accumulator.
            before_shuffle: Whether to aggregate values before the shuffle, too, for a few keys with most values. Results are
                the same; `total` and `mean` fail at numbers other than `int` and `Fraction`, whose sums are rounded. Your own
                functions need `combine`, and results that depend on no order. The step must follow the first `key_by`, with
                `OnError.FAIL`.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values for which a function raises. Their windows are then the same as before.

        Raises:
            GraphError: Neither or both of an aggregation and functions are given, sessions have no `combine`, or the step needs a
                name.
        """
        builder, windows = self._builder, self._windows
        where = builder.where(name, "window", "aggregate")
        policy = builder.policy(where, on_error)
        found = aggregation_of(where, aggregation, initial, update, combine, output)
        if isinstance(windows, Session) and found.join is None:
            raise GraphError(f"{where}: sessions can merge; the aggregation needs combine")
        if check.flag(where, "before_shuffle", before_shuffle):
            self._check_combined(where, policy, found)
        name = builder.name_for_states(name, "window", "window")
        if isinstance(windows, Count):
            if windows.clock_ttl is not None:
                return self._then(clock_count_windows(name, policy, found, windows.values, windows.clock_ttl, self._lag))
            return self._then(CountWindows(name, policy, found, windows.values, windows.ttl))
        times = self._delay, self._late, self._lag, self._emit_every
        return self._then(TimeWindows(name, policy, found, windows, *times, before_shuffle))

    def collect(
        self,
        function: Callable[[Any, Sequence[T_co], W_co], U | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """Applies a function to a key, all values of a window in the order of arrival, and the `Window`.

        Args:
            function: Returns the result; None is dropped.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy if the function raises.

        Raises:
            GraphError: The step needs a name.
        """
        where = self._builder.where(name, "window", "collect")
        check.function(
            where, "function", function, "key", "values", "window", instead_of_yield="return one result, such as a list"
        )
        return self.aggregate(_lists, output=function, name=name, on_error=on_error)

    @overload
    def join(
        self,
        right: "KeyedFlow[U]",
        *,
        how: Literal["inner"] = "inner",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[tuple[T_co, U]]": ...

    @overload
    def join(
        self, right: "KeyedFlow[U]", *, how: Literal["left"], name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[tuple[T_co, U | None]]": ...

    @overload
    def join(
        self, right: "KeyedFlow[U]", *, how: Literal["full"], name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[tuple[T_co | None, U | None]]": ...

    def join(
        self, right: "KeyedFlow[Any]", *, how: str = "inner", name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[Any]":
        """Returns each value with each value of another flow that has its key and is in the same tumbling window, as tuples.

        Results are emitted when the window is closed for both flows, in the order of the streams. The event time of a pair is the
        later one of both. `delay` and `late` of the window hold for both flows; with `Late.FIRE`, late values meet none.

        Args:
            right: The other flow.
            how: "inner" drops values that meet none; "left" pairs values of this flow with None, and "full" values of both.
            name: The step's name, which also identifies its states in the checkpoint.
            on_error: The policy for values without an event time.

        Raises:
            GraphError: A parameter is invalid, the windows do not tumble or have early results, `right` belongs to another
                pipeline, or the step needs a name.
        """
        builder, flow = self._builder, self._flow
        where = builder.where(name, "window-join", "join")
        if self._emit_every is not None:
            raise GraphError(f"{where}: emit_every is for windows that are aggregated: a join has no early results")
        other = check_right(builder, right, type(flow), where)
        windows, delay, late = self._windows, self._delay, self._late
        return flow._keyed(joined_in_windows(builder, flow._number, other, windows, delay, late, how, name, on_error))

    def _check_combined(self, where: str, policy: OnError, functions: Functions) -> None:
        """Checks that values can be aggregated before the shuffle, with the same results.

        Raises:
            GraphError: They cannot.
        """
        builder, windows = self._builder, self._windows
        for is_wrong, why in (
            (isinstance(windows, Session), f"{_SESSIONS}: use tumbling or sliding windows"),
            (isinstance(windows, Count), f"{_COUNTS}: use tumbling or sliding windows"),
            (isinstance(windows, Grid) and windows.size % windows.every != 0, "the size of windows must be a multiple of every"),
            (self._late is Late.FIRE, "with Late.FIRE, each late value has a result of its own: use another late"),
            (not builder.is_first_key_by(self._flow._number), "the window must follow the first key_by, without a step between"),
            (functions.join is None, "the aggregation needs combine"),
            (functions.shows_order, "collect() shows the order of values, which would change: use another aggregation"),
            (policy is not OnError.FAIL, "one value that fails must end the query: pass on_error=OnError.FAIL"),
            (builder.max_keys is not None, "values beyond max_keys fail one by one: remove max_keys"),
        ):
            if is_wrong:
                raise GraphError(f"{where}: before_shuffle: {why}")

    def _then(self, step: Step) -> "KeyedFlow[Any]":
        return self._flow._keyed(self._builder.add(step, self._flow._number))

    @property
    def _lag(self) -> int:
        return self._builder.lag(self._flow._number)


def windowed(
    builder: GraphBuilder,
    windows: Grid | Session | Count,
    delay: timedelta | str | None,
    late: Late,
    emit_every: timedelta | str | None,
    flow: "Outputs[Any]",
) -> Windowed[Any, Any]:
    """Validates windows, and returns the windowed values.

    Raises:
        GraphError: `windows`, `delay`, `late` or `emit_every` are invalid.
    """
    where = f"pipeline {builder.name}, window(...)"
    if not isinstance(windows, (Grid, Session, Count)):
        raise GraphError(
            f"{where}: windows must be tumbling(...), sliding(...), session(...) or count_window(...), "
            f"not {check.excerpt(windows)}"
        )
    check.member(where, "late", late, Late)
    if isinstance(windows, Count) and (delay is not None or late is not Late.DROP):
        raise GraphError(f"{where}: a window that counts values has no late values: remove delay and late")
    if isinstance(windows, Count) and emit_every is not None:
        raise GraphError(f"{where}: a window that counts values has no early results: remove emit_every, or pass it a ttl")
    allowed = 0 if delay is None else span(delay, f"{where}: delay", least=0)
    every = None if emit_every is None else span(emit_every, f"{where}: emit_every")
    return Windowed(builder, windows, allowed, late, every, flow)
