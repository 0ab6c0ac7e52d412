"""A pipeline that has changed continues where the older one was, and a step that has become another one is noticed."""

from collections.abc import Callable

import pytest
from tests.pipelines.rig import keyed, lines, messages, pipeline, read, sent, text

from headrace.pipelines import (
    Flow,
    GraphError,
    KeyedFlow,
    Pipeline,
    StateError,
    Trial,
    count,
    count_window,
    session,
    total,
    tumbling,
)
from headrace.pipelines.runtime import EventTime


def sums(flow: Flow[object], app: Pipeline, name: str | None = None) -> None:
    by = flow.key_by(lambda value: value.key, name=name).map(lambda value: value.number)  # type: ignore[attr-defined]
    by.window(tumbling("10s")).aggregate(total(), name="sums").sink("out", encode=text)


def plain() -> Pipeline:
    app = pipeline()
    sums(read(app), app)
    return app


def filtered() -> Pipeline:
    app = pipeline()
    sums(read(app).filter(lambda value: True).map(lambda value: value), app)
    return app


def another_source_in_front() -> Pipeline:
    app = pipeline()
    app.source("other/*").key_by(lambda message: 1).aggregate(count(), name="others").sink("others", encode=text)
    sums(read(app), app)
    return app


def another_key_by_in_front() -> Pipeline:
    app = pipeline()
    values = read(app)
    values.key_by(lambda value: value.number).window(tumbling("1s")).aggregate(count(), name="more").sink("more", encode=text)
    sums(values, app)
    return app


def another_name() -> Pipeline:
    app = pipeline()
    sums(read(app), app, name="somehow")
    return app


def a_source_more() -> Pipeline:
    app = pipeline()
    sums(read(app, "s/*, t/*"), app)
    return app


CHANGES = [filtered, another_source_in_front, another_key_by_in_front, another_name, a_source_more]


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("back", [False, True])
def test_event_time_stays_where_it_was(changed: Callable[[], Pipeline], back: bool) -> None:
    """No window that is closed gives a second result, and open ones give one."""
    first, then = (changed, plain) if back else (plain, changed)
    trial = sent(first(), "a@1=1 b@2=2 a@11=4")
    assert sorted(lines(trial)) == ["a 1", "b 2"]
    trial.restart(then(), drop_states=["others", "more"])
    trial.send(*messages("a@3=8 b@12=16 a@21=32"))
    assert sorted(lines(trial)) == ["a 1", "a 4", "b 16", "b 2"]


def test_a_stream_that_reaches_a_key_by_no_longer_holds_no_window_open() -> None:
    def both() -> Pipeline:
        app = pipeline()
        sums(read(app, "s/*, t/*"), app)
        return app

    trial = sent(both(), "a@1=1")
    trial.send(*messages("a@1=1", "t/0"))
    trial.send(*messages("a@11=2"))
    assert lines(trial) == []
    trial.restart(plain())
    trial.send(*messages("a@12=4"))
    assert lines(trial) == ["a 2"]


def test_two_keys_that_become_one_keep_the_later_event_time() -> None:
    def application(together: bool) -> Pipeline:
        app = pipeline()
        values = read(app)
        one = values.key_by(lambda value: value.key, name="one").map(lambda value: value.number)
        two = (
            one
            if together
            else values.filter(lambda value: value.key == "a")
            .key_by(lambda value: value.key, name="two")
            .map(lambda value: value.number)
        )
        one.window(tumbling("10s")).aggregate(total(), name="all").sink("out", encode=text)
        two.window(tumbling("10s")).aggregate(total(), name="some").sink("some", encode=text)
        return app

    trial = sent(application(False), "a@1=1 b@15=2")
    assert (lines(trial), lines(trial, "some")) == (["a 1"], [])
    trial.restart(application(True))
    trial.send(*messages("a@2=4 c@16=1"))
    assert (lines(trial), lines(trial, "some")) == (["a 1"], ["a 1"]), "a@2 is late in both"


def step(
    kind: Callable[[KeyedFlow[int]], Flow[object]], key: Callable[..., object] | None = str.lower, streams: str = "s/*"
) -> Pipeline:
    app = pipeline()
    flow = read(app, streams).map(lambda value: value.key, name="keys").key_by(key, name="by")  # type: ignore[arg-type]
    kind(flow.map(len)).sink("out", encode=text)
    return app


def windows(flow: KeyedFlow[int]) -> Flow[object]:
    return flow.window(tumbling("10s")).aggregate(count(), name="step")


@pytest.mark.parametrize(
    ("then", "says"),
    [
        (step(lambda flow: flow.window(tumbling("5s")).aggregate(count(), name="step")), "its windows are 0:00:05 every 0:00:05"),
        (step(lambda flow: flow.window(tumbling("10s"), delay="1s").aggregate(count(), name="step")), "closed 0:00:01 after"),
        (step(lambda flow: flow.window(session("10s")).aggregate(count(), name="step")), "sessions with gaps of 0:00:10"),
        (step(lambda flow: flow.window(count_window(3)).aggregate(count(), name="step")), "its states are for count_window now"),
        (
            step(lambda flow: flow.aggregate(count(), name="step")),
            "its states are for aggregate now, and window in the checkpoint",
        ),
        (step(windows, str.upper), "keyed by upper now, and lower in the checkpoint"),
        (step(windows, lambda key: key), "keyed by a lambda now, and lower in the checkpoint"),
        (step(windows, None), "keyed by keys of messages now, and lower in the checkpoint"),
        (step(windows, streams="t/*"), r"reads t/\* now, and s/\* in the checkpoint"),
    ],
)
def test_a_step_that_has_become_another_one_is_refused(then: Pipeline, says: str) -> None:
    trial = sent(step(windows), "a@1")
    with pytest.raises(StateError, match=f"step step is not the step .*{says}.* --migrate-states step"):
        trial.restart(then)


def test_windows_that_are_migrated_end_as_they_began() -> None:
    trial = sent(step(windows), "a@1 a@12")
    trial.restart(step(lambda flow: flow.window(tumbling("5s")).aggregate(count(), name="step")), migrate_states=["step"])
    trial.send(*messages("a@13 a@14 a@20"))
    assert lines(trial) == ["a 1", "a 2", "a 1"]


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda flow: flow.stateful(lambda n, s: n, list), "is made of a lambda: give it a stable name, name="),
        (lambda flow: flow.stateful_flat(lambda n, s: [n], list), "is made of a lambda"),
        (lambda flow: flow.stateful_columns(lambda rows, states: rows, list), "is made of a lambda"),
        (lambda flow: flow.aggregate(count()).aggregate(count()), "would be the second one named aggregate"),
        (lambda flow: flow.window(count_window(2)).collect(min).window(count_window(2)).collect(min), "second one named window"),
        (lambda flow: flow.deduplicate(within="1s").deduplicate(within="1s"), "second one named deduplicate"),
        (lambda flow: flow.map(max).stateful(max, list), "second one named max"),
    ],
)
def test_states_have_names_that_do_not_depend_on_other_steps(add: Callable[[KeyedFlow[int]], object], says: str) -> None:
    with pytest.raises(GraphError, match=rf"has states, which are stored under its name, and .*{says}"):
        add(keyed(pipeline()))


def test_marks_are_found_by_the_name_of_their_key_by() -> None:
    trial = Trial(plain())
    trial.send(*messages("a@1=1 b@2=2 a@11=4"))
    graph = trial.pipeline.graph
    number = next(n for n, step in enumerate(graph.steps) if step.label == "key_by")
    kept = EventTime(graph, {"watermarks": {graph.steps[number].name: {"s/0": 11}, "gone": {"s/0": 5}}})
    assert kept.lowest() == {frozenset({number}): 11}
    assert EventTime(graph, kept.to_keep()).lowest() == {frozenset({number}): 11}
