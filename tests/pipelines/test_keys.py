"""Keys that are equal are one key, and what is no key goes where the policy says; so does a time that is none."""

from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.pipelines.rig import SECOND

from headrace.pipelines import Message, OnError, Pipeline, StepError, Trial, count, tumbling
from headrace.pipelines.runtime import normal_key


class Colour(StrEnum):
    RED = "red"


class Place(NamedTuple):
    x: int
    y: float


class Text(str):
    pass


class Odd:
    def __hash__(self) -> int:
        raise RuntimeError("no hash")


EQUAL: list[list[Any]] = [
    [1, True, 1.0, np.int64(1), np.float32(1), np.bool_(True)],
    [0, False, 0.0, -0.0, np.uint8(0)],
    ["red", Colour.RED, np.str_("red"), Text("red")],
    [b"red", np.bytes_(b"red")],
    [2.5, np.float64(2.5)],
    [(1, 2), (True, 2.0), (np.int32(1), np.int8(2)), Place(1, 2)],
    [("a", (None, 1)), ("a", (None, True))],
    [None],
]
NO_KEYS: list[Any] = [
    [1],
    {"a": 1},
    Odd(),
    (1, [2]),
    "\ud800",
    ("a", "\udfff"),
    float("nan"),
    10**5000,
    date(2020, 1, 1),
    ((((((((((1,),),),),),),),),),),
]


@pytest.mark.parametrize("equal", EQUAL, ids=repr)
def test_keys_that_are_equal_are_one_key(equal: list[Any]) -> None:
    normal = [normal_key(key) for key in equal]
    assert normal == equal
    assert len({repr(key) for key in normal}) == 1


@pytest.mark.parametrize("buckets", [1, 8])
def test_a_state_is_one_whatever_its_key_is_written_as(buckets: int) -> None:
    app = Pipeline("test")
    values: list[Any] = [key for equal in EQUAL for key in equal]
    numbers = app.source("s/*", decode=int)
    numbers.key_by(lambda n: values[n]).aggregate(count(), name="n").sink("out", encode=lambda n: b"%d" % n)
    trial = Trial(app, buckets=buckets)
    trial.send(*(Message(b"%d" % n, stream="s/0") for n in range(len(values))))
    assert trial.states("n") == {normal_key(equal[0]): len(equal) for equal in EQUAL}


def test_keys_of_the_documented_types_are_left_as_they_are() -> None:
    keys: list[Any] = [b"a", "a", "", 1, -7, 2**70, ("a", 1), (b"a", ("b", None)), 2.5, None, "x" * 100]
    assert [normal_key(key) for key in keys] == keys


def poisoned(on_error: OnError, deduplicates: bool = False) -> Pipeline:
    app = Pipeline("test", on_error=on_error, dead_letters="failed")
    numbers = app.source("s/*", decode=lambda text: int(text))
    if deduplicates:
        numbers = numbers.event_time(lambda n: SECOND * n).deduplicate(lambda n: NO_KEYS[n] if n >= 0 else n, within="1 h")
    keyed = numbers.key_by(lambda n: NO_KEYS[n] if n >= 0 else n, name="by")
    keyed.aggregate(count()).sink("out", encode=lambda n: b"%d" % n)
    return app


@pytest.mark.parametrize(("on_error", "deduplicates"), [*product([OnError.SKIP, OnError.DEAD_LETTER], [False, True])])
def test_what_is_no_key_goes_where_the_policy_says_and_the_others_go_on(on_error: OnError, deduplicates: bool) -> None:
    trial = Trial(poisoned(on_error, deduplicates))
    trial.send(*(Message(b"%d" % n, stream="s/0") for n in [-1, *range(len(NO_KEYS)), -2]))
    assert trial.values("out") == [b"1", b"1"]
    assert len(trial.failed) == (len(NO_KEYS) if on_error is OnError.DEAD_LETTER else 0)


@pytest.mark.parametrize("number", range(len(NO_KEYS)))
def test_what_is_no_key_fails_with_its_place_where_the_policy_is_to_fail(number: int) -> None:
    with pytest.raises(StepError, match=r"step by, stream s/0, sequence 1: (TypeError|ValueError|Unicode)"):
        Trial(poisoned(OnError.FAIL)).send(Message(b"%d" % number, stream="s/0"))


TIMES: list[Any] = [2**63, 2**63 - 1, -(2**63), 10**40, 1_700_000_000 * 10**9, 1.5, "noon", datetime(2020, 1, 1)]  # noqa: DTZ001


@pytest.mark.parametrize("on_error", [OnError.SKIP, OnError.DEAD_LETTER])
def test_a_time_that_is_none_goes_where_the_policy_says(on_error: OnError) -> None:
    app = Pipeline("test", on_error=on_error, dead_letters="failed")
    times = [0, *TIMES, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), np.int64(11 * SECOND)]
    keyed = app.source("s/*", decode=int).event_time(lambda n: times[n], name="times").key_by(lambda n: 0)
    keyed.window(tumbling("10 s")).aggregate(count()).sink("out", encode=lambda n: b"%d" % n)
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, stream="s/0") for n in range(len(times))))
    assert trial.values("out") == [b"2"]
    assert len(trial.failed) == (len(TIMES) if on_error is OnError.DEAD_LETTER else 0)
    trial.finish()
    assert trial.values("out") == [b"2", b"1"]


def test_a_time_of_the_source_that_is_none_fails_at_the_key_by() -> None:
    app = Pipeline("test", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    windows = app.source("s/*", decode=int).key_by(lambda n: 0, name="by").window(tumbling("10 s"))
    windows.aggregate(count()).sink("out", encode=lambda n: b"%d" % n)
    trial = Trial(app)
    for time in (0, 2**63 - 1, 1_700_000_000 * 10**9, SECOND, 10 * SECOND):
        trial.send(Message(b"1", event_time=time, stream="s/0"))
    assert trial.values("out") == [b"2"]
    assert [reason.partition(": ")[2][:34] for reason in trial.failed] == [
        "ValueError: event time 92233720368",
        "ValueError: event time 17000000000",
    ]


def test_a_timer_for_a_time_that_is_none_fails_in_the_call_that_sets_it() -> None:
    def wait(at: int, state: list[int], context: Any) -> None:
        context.set_timer(at)

    app = Pipeline("test", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    app.source("s/*", decode=int).key_by(lambda n: n).stateful(wait, list, on_timer=lambda s, c: str(c.event_time)).sink("out")
    trial = Trial(app)
    trial.send(*(Message(b"%d" % at, event_time=0, stream="s/0") for at in (-(2**64), 2**64, 5)))
    trial.finish()
    assert trial.values("out") == [b"5"]
    assert len(trial.failed) == 2


def test_what_encode_makes_that_is_no_payload_goes_where_the_policy_says() -> None:
    app = Pipeline("test", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    app.source("s/*", decode=int).sink("out", encode=lambda n: [b"0", "1", 2, None][n])  # type: ignore[arg-type, return-value]
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, stream="s/0") for n in range(4)))
    assert trial.values("out") == [b"0", None]
    assert len(trial.failed) == 2


def test_the_key_of_a_message_goes_on_to_a_sink_where_nothing_else_is_the_key() -> None:
    app = Pipeline("test")
    lines = app.source("s/*", decode=bytes.decode)
    lines.sink("all")
    lines.filter(str.isalpha).map(str.upper).sink("some")
    lines.flat_map(list).sink("letters")
    app.source("s/*").map_columns(lambda rows: rows).sink("rows")
    app.source("s/*").map_columns(lambda rows: rows.slice(1).select(["value"])).sink("cut")
    lines.deduplicate(lambda line: line[0], within="1 h").sink("once")
    lines.key_by(len).map(str).sink("keyed")
    trial = Trial(app)
    sent = [(b"k1", b"ab"), (None, b"2"), (b"k3", b"ac")]
    trial.send(*(Message(value, key, event_time=0, stream="s/0") for key, value in sent))
    found = {sink: [(written.key, written.value) for written in some] for sink, some in trial.written.items()}
    assert found["all"] == found["rows"] == sent
    assert found["some"] == [(b"k1", b"AB"), (b"k3", b"AC")]
    assert [key for key, _ in found["letters"]] == [b"k1", b"k1", None, b"k3", b"k3"]
    assert found["cut"] == [(None, b"2"), (None, b"ac")], "nobody knows which message a row comes from"
    assert found["once"] == sent[:2]
    assert [key for key, _ in found["keyed"]] == [2, 1, 2]
