"""Adds the steps that divide values among flows to the graph of a pipeline."""

from collections.abc import Callable, Iterable
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.build import own_name
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.steps.split import Part, Split
from headrace.pipelines.steps.step import OnError


def split_into(
    builder: GraphBuilder,
    number: int,
    method: str,
    function: Callable[[Any], str | None],
    parameter: str,
    names: Iterable[str],
    name: str | None,
    on_error: OnError | None,
) -> dict[str, int]:
    """Adds the steps after a step; returns the number of each flow's step, by its name.

    Args:
        builder: Collects the steps.
        number: The step.
        method: The method that adds them.
        function: Returns the name of a value's flow.
        parameter: The parameter with the names.
        names: The names of the flows.
        name: The step's name.
        on_error: The policy for values for which the function raises, or returns no such name.

    Raises:
        GraphError: A parameter is invalid.
    """
    made = own_name(function) or method.replace("_", "")
    where = builder.where(name, made, method)
    check.function(where, "function", function, "value", instead_of_yield="return the name of one flow")
    found = check.texts(where, parameter, names)
    if not found or len(set(found)) < len(found):
        raise GraphError(f"{where}: {parameter} is a list of different names, not {check.excerpt(names)}")
    for one in found:
        check.step_name(f"{where}, {parameter}", one)
    policy = builder.policy(where, on_error)
    split = builder.add(Split(builder.name_for(name, made), policy, function, found), number)
    before = builder.name_of(split)
    return {one: builder.add(Part(builder.name_for(None, f"{before}-{one}"), policy, one), split) for one in found}
