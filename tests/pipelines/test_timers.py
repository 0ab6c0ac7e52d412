"""Contexts, timers, and states that are forgotten after a while."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.pipelines.rig import SECOND, keyed, lines, messages, pipeline, read, sent, text

from headrace.pipelines import Context, GraphError, KeyedFlow, Message, OnError, Pipeline, StepError, Trial


def test_a_context_tells_about_the_value() -> None:
    seen: list[tuple[object, ...]] = []

    def look(number: int, state: list[int], context: Context) -> None:
        c = context
        seen.append((c.key, c.event_time, c.stream, c.sequence, c.message_id, c.watermark))

    app = pipeline()
    keyed(app).stateful(look, list).sink("out", encode=text)
    trial = Trial(app)
    trial.send(Message(b"a@5=1", stream="s/0", sequence=9, message_id="m9"))
    trial.send(Message(b"b@3=1", stream="s/0"), Message(b"b@=1", stream="s/1"))
    assert seen == [
        ("a", 5 * SECOND, "s/0", 9, "m9", 5 * SECOND),
        ("b", 3 * SECOND, "s/0", 10, None, 5 * SECOND),
        ("b", None, "s/1", 1, None, None),
    ]


def test_a_third_parameter_with_a_default_is_the_functions_own() -> None:
    def scaled(number: int, state: list[int], by: int = 10) -> int:
        return number * by

    app = pipeline()
    keyed(app).stateful(scaled, list).sink("out", encode=text)
    assert lines(sent(app, "a@=2")) == ["a 20"]


def reminding(app: Pipeline, **arguments: Any) -> KeyedFlow[str]:
    """Sets a timer for each number of seconds from the value's time; 0 forgets, and below 0 cancels."""

    def remind(number: int, state: dict[str, int], context: Context) -> str:
        state["values"] = state.get("values", 0) + 1
        if number > 0:
            context.set_timer(after=f"{number}s")
        elif number < 0:
            context.cancel_timer(at=-number * SECOND)
        else:
            context.forget()
        return f"{number}"

    def ring(state: dict[str, int], context: Context) -> str:
        assert context.event_time is not None
        return f"ring {context.event_time // SECOND} {state['values']}"

    return keyed(app).stateful(remind, dict, on_timer=ring, **arguments)


def reminders(**arguments: Any) -> Pipeline:
    app = pipeline()
    reminding(app, **arguments).sink("out")
    return app


def test_timers_ring_in_the_order_of_their_times() -> None:
    trial = sent(reminders(), "a@0=20 a@1=9 a@2=8 b@3=2")
    trial.send(*messages("b@25=1"))
    assert lines(trial)[:4] == ["a 20", "a 9", "a 8", "b 2"]
    assert lines(trial)[4:] == ["b ring 5 1", "b 1", "a ring 10 3", "a ring 20 3"]


def test_a_timer_rings_before_the_value_of_its_key_that_is_later() -> None:
    assert lines(sent(reminders(), "a@0=5 b@6=1 a@7=1")) == ["a 5", "b 1", "a ring 5 1", "a 1", "b ring 7 1"]


def test_a_timer_is_cancelled() -> None:
    assert lines(sent(reminders(), "a@0=5 a@1=-5 a@2=-77", finish=True)) == ["a 5", "a -5", "a -77"]


def test_a_state_is_forgotten_with_its_timers() -> None:
    trial = sent(reminders(), "a@0=5 a@1=0 a@2=9", finish=True)
    assert lines(trial) == ["a 5", "a 0", "a 9", "a ring 11 1"]
    trial = sent(reminders(), "a@0=5 a@1=0", finish=True)
    assert trial.states("remind") == {}


def test_a_timer_in_the_past_rings_right_after_the_call() -> None:
    def late(number: int, state: list[int], context: Context) -> int:
        context.set_timer(at=datetime(1970, 1, 1, tzinfo=UTC))
        return number

    app = pipeline()
    keyed(app).stateful(late, list, on_timer=lambda state, context: "now").sink("out", encode=text)
    assert lines(sent(app, "a@10=1 a@10=2")) == ["a 1", "a now", "a 2", "a now"]


def test_a_timer_sets_another_which_does_not_ring_at_the_end_of_time() -> None:
    def start(number: int, state: list[int], context: Context) -> None:
        if not state:
            context.set_timer(after="10s")
            state.append(number)

    def again(state: list[int], context: Context) -> str:
        context.set_timer(after="10s")
        return f"{(context.event_time or 0) // SECOND}"

    app = pipeline()
    keyed(app).stateful(start, list, on_timer=again).sink("out")
    trial = sent(app, "a@0", "a@35")
    assert lines(trial) == ["a 10", "a 20", "a 30"]
    trial.finish()
    assert lines(trial) == ["a 10", "a 20", "a 30", "a 40"]


@pytest.mark.parametrize(
    ("sent_", "match", "function", "on_timer"),
    [
        ("a@1", "the step has no on_timer", lambda v, s, context: context.set_timer(at=1), None),
        ("a@", r"see event_time\(\.\.\.\)", lambda v, s, context: context.set_timer(after="1s"), print),
        ("a@1", "pass either a time or after=", lambda v, s, context: context.set_timer(), print),
        ("a@1", "pass either a time or after=", lambda v, s, context: context.set_timer(at=1, after="1s"), print),
        ("a@1", "'soon' is not a duration", lambda v, s, context: context.set_timer(after="soon"), print),
        ("a@1", "later than itself", lambda v, s, c: c.set_timer(at=1), lambda state, context: context.set_timer(at=1)),
    ],
)
def test_timers_that_cannot_be(sent_: str, match: str, function: Any, on_timer: Any) -> None:
    app = pipeline()
    keyed(app).stateful(function, list, on_timer=on_timer, name="x").sink("out")
    with pytest.raises(StepError, match=match):
        sent(app, sent_)


def test_a_timer_needs_a_function_that_sets_it() -> None:
    with pytest.raises(GraphError, match="needs a third parameter"):
        keyed(pipeline()).stateful(lambda value, state: None, list, on_timer=lambda state, context: None, name="x")


def test_flat_functions_with_timers() -> None:
    def set_(number: int, state: list[int], context: Context) -> Iterator[int]:
        context.set_timer(after="1s")
        yield number
        yield number

    app = pipeline()
    keyed(app).stateful_flat(set_, list, on_timer=lambda state, context: ["x", "y"]).sink("out", encode=text)
    assert lines(sent(app, "a@0=7", finish=True)) == ["a 7", "a 7", "a x", "a y"]


def test_a_failed_call_sets_no_timer() -> None:
    def set_(number: int, state: list[int], context: Context) -> None:
        state.append(number)
        context.set_timer(after=f"{abs(number)}s")
        if number < 0:
            context.forget()
            raise ValueError("below zero")

    app = pipeline(OnError.SKIP)
    keyed(app).stateful(set_, list, on_timer=lambda state, context: f"{context.watermark} {state}").sink("out")
    trial = sent(app, "a@0=1", "a@0=2 a@0=-3 a@0=4", finish=True)
    assert lines(trial) == [f"a {at * SECOND} [1, 2, 4]" for at in (1, 2, 4)]


def test_a_failed_timer_leaves_no_trace() -> None:
    def ring(state: list[int], context: Context) -> str:
        state.append(0)
        context.set_timer(after="100s")
        if context.event_time == 2 * SECOND:
            raise ValueError("not at two")
        return f"{state}"

    def set_(number: int, state: list[int], context: Context) -> None:
        state.append(number)
        context.set_timer(after=f"{number}s")

    app = pipeline(OnError.DEAD_LETTER)
    keyed(app).stateful(set_, list, on_timer=ring).sink("out")
    for batches in (["a@0=1 a@0=2 a@0=3 b@9=1 a@9=5"], ["a@0=1 a@0=2", "a@0=3 b@9=1", "a@9=5"]):
        trial = sent(app, *batches)
        assert lines(trial) == ["a [1, 2, 3, 0]", "a [1, 2, 3, 0, 0]"]
        assert trial.states("set_")["a"] == [1, 2, 3, 0, 0, 5]
        assert [failed.split(": ", 1)[1] for failed in trial.failed] == ["ValueError: not at two"]
        assert "key 'a', stream s/0, sequence 3" in trial.failed[0]


def counter(number: int, state: list[int]) -> str:
    state.append(number)
    return f"{len(state)}"


def expiring() -> Pipeline:
    app = pipeline()
    keyed(app).stateful(counter, list, ttl="10s").sink("out")
    return app


@pytest.mark.parametrize("batches", [("a@0 a@9 b@12 a@18 b@28 a@28",), ("a@0", "a@9", "b@12", "a@18", "b@28", "a@28")])
def test_a_state_is_forgotten_without_values_for_so_long(batches: tuple[str, ...]) -> None:
    trial = sent(expiring(), *batches)
    assert [line for line in lines(trial) if line[0] == "a"] == ["a 1", "a 2", "a 3", "a 1"]


def test_states_that_are_forgotten_are_gone_from_memory() -> None:
    trial = sent(expiring(), "a@0 b@5", "c@11")
    assert set(trial.states("counter")) == {"b", "c"}


def test_a_late_value_keeps_its_state() -> None:
    """What counts is how far event time advances after a value, not when the value happened."""
    trial = sent(expiring(), "b@30", "a@1 a@2", "b@39")
    assert trial.states("counter")["a"] == [1, 1]
    trial.send(*messages("b@40"))
    assert set(trial.states("counter")) == {"b"}


def test_timers_ring_until_the_state_is_forgotten() -> None:
    trial = sent(reminders(ttl="10s"), "a@0=10 a@0=11 b@50=1")
    assert lines(trial) == ["a 10", "a 11", "b 1", "a ring 10 2"]
    assert set(trial.states("remind")) == {"b"}


def test_a_time_to_live_needs_event_time() -> None:
    with pytest.raises(StepError, match=r"event_time\(\.\.\.\)"):
        sent(expiring(), "a@")


def test_a_step_is_given_a_time_to_live_later() -> None:
    """States that were stored without timers live on with them, and the other way round."""
    plain = pipeline()
    keyed(plain).stateful(counter, list).sink("out")
    trial = sent(plain, "a@0 a@1 b@2")
    trial.restart(expiring())
    trial.send(*messages("a@3"))
    assert lines(trial)[-1] == "a 3"
    trial.send(*messages("a@8"))
    trial.send(*messages("c@14"))
    assert set(trial.states("counter")) == {"a", "c"}
    back = pipeline()
    keyed(back).stateful(counter, list).sink("out")
    trial.restart(back)
    trial.send(*messages("a@90"))
    assert lines(trial)[-1] == "a 5"


def test_keys_of_several_streams_wait_for_the_last_stream() -> None:
    app = pipeline()
    values = read(app).key_by(lambda value: value.key)

    def look(value: Any, state: list[str], context: Context) -> str:
        context.set_timer(after="10s")
        return f"value {context.stream}"

    values.stateful(look, list, on_timer=lambda state, context: f"ring {context.stream}").sink("out")
    trial = Trial(app)
    trial.send(*messages("a@0", "s/0"), *messages("b@1", "s/1"))
    trial.send(*messages("a@30", "s/0"))
    assert "a ring s/0" not in lines(trial)
    trial.send(*messages("b@10", "s/1"))
    assert lines(trial)[-2:] == ["b value s/1", "a ring s/0"]
