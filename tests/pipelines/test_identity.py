"""Why a result has no identity made of the message that it comes from: which message that is depends on the order of streams.

After a fault, messages of several streams may be processed in another order. See docs/internals/decisions, "Real time is
a micro-batch computed ahead".
"""

from collections import defaultdict
from typing import NamedTuple

import pytest
from tests.pipelines.rig import keyed, message, pipeline, read, text

from headrace.pipelines import KeyedFlow, Pipeline, Trial, Window, collect, tumbling

MESSAGES = {"s/0": ["a@1=1", "b@3=2", "a@35=3"], "s/1": ["a@2=4", "a@15=5", "a@45=6"]}


class Result(NamedTuple):
    """What a message lets out: the message's stream and number in it, the result's number in what that message lets out."""

    stream: str
    sequence: int
    index: int
    value: str


def windows() -> Pipeline:
    app = pipeline()
    keyed(app).window(tumbling("10s")).aggregate(collect(), output=show).sink("out")
    return app


def show(key: object, numbers: list[int], window: Window | None) -> str:
    return f"{key}: {sorted(numbers)}"


def pairs() -> Pipeline:
    app = pipeline()
    KeyedFlow.map(read(app).key_by(lambda _: "all"), lambda value: value.number).stateful(pair, list).sink("out", encode=text)
    return app


def pair(number: int, state: list[int]) -> list[int] | None:
    state.append(number)
    return state[-2:] if len(state) % 2 == 0 else None


def processed(app: Pipeline, order: list[str]) -> list[Result]:
    """The results of messages that are processed one by one: the next of these streams."""
    trial, next_of, found = Trial(app), defaultdict(int), list[Result]()
    for stream in order:
        before = len(trial.written["out"])
        trial.send(message(MESSAGES[stream][next_of[stream]], stream))
        new = trial.written["out"][before:]
        found += [Result(stream, next_of[stream], index, written.value.decode()) for index, written in enumerate(new)]
        next_of[stream] += 1
    return found


def not_dropped(delivered: list[Result], again: list[Result]) -> list[Result]:
    """What passes a sink that drops each result up to the highest of its stream that was delivered."""
    marks: dict[str, tuple[int, int]] = {}
    for result in delivered:
        marks[result.stream] = max(marks.get(result.stream, (-1, -1)), (result.sequence, result.index))
    return [result for result in again if (result.sequence, result.index) > marks.get(result.stream, (-1, -1))]


def test_the_same_result_comes_from_another_message_in_another_order() -> None:
    one, other = (processed(windows(), order.split()) for order in ("s/0 s/1 s/0 s/1 s/0", "s/0 s/1 s/0 s/0 s/1"))
    assert [result.value for result in one] == [result.value for result in other] == ["a: [1, 4]", "b: [2]"]
    assert {result[:2] for result in one} == {("s/0", 2)}
    assert {result[:2] for result in other} == {("s/1", 1)}


@pytest.mark.parametrize(
    ("app", "delivered", "repeated", "lost"),
    [
        (windows(), "s/0 s/1 s/0 s/1 s/0", "s/0 s/1 s/0 s/1 s/1 s/0", "a: [5]"),
        (pairs(), "s/1 s/0 s/1 s/0", "s/0 s/0 s/1 s/1", "[1, 2]"),
    ],
    ids=["windows", "pairs"],
)
def test_a_high_water_mark_would_drop_what_was_never_delivered(app: Pipeline, delivered: str, repeated: str, lost: str) -> None:
    first, second = processed(app, delivered.split()), processed(app, repeated.split())
    reached = {result.value for result in first + not_dropped(first, second)}
    assert {result.value for result in second} - reached == {lost}
