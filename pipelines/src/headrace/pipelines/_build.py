"""Builds steps from the user's functions, and rejects invalid ones."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headrace.pipelines._errors import GraphError
from headrace.pipelines.steps._aggregation import Aggregation, Functions, Window, functions_of
from headrace.pipelines.steps._contextual import Contextual
from headrace.pipelines.steps._stateful import Stateful, StatefulFlat, listed
from headrace.pipelines.steps._step import OnError, Step
from headrace.pipelines.time._time import span


def stateful_step(
    where: str,
    name: str,
    on_error: OnError,
    flat: bool,
    function: Callable[..., Any],
    make: Callable[[], Any],
    on_timer: Callable[..., Any] | None,
    ttl: timedelta | str | None,
    lag: int,
) -> Step:
    """Returns the step that calls a function with each value and the state of its key.

    Raises:
        GraphError: The state, the function or the parameters are invalid; `where` names the step.
    """
    _check_state(where, make)
    wants_context = _wants_context(where, function)
    if on_timer is not None and not wants_context:
        raise GraphError(f"{where}: on_timer is never called: to set timers, the function needs a third parameter, the context")
    if not wants_context and ttl is None:
        return StatefulFlat(name, on_error, listed(function), make) if flat else Stateful(name, on_error, function, make)
    with_context = function if wants_context else lambda value, state, context: function(value, state)
    lives = None if ttl is None else span(ttl, f"{where}: ttl")
    return Contextual(name, on_error, with_context, make, flat, on_timer, lives, lag)


def aggregation_of(
    where: str,
    aggregation: Aggregation[Any, Any, Any] | None,
    initial: Callable[[], Any] | None,
    update: Callable[[Any, Any], Any] | None,
    combine: Callable[[Any, Any], Any] | None,
    output: Callable[[Any, Any, Window | None], Any] | None,
) -> Functions:
    """Returns the aggregation of a step, from an `Aggregation` or from functions.

    Raises:
        GraphError: Neither or both are given; `where` names the step.
    """
    if aggregation is None:
        if not callable(initial) or not callable(update):
            raise GraphError(f"{where}: pass an Aggregation, or functions: initial=list, update=..., output=...")
        return Functions(initial, update, output or (lambda key, accumulator, window: accumulator), combine)
    if not isinstance(aggregation, Aggregation):
        raise GraphError(f"{where}: {aggregation!r} is not an Aggregation, such as count()")
    if initial is not None or update is not None or combine is not None:
        raise GraphError(f"{where}: pass either an Aggregation or functions; only output= is allowed with both")
    return functions_of(aggregation, output)


def _check_state(where: str, make: Callable[[], Any]) -> None:
    made = make() if callable(make) else make
    if not callable(make) or isinstance(made, (int, float, complex, str, bytes, tuple, frozenset, type(None))):
        raise GraphError(
            f"{where}: a state of type {type(made).__name__} is immutable; pass a class, or a function that returns a list, "
            "dict or set"
        )


def _wants_context(where: str, function: Callable[..., Any]) -> bool:
    """Whether a function has a third parameter, for the context."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    some = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(required) > 3 or (len(positional) < 2 and not some):
        raise GraphError(f"{where}: a stateful function takes (value, state) or (value, state, context)")
    return len(required) == 3 or (len(positional) > 2 and positional[2].name == "context")
