"""Aggregations that summarise many values: how many are different, which are the largest, what divides them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from headrace.contract.counts import counted
from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.steps import distinct as exact
from headrace.pipelines.steps.aggregation import Aggregation, Functions, Window, selector
from headrace.pipelines.steps.quantiles import MAX_INTERVALS, Counts, Intervals, combined
from headrace.pipelines.steps.ranking import Ranking, values_of

MAX_TOP = 10_000
MIN_ACCURACY, MAX_ACCURACY = 0.0001, 0.5
T = TypeVar("T")
U = TypeVar("U")


def distinct(of: Callable[[T], Any] | None = None, *, approximate: bool = False) -> Aggregation[T, Any, int]:
    """Counts the different values, or the different results of a function for each.

    They are what can be keys: bytes, texts, numbers and tuples of these. None counts as no value. The result does not depend on
    the order.

    Args:
        of: Returns what to count of a value.
        approximate: Whether to keep a sketch of at most 4 KB for each key instead of every value. Two of three times, it is wrong
            by at most 1.6 %.

    Raises:
        GraphError: An argument is invalid.
    """
    selected = selector("distinct", of)
    if check.flag("distinct(...)", "approximate", approximate):
        sketched = lambda sketch, value: exact.sketched(sketch, selected(value))  # noqa: E731
        return Functions(dict, sketched, _estimate, exact.combined, keeps="a sketch of at most 4 KB")
    with_value = lambda values, value: exact.with_value(values, selected(value))  # noqa: E731
    return Functions(dict, with_value, _size, exact.of_both, keeps="every different value")


@overload
def top_n(n: int, by: Callable[[T], Any] | None = None, *, of: None = None) -> Aggregation[T, Any, list[T]]: ...


@overload
def top_n(n: int, by: Callable[[T], Any] | None = None, *, of: Callable[[T], U]) -> Aggregation[T, Any, list[U]]: ...


def top_n(
    n: int, by: Callable[[Any], Any] | None = None, *, of: Callable[[Any], Any] | None = None
) -> Aggregation[Any, Any, list[Any]]:
    """Finds the `n` largest values, the largest one first.

    None counts as no value. NaN is larger than all other numbers. The result does not depend on the order, if values that
    rank equally have a text of their own.

    Args:
        n: How many, at most 10,000.
        by: Returns what a value is ranked by. By default, it is the value.
        of: Returns what to keep of a value. By default, all of it.

    Raises:
        GraphError: An argument is invalid.
    """
    where = "top_n(...)"
    size = check.count(where, "n", n, most=MAX_TOP)
    kept, rank = selector("top_n", of), selector("top_n", by, "by")
    ranking = Ranking(size, rank, kept)
    return Functions(list, ranking.with_value, _values, ranking.combined, keeps=f"at most {counted(ranking.size, 'value')}")


@overload
def quantile(
    at: float, of: Callable[[T], float | None] | None = None, *, accuracy: float = 0.01
) -> Aggregation[T, Any, float]: ...


@overload
def quantile(
    at: Sequence[float], of: Callable[[T], float | None] | None = None, *, accuracy: float = 0.01
) -> Aggregation[T, Any, list[float]]: ...


def quantile(
    at: float | Sequence[float], of: Callable[[Any], float | None] | None = None, *, accuracy: float = 0.01
) -> Aggregation[Any, Any, Any]:
    """Estimates quantiles of numbers, or of the results of a function for each, with a bounded relative error.

    A quantile of `n` numbers is the one after `at * (n - 1)` smaller ones, rounded down. None counts as no number; without
    numbers, there is no result. The result does not depend on the order.

    Args:
        at: Which one, from 0 to 1: 0.5 for the median; or several of them.
        of: Returns the number of a value.
        accuracy: The largest relative error, from 0.0001 to 0.5. The state of a key has a count for each interval that its
            numbers are in: with 1 %, at most about 115 for each power of ten, and 8,192 in all.

    Raises:
        GraphError: An argument is invalid.
    """
    where = "quantile(...)"
    wanted = [_share(where, one) for one in _listed(where, at)]
    if isinstance(accuracy, bool) or not isinstance(accuracy, (int, float)) or not MIN_ACCURACY <= accuracy <= MAX_ACCURACY:
        raise GraphError(
            f"{where}: accuracy is a relative error from {MIN_ACCURACY} to {MAX_ACCURACY}, not {check.excerpt(accuracy)}"
        )
    intervals, number, is_one = Intervals(accuracy), selector("quantile", of), isinstance(at, (int, float))

    def finish(key: Any, counts: Counts, window: Window | None) -> Any:
        found = intervals.at(counts, wanted)
        return found[0] if found and is_one else found

    with_number = lambda counts, value: intervals.with_number(counts, number(value))  # noqa: E731
    return Functions(_no_counts, with_number, finish, combined, keeps=f"at most {counted(2 * MAX_INTERVALS, 'count')}")


def _listed(where: str, at: Any) -> list[Any]:
    if isinstance(at, (int, float)) and not isinstance(at, bool):
        return [at]
    if isinstance(at, (str, bytes)) or not isinstance(at, Sequence) or not at:
        raise GraphError(f"{where}: at is a number from 0 to 1, or a list of some, not {check.excerpt(at)}")
    return list(at)


def _share(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise GraphError(f"{where}: at must be from 0 to 1, and is {check.excerpt(value)}")
    return float(value)


def _no_counts() -> Counts:
    return Counts(0, {}, {})


def _size(key: Any, values: Any, window: Window | None) -> int:
    return len(values)


def _estimate(key: Any, sketch: Any, window: Window | None) -> int:
    return exact.estimate(sketch)


def _values(key: Any, ranked: Any, window: Window | None) -> list[Any]:
    return values_of(ranked)
