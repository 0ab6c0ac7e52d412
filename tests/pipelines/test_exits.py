"""Functions that leave in other ways than by returning or raising an `Exception`: each is named, and follows the policy."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.pipelines import Flow, Message, OnError, Pipeline, StepError, Trial, tumbling


class Aborted(BaseException):
    """Not an `Exception`, as test runners and event loops raise."""


class Mute(Exception):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def leave() -> None:
    sys.exit("the function gives up")


def end_iteration() -> None:
    next(iter(()))


def raising(error: type[BaseException], *arguments: object) -> Callable[[], None]:
    def function() -> None:
        raise error(*arguments)

    return function


LEAVING = [
    (leave, "SystemExit: the function gives up"),
    (raising(SystemExit, 3), "SystemExit: 3"),
    (end_iteration, "StopIteration: "),
    (raising(GeneratorExit), "GeneratorExit: "),
    (raising(asyncio.CancelledError), "CancelledError: "),
    (raising(Aborted, "of another kind"), "Aborted: of another kind"),
    (raising(Mute), r"Mute: \(its text cannot be read: __str__ raises RuntimeError\)"),
    (raising(ValueError, "\ud800"), r"ValueError: \\ud800"),
]


def at_seven(leave: Callable[[], None], result: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
    """A function that leaves at the value 7."""

    def function(*arguments: Any) -> Any:
        if any(type(argument) is int and argument == 7 for argument in arguments):
            leave()
        return result(arguments[0])

    return function


STEPS: dict[str, Callable[[Flow[int], Callable[[], None]], Flow[Any]]] = {
    "map": lambda numbers, leave: numbers.map(at_seven(leave), name="step"),
    "filter": lambda numbers, leave: numbers.filter(at_seven(leave, lambda _: True), name="step"),
    "flat_map": lambda numbers, leave: numbers.flat_map(at_seven(leave, lambda value: [value]), name="step"),
    "event_time": lambda numbers, leave: numbers.event_time(at_seven(leave), name="step"),
    "key_by": lambda numbers, leave: numbers.key_by(at_seven(leave), name="step").map(lambda value: value, name="after"),
    "stateful": lambda numbers, leave: numbers.key_by(lambda _: 0).stateful(at_seven(leave), list, name="step"),
    "stateful with a context": lambda numbers, leave: (
        numbers.event_time(lambda value: value, name="time")
        .key_by(lambda _: 0)
        .stateful(lambda value, state, context: at_seven(leave)(value), list, ttl="1 s", name="step")
    ),
    "aggregate": lambda numbers, leave: numbers.key_by(lambda _: 0).aggregate(
        initial=list, update=lambda state, value: at_seven(leave, lambda _: state)(value), name="step"
    ),
    "window": lambda numbers, leave: (
        numbers.event_time(lambda value: value, name="time")
        .key_by(lambda _: 0)
        .window(tumbling("1 s"))
        .aggregate(initial=list, update=lambda state, value: at_seven(leave, lambda _: state)(value), name="step")
    ),
}


def application(step: str, leave: Callable[[], None], on_error: OnError) -> Pipeline:
    app = Pipeline("exits", on_error=on_error)
    STEPS[step](app.source("n/*", decode=int), leave).sink("out", encode=lambda value: str(value).encode())
    return app


def numbers(*values: int) -> list[Message]:
    return [Message(b"%d" % value, stream="n/0") for value in values]


@pytest.mark.parametrize(("leave", "said"), LEAVING, ids=[said.partition(":")[0] for _, said in LEAVING])
@pytest.mark.parametrize("step", STEPS)
def test_whatever_a_function_raises_names_the_step_the_stream_and_the_message(
    step: str, leave: Callable[[], None], said: str
) -> None:
    with pytest.raises(StepError, match=f"pipeline exits, step step(, key 0)?, stream n/0, sequence 2: {said}"):
        Trial(application(step, leave, OnError.FAIL)).send(*numbers(6, 7, 8))


@pytest.mark.parametrize("step", STEPS)
def test_a_function_that_calls_exit_follows_the_policy_of_its_step(step: str) -> None:
    trial = Trial(application(step, leave, OnError.SKIP))
    trial.send(*numbers(6, 7, 8))
    assert trial.counts["skipped", "step"] == 1


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupt_by_the_user_is_passed_on_whatever_the_policy(step: str) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        Trial(application(step, raising(KeyboardInterrupt), OnError.SKIP)).send(*numbers(6, 7, 8))
    (note,) = raised.value.__notes__
    assert note.startswith("pipeline exits, step step")
    assert note.endswith("stream n/0, sequence 2 was being processed")


def test_a_function_that_calls_exit_where_no_policy_applies_is_named() -> None:
    is_built = False

    def make() -> list[int]:
        if is_built:
            leave()
        return []

    app = Pipeline("exits", on_error=OnError.SKIP)
    keyed = app.source("n/*", decode=int).key_by(lambda _: 0, name="all")
    keyed.stateful(lambda value, state: 0, make, name="step").sink("out", encode=lambda value: b"")
    trial = Trial(app)
    is_built = True
    with pytest.raises(StepError, match="pipeline exits, step step, stream n/0: SystemExit: the function gives up"):
        trial.send(*numbers(6))
