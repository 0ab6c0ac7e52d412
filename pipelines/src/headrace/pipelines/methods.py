"""The methods of flows that add a step with a function, and what is true of each function."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines.build import own_name
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.steps.columnar import MapColumns
from headrace.pipelines.steps.headers import MapWithHeaders, SetHeaders
from headrace.pipelines.steps.stateless import EventTime, Filter, FlatMap, KeyBy, Map
from headrace.pipelines.steps.step import OnError, Step
from headrace.pipelines.time.time import TimeUnit


@dataclass(frozen=True)
class Method:
    """A method that adds a step with a function.

    Attributes:
        name: The name of the method.
        kind: The class of the step.
        called_with: The names of the arguments of the function.
        instead_of_yield: What to do with a function that yields; None if it may yield.
    """

    name: str
    kind: Callable[[str, OnError, Any], Step]
    called_with: tuple[str, ...] = ("value",)
    instead_of_yield: str | None = "use flat_map"

    def step(self, builder: GraphBuilder, function: Any, name: str | None, on_error: OnError | None) -> Step:
        """Returns the step.

        Raises:
            GraphError: A parameter is invalid, or another step has the name.
        """
        made = own_name(function) or self.name.replace("_", "")
        where = builder.where(name, made, self.name)
        if function is not None or self is not KEY_BY:
            check.function(where, "function", function, *self.called_with, instead_of_yield=self.instead_of_yield)
        policy = builder.policy(where, on_error)
        return self.kind(builder.name_for(name, made), policy, function)


MAP = Method("map", Map)
FLAT_MAP = Method("flat_map", FlatMap, instead_of_yield=None)
FILTER = Method("filter", Filter, instead_of_yield="return True or False")
MAP_WITH_HEADERS = Method("map_with_headers", MapWithHeaders, ("value", "headers"), "return one result, such as a list")
SET_HEADERS = Method("set_headers", SetHeaders, ("value", "headers"), None)
KEY_BY = Method("key_by", KeyBy, instead_of_yield="return a key, such as a tuple")


def event_time(builder: GraphBuilder, unit: TimeUnit | None, name: str | None) -> Method:
    """Returns the method `event_time`.

    Raises:
        GraphError: The unit is not one.
    """
    if unit is not None:
        check.member(builder.where(name, None, "event_time"), "unit", unit, TimeUnit)
    return Method("event_time", partial(EventTime, unit=unit), instead_of_yield="return a datetime")


def map_columns(headers: bool) -> Method:
    """Returns the method `map_columns`."""
    return Method("map_columns", partial(MapColumns, headers=headers), ("batch",), "return a record batch")
