"""Adds the steps that await async functions to the graph of a pipeline."""

from datetime import timedelta
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.build import own_name
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.steps.async_map import AsyncMap
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import span

MAX_CONCURRENCY, MAX_RETRIES = 10_000, 100


def mapped_async(
    builder: GraphBuilder,
    number: int,
    function: Any,
    concurrency: int,
    timeout: timedelta | str,
    retries: int,
    setup: Any,
    name: str | None,
    on_error: OnError | None,
) -> int:
    """Adds the step after another one, and returns its number.

    Raises:
        GraphError: A parameter is invalid, or another step has the name.
    """
    made = own_name(function) or "mapasync"
    where = builder.where(name, made, "map_async")
    check.async_function(where, "function", function, "value", "call")
    if setup is not None:
        check.maker(where, "setup", setup)
    if not 1 <= check.whole(where, "concurrency", concurrency) <= MAX_CONCURRENCY:
        raise GraphError(f"{where}: concurrency must be from 1 to {MAX_CONCURRENCY:,}, and is {concurrency}")
    if not 0 <= check.whole(where, "retries", retries) <= MAX_RETRIES:
        raise GraphError(f"{where}: retries must be from 0 to {MAX_RETRIES}, and is {retries}")
    timeout_s = span(timeout, f"{where}: timeout") / 1_000_000
    policy = builder.policy(where, on_error)
    step = AsyncMap(builder.name_for(name, made), policy, function, setup, concurrency, timeout_s, retries)
    return builder.add(step, number)
