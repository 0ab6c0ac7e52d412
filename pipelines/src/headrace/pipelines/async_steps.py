"""Adds the steps that await async functions to the graph of a pipeline."""

from datetime import timedelta
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.build import own_name
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.steps.async_map import AsyncMap, Caching
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import span

MAX_CONCURRENCY, MAX_RETRIES = 10_000, 100


def mapped_async(
    builder: GraphBuilder,
    number: int,
    function: Any,
    *,
    concurrency: int,
    timeout: timedelta | str,
    retries: int,
    setup: Any,
    teardown: Any,
    cache_by: Any,
    cache_ttl: timedelta | str,
    cache_size: int,
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
    if teardown is not None:
        check.taker(where, "teardown", teardown, "client")
        if setup is None:
            raise GraphError(f"{where}: teardown has no effect without setup, whose client it gets; remove it")
    ttl_s = span(cache_ttl, f"{where}: cache_ttl") / 1_000_000
    size = check.count(where, "cache_size", cache_size)
    if cache_by is not None:
        check.function(where, "cache_by", cache_by, "value", instead_of_yield="return a key, such as a tuple")
    calls = check.count(where, "concurrency", concurrency, most=MAX_CONCURRENCY)
    again = check.count(where, "retries", retries, least=0, most=MAX_RETRIES)
    timeout_s = span(timeout, f"{where}: timeout") / 1_000_000
    policy = builder.policy(where, on_error)
    caching = None if cache_by is None else Caching(cache_by, ttl_s, size)
    step = AsyncMap(builder.name_for(name, made), policy, function, setup, teardown, caching, calls, timeout_s, again)
    return builder.add(step, number)
