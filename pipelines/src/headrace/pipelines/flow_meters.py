"""The steps of a flow that count its values for operators."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from sys import float_info
from typing import Any, Self, TypeVar

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.flow_outputs import Outputs
from headrace.pipelines.steps.meters import Meter
from headrace.pipelines.steps.step import OnError

MAX_VALUES = 100
"""How many values a label may have."""
MAX_BOUNDS = 50
"""How many buckets a histogram may have."""
T_co = TypeVar("T_co", covariant=True)


class Metered(Outputs[T_co]):
    """The steps that count values, and pass them on."""

    def counter(
        self,
        name: str,
        amount: Callable[[T_co], int] | None = None,
        *,
        by: Callable[[T_co], str | None] | None = None,
        values: Sequence[str] = (),
        on_error: OnError | None = None,
    ) -> Self:
        """Counts the values in metrics, status and console, and passes them on. A flow may also end here.

        Each value counts once, with the commit of its micro-batch, whatever is killed when. Counts are kept in the checkpoint,
        under the name.

        Args:
            name: The name of the counter, and of the step.
            amount: Returns how much a value counts for: a whole number of at least 0. By default, 1.
            by: Returns the value of the label `value`, such as a country. A value for which it returns None is not counted.
            values: The values that it may return, at most 100. Others count as "other".
            on_error: The policy for values for which a function raises or returns anything else.

        Raises:
            GraphError: A parameter is invalid.
        """
        where = self._place(name, "counter")
        if amount is not None:
            check.function(where, "amount", amount, "value", instead_of_yield="return a whole number")
        return self._metered(where, name, amount, by, values, None, on_error)

    def histogram(
        self,
        name: str,
        of: Callable[[T_co], float | None],
        bounds: Sequence[float],
        *,
        by: Callable[[T_co], str | None] | None = None,
        values: Sequence[str] = (),
        on_error: OnError | None = None,
    ) -> Self:
        """Counts numbers by size in metrics, status and console, and passes the values on. A flow may also end here.

        Each value counts once, as in a `counter`. If the bounds change, the histogram begins anew.

        Args:
            name: The name of the histogram, and of the step.
            of: Returns the number of a value; None to not count it.
            bounds: The upper bounds of the buckets, at most 50, the smallest one first. Larger numbers have one of their own.
            by: As of `counter`.
            values: As of `counter`.
            on_error: The policy for values for which a function raises or returns anything else.

        Raises:
            GraphError: A parameter is invalid.
        """
        where = self._place(name, "histogram")
        check.function(where, "of", of, "value", instead_of_yield="return a number")
        return self._metered(where, name, of, by, values, _bounds(where, bounds), on_error)

    def _place(self, name: Any, method: str) -> str:
        if name is None:
            raise GraphError(f"pipeline {self._builder.name}, {method}(...): name is the text that metrics show, not None")
        return self._builder.where(name, None, method)

    def _metered(
        self, where: str, name: str, number: Any, by: Any, values: Any, bounds: tuple[float, ...] | None, on_error: Any
    ) -> Self:
        builder = self._builder
        meter = Meter(name, builder.policy(where, on_error), number, by, _values(where, by, values), bounds)
        builder.name_for(name, name)
        return type(self)(builder, builder.add(meter, self._number))


def _values(where: str, by: Any, values: Any) -> tuple[str, ...]:
    """Returns the values of a label.

    Raises:
        GraphError: They are invalid, or there is no function that returns them.
    """
    found = check.texts(where, "values", values)
    if by is None:
        if found:
            raise GraphError(f"{where}: values are what by returns, and there is none: pass by, or remove values")
        return ()
    check.function(where, "by", by, "value", instead_of_yield="return one text")
    if not 1 <= len(found) <= MAX_VALUES or len(set(found)) < len(found):
        raise GraphError(f"{where}: values are 1 to {MAX_VALUES} different texts that by returns, not {check.excerpt(values)}")
    for value in found:
        check.step_name(f"{where}, values", value)
    return found


def _bounds(where: str, value: Any) -> tuple[float, ...]:
    """Returns the upper bounds of buckets.

    Raises:
        GraphError: They are none.
    """
    numbers = value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else ()
    sound = all(isinstance(one, (int, float)) and not isinstance(one, bool) and abs(one) <= float_info.max for one in numbers)
    found = tuple(map(float, numbers)) if sound else ()
    if not 1 <= len(found) <= MAX_BOUNDS or any(after <= before for before, after in pairwise(found)):
        raise GraphError(f"{where}: bounds are 1 to {MAX_BOUNDS} numbers, the smallest one first, not {check.excerpt(value)}")
    return found
