"""States do not stay without end: aggregates and incomplete windows expire, also where a stream has stopped."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import by_key, cut, keyed, lines, messages, pipeline, text

from headrace.pipelines import (
    Context,
    GraphError,
    KeyedFlow,
    Message,
    OnError,
    Pipeline,
    StepError,
    Trial,
    collect,
    count,
    count_window,
    total,
    tumbling,
)

PROPERTY = settings(max_examples=100, derandomize=True, database=None, deadline=None)
Step = Callable[[KeyedFlow[int]], KeyedFlow[Any]]


def app_of(step: Step, on_error: OnError = OnError.FAIL) -> Pipeline:
    app = pipeline(on_error)
    step(keyed(app)).sink("out", encode=text)
    return app


def running(ttl: str | None) -> Step:
    return lambda numbers: numbers.aggregate(total(), ttl=ttl, name="step")


def counted(size: int, ttl: str | None = None) -> Step:
    return lambda numbers: numbers.window(count_window(size, ttl=ttl)).aggregate(collect(), name="step")


def note(number: int, state: list[int]) -> int:
    state.append(number)
    return len(state)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_running_aggregate_begins_anew_after_its_time_to_live(size: int) -> None:
    words = ["a@0=1", "a@9=2", "b@9=5", "a@18=4", "a@28=8", "a@30=1", "b@31=2"]
    trial = Trial(app_of(running("10s")), buckets=2)
    for at in range(0, len(words), size):
        trial.send(*messages(" ".join(words[at : at + size])))
        trial.restart()
    assert by_key(line.split() for line in lines(trial)) == {"a": ["1", "3", "7", "8", "9"], "b": ["5", "2"]}
    trial.send(*messages("c@100=1"))
    assert trial.states("step") == {"c": 1}
    trial.finish()
    assert trial.states("step") == {}


def test_a_time_to_live_may_be_added_and_removed() -> None:
    trial = Trial(app_of(running(None)))
    trial.send(*messages("a@0=1 b@0=2"))
    trial.restart(app_of(running("10s")))
    assert trial.states("step") == {"a": 1, "b": 2}
    trial.send(*messages("a@5=4"))
    assert lines(trial)[-1] == "a 5"
    trial.restart(app_of(running(None)))
    assert trial.states("step") == {"a": 5, "b": 2}
    trial.restart(app_of(running("10s")))
    trial.send(*messages("c@6=1"))
    trial.send(*messages("c@16=1"))
    assert trial.states("step") == {"c": 1}, "what has no known time lives from when the step has a time to live"


def test_an_incomplete_window_gives_its_result_after_its_time_to_live() -> None:
    trial = Trial(app_of(counted(3, "10s")), buckets=2)
    trial.send(*messages("a@0=1 b@0=2 a@1=3 a@2=4 a@3=5"))
    assert lines(trial) == ["a [1, 3, 4]"]
    trial.restart()
    trial.send(*messages("a@12=6"))
    assert lines(trial)[1:] == ["b [2]"]
    trial.send(*messages("a@22=7"))
    assert lines(trial)[2:] == ["a [5, 6]"]
    assert trial.states("step") == {"a": (1, [7])}


def test_the_result_of_an_incomplete_window_is_in_its_time_window() -> None:
    app = pipeline()
    sums = keyed(app).window(count_window(5, ttl="10s")).aggregate(total(), name="five")
    tens = sums.window(tumbling("10s"))
    tens.aggregate(collect(), output=lambda key, found, window: f"{window.start} {found}", name="tens").sink("out")
    trial = Trial(app)
    trial.send(*messages("a@1=1 b@2=2 z@11=1 z@16=1 z@30=1"))
    assert not trial.counts["late", "tens"]
    trial.send(*messages("z@41=1"))
    assert sorted(line for line in lines(trial) if line[0] != "z") == ["a 0 [1]", "b 0 [2]"]


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("uses_time", [False, True])
def test_the_end_of_event_time_ends_incomplete_windows(buckets: int, uses_time: bool) -> None:
    def build() -> Pipeline:
        app = Pipeline("ends")
        numbers = app.source("s/*", decode=int).key_by(lambda number: number % 3, name="key")
        numbers.window(count_window(4, ttl="1 hour" if uses_time else None)).aggregate(collect(), name="four").sink("out", text)
        return app

    assert build().graph.uses_time is uses_time
    trial, stages = Trial(build(), buckets=buckets), Stages(build(), buckets=buckets)
    sent = [Message(b"%d" % number, None, 7, "s/0", number + 1) for number in range(14)]
    for run in (trial, stages):
        run.send(*sent[:9])
        run.send(*sent[9:])
    trial.restart()
    assert len(trial.values("out")) == len(stages.written["out"]) == 3
    trial.finish()
    stages.end(all_=True)
    assert sorted(trial.values("out"))[:3] == [b"[0, 3, 6, 9]", b"[1, 4, 7, 10]", b"[12]"]
    assert sorted(trial.values("out")) == sorted(value for _, value in stages.written["out"])
    assert trial.states("four") == {}
    trial.finish()
    assert len(trial.values("out")) == 5, "once"


def test_a_function_that_fails_leaves_the_windows_as_they_were() -> None:
    def add(so_far: list[int], number: int) -> list[int]:
        so_far.append(number)
        if number < 0:
            raise ValueError(number)
        return so_far

    def build(numbers: KeyedFlow[int]) -> KeyedFlow[Any]:
        return numbers.window(count_window(3, ttl="10s")).aggregate(initial=list, update=add, name="step")

    trial = Trial(app_of(build, OnError.SKIP))
    trial.send(*messages("a@0=1 a@1=-1 a@2=2 a@20=3 a@21=-1 a@22=4 a@23=5"))
    assert lines(trial) == ["a [1, 2]", "a [3, 4, 5]"]
    assert trial.counts["skipped", "step"] == 2


@pytest.mark.parametrize("step", [running("10s"), counted(3, "10s")])
def test_event_time_is_needed_for_a_time_to_live(step: Step) -> None:
    with pytest.raises(StepError, match=r"event_time\(\.\.\.\)"):
        Trial(app_of(step)).send(*messages("a@=1"))
    with pytest.raises(GraphError, match="ttl must be positive"):
        keyed(pipeline()).aggregate(count(), ttl="0s")


SENT = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(1, 9)), max_size=30)


@PROPERTY
@given(
    sent=SENT,
    cuts=st.lists(st.integers(0, 30), max_size=8),
    buckets=st.integers(1, 3),
    ttl=st.integers(1, 20),
    kind=st.booleans(),
)
def test_what_expires_does_not_depend_on_micro_batches(
    sent: list[tuple[str, int, int]], cuts: list[int], buckets: int, ttl: int, kind: bool
) -> None:
    build = counted(3, f"{ttl}s") if kind else running(f"{ttl}s")
    every = [
        Message(f"{key}@{at}={number}".encode(), key.encode(), None, "s/0", place + 1)
        for place, (key, at, number) in enumerate(sent)
    ]
    whole, parts, stages = Trial(app_of(build)), Trial(app_of(build), buckets=buckets), Stages(app_of(build), buckets=buckets)
    whole.send(*every)
    for batch in cut(every, cuts):
        parts.send(*batch)
        parts.restart()
        stages.send(*batch)
    assert by_key((w.key, w.value) for w in parts.written["out"]) == by_key((w.key, w.value) for w in whole.written["out"])
    assert parts.states("step") == whole.states("step")
    assert Counter((key, value) for key, value in stages.written["out"]) == Counter(
        (str(w.key).encode(), w.value) for w in whole.written["out"]
    )


def ring(state: list[int], context: Context) -> None:
    return None


def timed(number: int, state: list[int], context: Context) -> int:
    context.set_timer(after="5s")
    return note(number, state)


@pytest.mark.parametrize(
    "step",
    [
        lambda numbers: numbers.deduplicate(lambda number: number, within="1 hour", name="step"),
        lambda numbers: numbers.stateful(note, list[int], ttl="1 hour", name="step"),
        lambda numbers: numbers.stateful(timed, list[int], on_timer=ring, ttl="1 hour", name="step"),
        running("1 hour"),
        counted(100, "1 hour"),
    ],
)
@pytest.mark.parametrize("buckets", [1, 2])
def test_a_stream_that_has_stopped_keeps_no_states(step: Step, buckets: int) -> None:
    trial, stages = Trial(app_of(step), buckets=buckets), Stages(app_of(step), buckets=buckets)
    hour = 3600
    batches = [messages("old@0=1", "s/old")]
    batches += [messages(f"k{number}@{number * hour // 2}={number}", "s/new") for number in range(20)]
    last: Counter[str] = Counter()
    for batch in batches:
        trial.send(*batch)
        for message in batch:
            last[message.stream] += 1
        stages.send(*(Message(m.value, m.key, None, m.stream, last[m.stream]) for m in batch))
        trial.restart()
    kept = set(trial.states("step"))
    assert "old" not in kept
    assert len(kept) <= 4, "about an hour's"
    assert set(stages.states()["step"]) == kept


def test_the_windows_of_a_stream_that_has_stopped_wait_for_it() -> None:
    app = pipeline()
    numbers = keyed(app)
    numbers.deduplicate(lambda number: number, within="10s", name="once").sink("once", encode=text)
    numbers.window(tumbling("10s")).aggregate(collect(), name="tens").sink("out", encode=text)
    trial = Trial(app)
    trial.send(*messages("a@0=1", "s/old"), *messages("b@0=2", "s/new"))
    for second in range(10, 100, 10):
        trial.send(*messages(f"b@{second}={second}", "s/new"))
    assert lines(trial) == []
    assert len(trial.states("once")) == 1
    trial.send(*messages("a@5=3", "s/old"))
    trial.finish()
    assert "a [1, 3]" in lines(trial)


def test_a_stream_that_lags_and_delivers_keeps_its_states() -> None:
    trial = Trial(app_of(lambda numbers: numbers.deduplicate(lambda number: number, within="10s", name="step")))
    for second in range(0, 90, 10):
        trial.send(*messages(f"b@{10 * second}={second}", "s/new"), *messages(f"a@{second // 10}={second % 20}", "s/old"))
    assert [line for line in lines(trial) if line[0] == "a"] == ["a 0", "a 10"]


LIMITED: list[Step] = [
    lambda numbers: numbers.stateful(note, list[int], name="step"),
    lambda numbers: numbers.aggregate(total(), name="step"),
    counted(100),
    lambda numbers: numbers.window(tumbling("1 hour")).aggregate(collect(), name="step"),
    lambda numbers: numbers.deduplicate(lambda number: number, within="1 hour", name="step"),
]


def limited(step: Step, on_error: OnError) -> Pipeline:
    app = Pipeline("limited", on_error=on_error, max_keys=2)
    step(keyed(app)).sink("out", encode=text)
    return app


@pytest.mark.parametrize("step", LIMITED)
def test_a_value_of_a_key_beyond_the_limit_is_an_error_of_the_step(step: Step) -> None:
    trial = Trial(limited(step, OnError.SKIP))
    trial.send(*messages("a@0=1 b@1=2 c@2=3 a@3=4 d@4=5 b@5=6"))
    trial.send(*messages("a@6=7 c@7=8"))
    assert set(trial.states("step")) == {"a", "b"}
    assert trial.counts["skipped", "step"] == 3
    with pytest.raises(StepError, match=r"step step, key 'c', .*the step has 2 keys with a state .* raise max_keys"):
        Trial(limited(step, OnError.FAIL)).send(*messages("a@0=1 b@1=2 c@2=3"))


def test_keys_that_have_expired_leave_room_for_others() -> None:
    trial = Trial(limited(running("10s"), OnError.FAIL))
    trial.send(*messages("a@0=1 b@1=2"))
    trial.send(*messages("b@10=2"))
    trial.send(*messages("c@11=3"))
    assert set(trial.states("step")) == {"b", "c"}
