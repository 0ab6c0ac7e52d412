"""Steps, order, policies for functions that raise, and pipelines that cannot run."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.pipelines.rig import Value, keyed, lines, messages, pipeline, read, sent, text

from headrace.pipelines import GraphError, Message, OnError, Pipeline, StepError, Trial, Written


def test_steps_without_state() -> None:
    app = Pipeline("words")
    lines_ = app.source("text/*", decode=lambda payload: payload.decode() or None)
    words = lines_.flat_map(str.split).filter(str.isalpha).map(lambda word: word.upper() if word != "no" else None)
    words.sink("words")
    lines_.sink("lines", encode=str.encode)
    trial = Trial(app)
    trial.send(Message(b"one 2 no", stream="text/0"), Message(b"", stream="text/0"))
    assert trial.values("words") == [b"ONE"]
    assert trial.values("lines") == [b"one 2 no"]


def test_without_a_decoder_values_are_messages() -> None:
    app = Pipeline("raw")
    app.source("a/*").map(lambda message: f"{message.stream} {message.sequence} {message.value}").sink("out")
    trial = Trial(app)
    trial.send(Message(b"x", stream="a/0"), Message(None, stream="a/0"), Message(b"y", stream="a/1", sequence=7))
    assert trial.values("out") == [b"a/0 1 b'x'", b"a/0 2 None", b"a/1 7 b'y'"]


def test_the_key_of_a_message() -> None:
    app = Pipeline("keys")
    app.source("a/*", decode=bytes.decode).key_by().sink("out")
    trial = Trial(app)
    trial.send(Message(b"x", b"k", stream="a/0"), Message(b"y", stream="a/0"))
    assert trial.written["out"] == [Written(b"x", b"k"), Written(b"y", b"")]


def counting(on_error: OnError = OnError.FAIL) -> Pipeline:
    """Sums by key, which refuses numbers below zero once it has taken them."""

    def add(number: int, numbers: list[int]) -> str:
        numbers.append(number)
        if number < 0:
            raise ValueError(f"{number} is below zero")
        return f"{sum(numbers)}"

    app = pipeline(on_error)
    keyed(app).stateful(add, list).sink("out")
    return app


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_state_for_each_key(buckets: int) -> None:
    trial = sent(counting(), "a@=1 b@=2 a@=3", "b@=4", buckets=buckets)
    assert sorted(lines(trial)) == ["a 1", "a 4", "b 2", "b 6"]
    assert trial.states("add") == {"a": [1, 3], "b": [2, 4]}


def test_a_function_that_raises_fails_the_query_and_names_the_place() -> None:
    with pytest.raises(StepError, match="pipeline test, step add, key 'a', stream s/0, sequence 2: ValueError: -3 is below zero"):
        sent(counting(), "a@=1 a@=-3")


def test_what_fails_is_skipped_and_leaves_no_trace() -> None:
    trial = sent(counting(OnError.SKIP), "a@=1", "a@=2 a@=-3 b@=-1 a@=-4 a@=5 b@=1 b@=2")
    assert trial.states("add") == {"a": [1, 2, 5], "b": [1, 2]}
    assert lines(trial) == ["a 1", "a 3", "a 8", "b 1", "b 3"]


def test_what_fails_goes_to_the_dead_letters() -> None:
    trial = sent(counting(OnError.DEAD_LETTER), "a@=-3 a@=5")
    assert lines(trial) == ["a 5"]
    assert trial.failed == ["pipeline test, step add, key 'a', stream s/0, sequence 1: ValueError: -3 is below zero"]


def test_stateful_flat_gives_any_number_of_results() -> None:
    def since(number: int, numbers: list[int]) -> Any:
        yield from numbers
        numbers.append(number)

    app = pipeline()
    keyed(app).stateful_flat(since, list).sink("out", encode=text)
    assert lines(sent(app, "a@=1 a@=2 a@=3")) == ["a 1", "a 1", "a 2"]


@pytest.mark.parametrize("batches", [("a@=1 a@=2",), ("a@=1", "a@=2")])
def test_branches_of_a_stream_that_are_merged_stay_in_the_order_of_the_stream(batches: tuple[str, ...]) -> None:
    app = pipeline()
    values = read(app)
    minus = values.map(lambda value: Value(value.key, value.second, -value.number))
    flow = values.merge(minus).key_by(lambda value: value.key).map(lambda value: value.number)
    flow.stateful(lambda number, seen: seen.append(number) or str(seen), list, name="seen").sink("out")
    assert lines(sent(app, *batches))[-1] == "a [-1, 1, -2, 2]"


@pytest.mark.parametrize("batches", [("a@=1 b@=2 a@=3 c@=4",), ("a@=1 b@=2", "a@=3 c@=4")])
@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_behind_a_second_key_by_values_are_in_the_order_of_their_stream(batches: tuple[str, ...], buckets: int) -> None:
    app = pipeline()
    everything = keyed(app).stateful(lambda number, seen: number, list, name="first").key_by(lambda _: 0)
    everything.stateful(lambda number, seen: seen.append(number), list, name="all").sink("out")
    trial = sent(app, *batches, buckets=buckets)
    assert trial.states("all") == {0: [1, 2, 3, 4]}


def test_pipelines_that_cannot_run() -> None:
    def refused(match: str, build: Callable[[Pipeline], object]) -> None:
        def run() -> None:
            app = Pipeline("bad")
            build(app)
            Trial(app).send(*messages("a@"))

        with pytest.raises(GraphError, match=match):
            run()

    refused("has no source", lambda app: app)
    refused("has no consumer", lambda app: app.source("s/*"))
    refused("needs streams", lambda app: app.source(" "))
    refused("two steps named x", lambda app: app.source("a/*", name="x").map(str, name="x"))
    refused("of type int is immutable; pass a class", lambda app: keyed(app).stateful(lambda value, state: None, int, name="x"))
    refused(r"takes \(value, state\)", lambda app: keyed(app).stateful(lambda value: None, list, name="x"))  # type: ignore[arg-type, misc]
    refused(r"takes \(value, state\)", lambda app: keyed(app).stateful(lambda a, b, c, d: None, list, name="x"))  # type: ignore[arg-type, misc]
    refused("there is no dead-letter sink; set one", lambda app: app.source("s/*", on_error=OnError.DEAD_LETTER).sink("out"))
    refused("of other pipelines", lambda app: app.source("s/*").merge(Pipeline("b").source("s/*")))


def test_nothing_can_be_added_to_a_pipeline_that_runs() -> None:
    app = counting()
    sent(app, "a@")
    with pytest.raises(GraphError, match="cannot be added"):
        app.source("t/*")


def test_a_trial_knows_which_steps_keep_states() -> None:
    with pytest.raises(KeyError, match="no step other"):
        Trial(counting()).states("other")
