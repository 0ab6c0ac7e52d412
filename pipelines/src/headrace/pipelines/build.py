"""Builds steps from the user's functions, and rejects invalid ones."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.steps.aggregation import Aggregation, Functions, Window, checked, functions_of
from headrace.pipelines.steps.contextual import Contextual
from headrace.pipelines.steps.stateful import Stateful, StatefulFlat, listed
from headrace.pipelines.steps.step import OnError, Step
from headrace.pipelines.time.time import span

_ONE_RESULT = "return one result, such as a list"


def stateful_step(
    where: str,
    on_error: OnError,
    flat: bool,
    function: Callable[..., Any],
    make: Callable[[], Any],
    on_timer: Callable[..., Any] | None,
    ttl: timedelta | str | None,
    clock_every: timedelta | str | None,
    lag: int,
) -> Callable[[str], Step]:
    """Returns the step that calls a function with each value and the state of its key, as a function of its name.

    Raises:
        GraphError: The state, the function or the parameters are invalid; `where` names the step.
    """
    check_state(where, make)
    how = None if flat else "use stateful_flat"
    check.function(where, "function", function, instead_of_yield=how)
    wants_context = _wants_context(where, function)
    check.function(where, "function", function, "value", "state", *(["context"] if wants_context else []))
    if on_timer is not None:
        check.function(where, "on_timer", on_timer, "state", "context", instead_of_yield=how)
    if on_timer is not None and not wants_context:
        raise GraphError(f"{where}: on_timer is never called: to set timers, the function needs a third parameter, the context")
    if on_timer is None and clock_every is not None:
        raise GraphError(f"{where}: clock_every has no effect without on_timer, which timers by the clock call; remove it")
    if not wants_context and ttl is None:
        kind, called = (StatefulFlat, listed(function)) if flat else (Stateful, function)
        return lambda name: kind(name, on_error, called, make)
    with_context = function if wants_context else lambda value, state, context: function(value, state)
    lives = None if ttl is None else span(ttl, f"{where}: ttl")
    every = None if clock_every is None else span(clock_every, f"{where}: clock_every")
    return lambda name: Contextual(name, on_error, with_context, make, flat, on_timer, lives, lag, every)


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
        GraphError: Neither or both are given, or one is invalid; `where` names the step.
    """
    if output is not None:
        check.function(where, "output", output, "key", "accumulator", "window", instead_of_yield=_ONE_RESULT)
    if aggregation is None:
        return _of_functions(where, initial, update, combine, output)
    if not isinstance(aggregation, Aggregation):
        raise GraphError(f"{where}: aggregation: {check.excerpt(aggregation)} is not an Aggregation, such as count()")
    if initial is not None or update is not None or combine is not None:
        raise GraphError(f"{where}: pass either an Aggregation or functions; only output= is allowed with both")
    _check_methods(where, aggregation)
    return functions_of(aggregation, output)


def _check_methods(where: str, aggregation: Aggregation[Any, Any, Any]) -> None:
    """Checks the methods of an application's own aggregation."""
    if isinstance(aggregation, Functions):
        return
    name = type(aggregation).__name__
    _check_functions(where, f"{name}.", aggregation.initial, aggregation.update, aggregation.combine)
    check.function(
        where, f"{name}.output", aggregation.output, "key", "accumulator", "window", instead_of_yield="return one result"
    )


def _check_functions(where: str, of: str, initial: Any, update: Any, combine: Any) -> Any:
    """Checks the functions of accumulators; returns a new accumulator."""
    made = check.factory(where, f"{of}initial", initial)
    for parameter, function, called_with in (("update", update, "value"), ("combine", combine, "accumulator")):
        if function is not None or parameter == "update":
            instead = "return the accumulator"
            check.function(where, of + parameter, function, "accumulator", called_with, instead_of_yield=instead)
    return made


def _of_functions(where: str, initial: Any, update: Any, combine: Any, output: Any) -> Functions:
    """Returns an aggregation that consists of the user's functions."""
    if initial is None or update is None:
        raise GraphError(f"{where}: pass an Aggregation, or functions: initial=list, update=..., output=...")
    empty = _check_functions(where, "", initial, update, combine)
    return checked(initial, update, output, combine, empty)


def check_state(where: str, make: Callable[[], Any]) -> None:
    """Checks the function that makes states.

    Raises:
        GraphError: It is invalid, or a state cannot be changed; `where` names the step.
    """
    made = check.factory(where, "state", make)
    if isinstance(made, (int, float, complex, str, bytes, tuple, frozenset, type(None))):
        raise GraphError(
            f"{where}: a state of type {type(made).__name__} is immutable; pass a class, or a function that returns a list, "
            "dict or set"
        )


def _wants_context(where: str, function: Callable[..., Any]) -> bool:
    """Whether a function has a third parameter, for the context."""
    try:
        own = inspect.signature(function, follow_wrapped=False).parameters.values()
        # A decorator that passes on any arguments does not say what the function takes.
        passes_on = any(p.kind is p.VAR_POSITIONAL for p in own)
        parameters = inspect.signature(function).parameters.values() if passes_on else own
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    some = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(required) > 3 or (len(positional) < 2 and not some):
        raise GraphError(f"{where}: a stateful function takes (value, state) or (value, state, context)")
    return len(required) == 3 or (len(positional) > 2 and positional[2].name == "context")


def own_name(function: Any) -> str | None:
    """The name of a function; None for lambdas and other objects."""
    name: str | None = getattr(function, "__name__", None)
    return name if name != "<lambda>" and inspect.isroutine(function) else None
