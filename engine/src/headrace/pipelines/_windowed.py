"""Values in windows, of which results are to be made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace.pipelines._aggregation import Aggregation, collect
from headrace.pipelines._build import aggregation_of
from headrace.pipelines._draft import Draft
from headrace.pipelines._errors import GraphError
from headrace.pipelines._running import CountWindows
from headrace.pipelines._step import OnError, Step
from headrace.pipelines._time import span
from headrace.pipelines._window_step import LateValues, TimeWindows
from headrace.pipelines._windows import Count, Grid, Late, Session

if TYPE_CHECKING:
    from headrace.pipelines._flow import KeyedFlow

_lists: Aggregation[Any, Any, Any] = collect()

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
R = TypeVar("R")
W = TypeVar("W")


@dataclass(frozen=True)
class Windowed(Generic[T, W]):
    """Values by key and window: a `Window`, or None where windows count values. A method says what is made of them.

    The event time of a window's result is the window's last microsecond; its key is that of the values.
    """

    _draft: Draft
    _windows: Grid | Session | Count
    _delay: int
    _late: Late
    _lag: int
    _then: "Callable[[Step], KeyedFlow[Any]]"

    def late_values(self, *, name: str | None = None) -> "KeyedFlow[T]":
        """The values that are late: those that come after all their windows were closed, as they came, and with their keys.

        It goes beside the results of the windows, whatever `late` says of these.

        Raises:
            GraphError: the windows are sessions, in which others of their key may still take a value, or count values.
        """
        if not isinstance(self._windows, Grid):
            raise GraphError(
                f"pipeline {self._draft.name}: late_values() is for tumbling and sliding windows; sessions have late=Late.FIRE"
            )
        made = self._draft.name_for(name, "late-values")
        return self._then(LateValues(made, OnError.FAIL, self._windows, self._delay + self._lag))

    @overload
    def aggregate(
        self, aggregation: Aggregation[T, Any, U], *, name: str | None = None, on_error: OnError | None = None
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[T, Any, R],
        *,
        output: Callable[[Any, R, W], U | None],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T], A],
        combine: Callable[[A, A], A] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[A]": ...

    @overload
    def aggregate(
        self,
        *,
        initial: Callable[[], A],
        update: Callable[[A, T], A],
        combine: Callable[[A, A], A] | None = None,
        output: Callable[[Any, A, W], U | None],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]": ...

    def aggregate(
        self,
        aggregation: Aggregation[T, Any, Any] | None = None,
        *,
        initial: Callable[[], Any] | None = None,
        update: Callable[[Any, T], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        output: Callable[[Any, Any, Any], Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[Any]":
        """A result for each window.

        Args:
            aggregation: Says how, such as `count()` or one of your own; or functions do.
            initial: Makes an accumulator of no values.
            update: Returns an accumulator with one more value: the same one changed, or a new one.
            combine: Returns the accumulator of the values of two, for sessions that grow together.
            output: Makes the result of a key, an accumulator and a `Window` (None where windows count values); None goes no
                further. With an aggregation it gets what that gave. Without it the result is the accumulator.
            name: The step's name, which is also that of its states in the checkpoint.
            on_error: What happens to a value that a function raises for. Its windows are then as they were before.
        """
        draft, windows = self._draft, self._windows
        name, policy = draft.name_for_states(name, "window", "window"), on_error or draft.on_error
        where = f"pipeline {draft.name}, step {name}"
        found = aggregation_of(where, aggregation, initial, update, combine, output)
        if isinstance(windows, Count):
            return self._then(CountWindows(name, policy, found, windows.values))
        if isinstance(windows, Session) and found.join is None:
            raise GraphError(f"{where}: sessions can grow together; the aggregation needs combine")
        return self._then(TimeWindows(name, policy, found, windows, self._delay, self._late, self._lag))

    def collect(
        self,
        function: Callable[[Any, Sequence[T], W], U | None],
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> "KeyedFlow[U]":
        """What a function makes of a key, all values of a window in the order in which they came, and the `Window`."""
        return self.aggregate(_lists, output=function, name=name, on_error=on_error)


def windowed(
    draft: Draft,
    windows: Grid | Session | Count,
    delay: timedelta | str | None,
    late: Late,
    lag: int,
    then: "Callable[[Step], KeyedFlow[Any]]",
) -> Windowed[Any, Any]:
    """Values in windows, once what was given makes sense.

    Raises:
        GraphError: it does not.
    """
    where = f"pipeline {draft.name}: a window"
    if not isinstance(windows, (Grid, Session, Count)):
        raise GraphError(f"{where} is tumbling(...), sliding(...), session(...) or count_window(...), and not {windows!r}")
    if isinstance(windows, Count) and (delay is not None or late is not Late.DROP):
        raise GraphError(f"{where} that counts values waits for none, and none is late: leave out delay and late")
    allowed = 0 if delay is None else span(delay, f"{where}'s delay", least=0)
    return Windowed(draft, windows, allowed, late, lag, then)
