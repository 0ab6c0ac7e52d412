"""Values are divided among flows and sinks by a name, each value once."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import cut

from headrace.pipelines import GraphError, Headers, Message, OnError, Pipeline, Trial

PROPERTY = settings(max_examples=60, derandomize=True, database=None, deadline=None)
NAMES = ("eu", "us", "rest")


def divided() -> Pipeline:
    app = Pipeline("divided", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    numbers = app.source("n/*", decode=int)
    keyed = numbers.key_by(lambda n: n % 4, name="by-rest").map(lambda n: [n], name="lists")
    flows = keyed.split(lambda some: None if some[0] % 7 == 0 else [*NAMES, "nowhere"][some[0] % 4], into=NAMES, name="parts")

    def changed(some: list[int], state: list[int]) -> str:
        some.append(0)
        state.append(some[0])
        return f"{len(state)}. {some}"

    for name, flow in flows.items():
        flow.stateful(changed, list, name=f"{name}-count").sink(name)
    numbers.map(str, name="text").sink_by(lambda text: "odd" if text[-1] in "13579" else "even", ["odd", "even"], name="parity")
    return app


@PROPERTY
@given(
    numbers=st.lists(st.integers(0, 60), max_size=30),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    restarts=st.lists(st.booleans(), min_size=1, max_size=6),
    buckets=st.integers(1, 8),
)
def test_each_value_is_in_its_flow_once_whatever_the_micro_batches_restarts_and_buckets(
    numbers: list[int], cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    trial, stages = Trial(divided(), buckets=buckets), Stages(divided(), buckets, failing=0.2)
    sent = [Message(b"%d" % number, b"k", None, "n/0", at) for at, number in enumerate(numbers, 1)]
    for number, batch in enumerate(cut(sent, cuts)):
        trial.send(*batch)
        stages.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    wanted = [number for number in numbers if number % 7]
    for rest, name in enumerate(NAMES):
        own = [number for number in wanted if number % 4 == rest]
        assert trial.values(name) == [f"{at}. [{number}, 0]".encode() for at, number in enumerate(own, 1)]
    for rest, name in enumerate(("even", "odd")):
        assert trial.values(name) == [b"%d" % number for number in numbers if number % 2 == rest]
    assert len(trial.failed) == sum(number % 4 == 3 for number in wanted)
    assert all("the function returned 'nowhere', which is none of 'eu', 'us', 'rest'" in reason for reason in trial.failed)
    for sink in (*NAMES, "even", "odd"):
        assert sorted(value for _, value in stages.written[sink]) == sorted(trial.values(sink))


def test_headers_keys_and_times_stay_with_their_values() -> None:
    app = Pipeline("app")
    flows = app.source("n/*").key_by().split(lambda message: (message.value or b"").decode(), into=["a", "b"], name="by-value")
    flows["a"].map_with_headers(lambda message, headers: headers.get("h"), name="header").sink("a")
    flows["b"].map(lambda message: message.value, name="value").sink("b")
    trial = Trial(app)
    trial.send(
        *(
            Message(value, b"k%d" % at, 5, "n/0", headers=Headers([("h", b"%d" % at)]))
            for at, value in enumerate((b"b", b"a", b"a"))
        )
    )
    assert [(row.key, row.value) for row in trial.written["a"]] == [(b"k1", b"1"), (b"k2", b"2")]
    assert [(row.key, row.value) for row in trial.written["b"]] == [(b"k0", b"b")]


def test_a_flow_that_nothing_consumes_is_refused() -> None:
    app = Pipeline("app")
    app.source("n/*").split(lambda message: "a", into=["a", "b"], name="by")["a"].map(repr).sink("a")
    with pytest.raises(GraphError, match="pipeline app: step by-b has no consumer"):
        Trial(app)


@pytest.mark.parametrize("method", ["split", "sink_by"])
@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], r"is a list of different names, not \[\]"),
        (["a", "a"], r"is a list of different names, not \['a', 'a'\]"),
        ("ab", "is a list of texts, not 'ab'"),
        ([1], r"is a list of texts, not \[1\]"),
        (["a\nb"], "name must be text|sinks must have 1 to 255 ASCII letters"),
    ],
)
def test_names_are_checked_where_they_are_given(method: str, names: Any, text: str) -> None:
    flow = Pipeline("app").source("n/*")
    with pytest.raises(GraphError, match=rf"pipeline app, step by.*{text}"):
        getattr(flow, method)(lambda message: "a", names, name="by")
