"""Adds sources to the graph of a pipeline."""

from datetime import timedelta
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.expressions import Condition
from headrace.pipelines.formats import Format, judges
from headrace.pipelines.formats._contract import Given
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.steps.stateless import Filter, Source
from headrace.pipelines.steps.step import OnError
from headrace.pipelines.time.time import span


def added_source(
    builder: GraphBuilder,
    streams: str,
    decode: Any,
    *,
    idle_after: timedelta | str | None,
    max_ahead: timedelta | str | None,
    await_streams: int | None,
    await_time: timedelta | str | None,
    contract: Given | None = None,
    where: str | None = None,
    name: str | None,
    on_error: OnError | None,
    bootstrap: bool = False,
) -> int:
    """Adds a source, and the filter of its condition, and returns the number of the last step.

    Raises:
        GraphError: A parameter is invalid, another step has the name, or the pipeline already runs.
    """
    place = builder.where(name, None, "source").replace(", step ", ", source ")
    patterns = check.patterns(place, streams)
    place = f"pipeline {builder.name}, source {name or patterns[0]}"
    found = {} if contract is None else judges(place, decode, contract)
    if isinstance(decode, Format):
        decode = decode.decoder()
    elif decode is not None:
        check.function(place, "decode", decode, "payload", instead_of_yield="yield in a flat_map after the source")
    idle = None if idle_after is None else span(idle_after, f"{place}: idle_after")
    ahead = None if max_ahead is None else span(max_ahead, f"{place}: max_ahead", least=0)
    awaited = None if await_streams is None else check.count(place, "await_streams", await_streams)
    time = None if await_time is None else span(await_time, f"{place}: await_time")
    if bootstrap and time is not None:
        raise GraphError(
            f"{place}: await_time lets event time begin before the table is read, which bootstrap=True awaits; remove one of them"
        )
    policy = builder.policy(place, on_error)
    condition = None if where is None else _condition(place, where, is_decoded=decode is not None)
    made = builder.name_for(name, patterns[0])
    step = Source(made, policy, patterns, decode, idle, ahead, awaited, time, found, bootstrap)
    number = builder.add(step)
    if condition is not None:
        number = builder.add(Filter(builder.name_for(None, f"{step.name}-where"), policy, condition), number)
    return number


def _condition(place: str, text: str, *, is_decoded: bool) -> Condition:
    """Returns the condition of a source.

    Raises:
        GraphError: It is invalid, or the source has no decoder.
    """
    if not isinstance(text, str):
        raise GraphError(f"{place}: where is an expression in CEL, such as 'value.amount > 10', not {check.excerpt(text)}")
    if not is_decoded:
        raise GraphError(f"{place}: where needs decode: an expression knows no fields of bytes")
    try:
        return Condition(text)
    except GraphError as error:
        raise GraphError(f"{place}: where: {error}") from error
