"""Aggregations of the values of a key."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar, overload

from headrace.pipelines import arguments as check
from headrace.pipelines.elements.message import moment
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.extremes import larger, smaller
from headrace.pipelines.steps.returned import accumulating, present

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Addable(Protocol):
    """What can be added to 0: numbers."""

    def __radd__(self, other: int, /) -> Any:
        """Returns the sum."""


N = TypeVar("N", bound=Addable)


@dataclass(frozen=True, slots=True)
class Window:
    """A span of event time.

    Attributes:
        start: Its start (inclusive), in microseconds since 1970-01-01 UTC.
        end: Its end (exclusive), in microseconds since 1970-01-01 UTC.
        is_early: Whether its result is an early one, while more values may come.
    """

    start: int
    end: int
    is_early: bool = False

    @property
    def start_time(self) -> datetime:
        """The start, as a datetime in UTC."""
        return moment(self.start)

    @property
    def end_time(self) -> datetime:
        """The end, as a datetime in UTC."""
        return moment(self.end)


class Aggregation(ABC, Generic[T_contra, A, R_co]):
    """Aggregates the values of a key into one result, with an accumulator.

    ```python
    class Largest(Aggregation):
        def initial(self):
            return 0

        def update(self, accumulator, value):
            return max(accumulator, value)

        def output(self, key, accumulator, window):
            return f"{key} {accumulator}"
    ```

    Accumulators are stored like states, so they must be plain data or instances of ordinary classes.
    """

    @abstractmethod
    def initial(self) -> A:
        """Returns a new accumulator, without values."""

    @abstractmethod
    def update(self, accumulator: A, value: T_contra) -> A:
        """Returns the accumulator with another value: the same one, changed, or a new one."""

    def combine(self, first: A, second: A) -> A:
        """Returns the accumulator of the values of two. Only session windows need it, when sessions merge.

        Raises:
            NotImplementedError: The class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no combine, which session windows need")

    @abstractmethod
    def output(self, key: Any, accumulator: A, window: Window | None) -> R_co | None:
        """Returns the result, or None for no result. `window` is None without windows, and for windows that count values."""


@dataclass(frozen=True)
class Functions(Aggregation[Any, Any, Any]):
    """An aggregation that consists of functions, which steps call directly."""

    make: Callable[[], Any]
    step: Callable[[Any, Any], Any]
    finish: Callable[[Any, Any, Window | None], Any]
    join: Callable[[Any, Any], Any] | None = None
    convert: Callable[[Any, Any, Window | None], Any] | None = None
    is_exact: Callable[[Any], bool] | None = None
    """Whether an accumulator is the same in whichever order its values were added; None if every one is."""
    shows_order: bool = False
    """Whether results show the order in which values were added."""
    keeps: str = "your accumulator"
    """What an accumulator contains, in words."""

    def initial(self) -> Any:
        """Calls `make`."""
        return self.make()

    def update(self, accumulator: Any, value: Any) -> Any:
        """Calls `step`."""
        return self.step(accumulator, value)

    def combine(self, first: Any, second: Any) -> Any:
        """Calls `join`."""
        return super().combine(first, second) if self.join is None else self.join(first, second)

    def output(self, key: Any, accumulator: Any, window: Window | None) -> Any:
        """Calls `finish`, and `convert` with its result, if there is one."""
        found = self.finish(key, accumulator, window)
        return found if self.convert is None else self.convert(key, found, window)

    def result(self, key: Any, accumulator: Any) -> Any:
        """The result for an accumulator that stays a state, which a change of the result does not change."""
        found = copied(self.finish(key, accumulator, None))
        return found if self.convert is None else self.convert(key, found, None)


def functions_of(aggregation: Aggregation[Any, Any, Any], output: Callable[[Any, Any, Window | None], Any] | None) -> Functions:
    """Returns the functions of an aggregation. `output`, if given, converts its results."""
    if isinstance(aggregation, Functions):
        found = aggregation
    else:
        joins = type(aggregation).combine is not Aggregation.combine
        combine = aggregation.combine if joins else None
        found = checked(aggregation.initial, aggregation.update, aggregation.output, combine, aggregation.initial())
    if output is None:
        return found
    return replace(found, convert=lambda key, result, window: present(output(key, result, window)))


def checked(
    initial: Callable[[], Any],
    update: Callable[[Any, Any], Any],
    output: Callable[[Any, Any, Window | None], Any] | None,
    combine: Callable[[Any, Any], Any] | None,
    empty: Any,
) -> Functions:
    """Returns functions of an application that check what it returns. `empty` is a new accumulator."""
    finish = as_it_is if output is None else lambda key, accumulator, window: present(output(key, accumulator, window))
    joins = None if combine is None else accumulating(combine, "combine", empty)
    return Functions(initial, accumulating(update, "update", empty), finish, joins)


def count() -> Aggregation[Any, int, int]:
    """Counts the values."""
    return Functions(int, lambda n, _: n + 1, as_it_is, lambda a, b: a + b, keeps="a number")


@overload
def total(of: None = None) -> Aggregation[N, Any, N]: ...


@overload
def total(of: Callable[[T], N]) -> Aggregation[T, Any, N]: ...


def total(of: Callable[[Any], Any] | None = None) -> Aggregation[Any, Any, Any]:
    """Adds up the values, or the results of a function for each."""
    of = selector("total", of)
    return Functions(int, lambda sum_, value: sum_ + of(value), as_it_is, lambda a, b: a + b, is_exact=_is_exact, keeps="a sum")


def mean(of: Callable[[T], float] | None = None) -> Aggregation[T, tuple[float, int], float]:
    """Computes the mean of the values, or of the results of a function for each."""
    of = selector("mean", of)
    return Functions(
        lambda: (0, 0),
        lambda so_far, value: (so_far[0] + of(value), so_far[1] + 1),
        lambda key, so_far, window: so_far[0] / so_far[1],
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        is_exact=lambda so_far: _is_exact(so_far[0]),
        keeps="a sum and a number",
    )


@overload
def minimum(of: None = None) -> Aggregation[T, Any, T]: ...


@overload
def minimum(of: Callable[[T], U]) -> Aggregation[T, Any, U]: ...


def minimum(of: Callable[[Any], Any] | None = None) -> Aggregation[Any, Any, Any]:
    """Finds the smallest of the values, or of the results of a function for each.

    None counts as no value. NaN is larger than all other numbers, as in Spark SQL. The result does not depend on the order.
    """
    return _extreme(smaller, selector("minimum", of))


@overload
def maximum(of: None = None) -> Aggregation[T, Any, T]: ...


@overload
def maximum(of: Callable[[T], U]) -> Aggregation[T, Any, U]: ...


def maximum(of: Callable[[Any], Any] | None = None) -> Aggregation[Any, Any, Any]:
    """Finds the largest of the values, or of the results of a function for each.

    None counts as no value. NaN is larger than all other numbers, as in Spark SQL. The result does not depend on the order.
    """
    return _extreme(larger, selector("maximum", of))


@overload
def collect(of: None = None) -> Aggregation[T, Any, list[T]]: ...


@overload
def collect(of: Callable[[T], U]) -> Aggregation[T, Any, list[U]]: ...


def collect(of: Callable[[Any], Any] | None = None) -> Aggregation[Any, list[Any], list[Any]]:
    """Collects the values, or the results of a function for each, in a list, in the order of arrival."""
    of = selector("collect", of)
    return Functions(
        list,
        lambda values, value: _appended(values, of(value)),
        as_it_is,
        lambda a, b: a + b,
        shows_order=True,
        keeps="every value",
    )


def selector(aggregation: str, of: Callable[[T], Any] | None, parameter: str = "of") -> Callable[[T], Any]:
    """Returns the function that selects what to use of each value.

    Raises:
        GraphError: It is no such function.
    """
    if of is None:
        return _itself
    check.function(f"{aggregation}(...)", parameter, of, "value", instead_of_yield="return what to use of the value")
    return of


def _is_exact(sum_: Any) -> bool:
    """Whether a sum is one of numbers whose sums are never rounded. Floats, decimals and numbers of numpy are."""
    return type(sum_) is int or type(sum_) is Fraction


def _extreme(choose: Callable[[Any, Any], Any], of: Callable[[Any], Any]) -> Functions:
    return Functions(_nothing, lambda best, value: choose(best, of(value)), as_it_is, choose, keeps="one value")


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def as_it_is(key: Any, accumulator: Any, window: Window | None) -> Any:
    """Returns the accumulator as the result."""
    return accumulator


def _itself(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None
