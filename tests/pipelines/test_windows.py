"""Windows of event time and of counts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.pipelines.rig import SECOND, keyed, lines, messages, pipeline, sent, text

from headrace.pipelines import (
    Aggregation,
    GraphError,
    KeyedFlow,
    Late,
    OnError,
    Pipeline,
    StepError,
    Trial,
    Window,
    collect,
    count,
    count_window,
    session,
    sliding,
    total,
    tumbling,
)


def show(key: object, result: object, window: Window | None) -> str:
    bounds = "" if window is None else f"{window.start // SECOND}-{window.end // SECOND}: "
    return f"{bounds}{result}"


def windows(kind: Any, delay: str | None = None, late: Late = Late.DROP, aggregation: Any = None) -> Pipeline:
    """Windows of a kind, to the sink "out" with their bounds."""
    app = pipeline()
    flow: KeyedFlow[str] = keyed(app).window(kind, delay=delay, late=late).aggregate(aggregation or collect(), output=show)
    flow.sink("out")
    return app


def test_a_window_gives_its_result_once_event_time_is_past_it() -> None:
    trial = sent(windows(tumbling("10s")), "a@1=1 a@9=2 b@3=3")
    assert lines(trial) == []
    trial.send(*messages("a@10=4"))
    assert lines(trial) == ["a 0-10: [1, 2]", "b 0-10: [3]"]
    assert trial.states("window") == {"a": {Window(10 * SECOND, 20 * SECOND): [4]}}


def test_the_result_comes_before_the_element_of_its_key_that_closes_the_window() -> None:
    app = pipeline()
    flow = keyed(app)
    flow.window(tumbling("10s")).aggregate(count()).sink("out", encode=text)
    trial = sent(app, "a@1 a@12 a@25 a@26 a@31")
    assert lines(trial) == ["a 1", "a 1", "a 2"]


def test_a_window_stays_open_for_the_delay() -> None:
    trial = sent(windows(tumbling("10s"), delay="5s"), "a@1=1 a@14=2 a@9=3 a@15=4 a@8=5", finish=True)
    assert lines(trial) == ["a 0-10: [1, 3]", "a 10-20: [2, 4]"]


def test_what_is_late_is_late_for_its_own_stream_alone() -> None:
    trial = Trial(windows(tumbling("10s")))
    trial.send(*messages("a@1=1", "s/0"), *messages("a@2=2", "s/1"))
    trial.send(*messages("a@50=3", "s/0"))
    trial.send(*messages("a@3=4", "s/1"))
    assert lines(trial) == []
    trial.send(*messages("a@12=5", "s/1"))
    assert lines(trial) == ["a 0-10: [1, 2, 4]"]


def test_late_values_are_dropped() -> None:
    assert lines(sent(windows(tumbling("10s")), "a@11=1 a@9=2 a@22=3")) == ["a 10-20: [1]"]


def test_late_values_fire_on_their_own() -> None:
    trial = sent(windows(tumbling("10s"), late=Late.FIRE), "a@11=1 a@9=2 a@8=3", finish=True)
    assert lines(trial) == ["a 0-10: [2]", "a 0-10: [3]", "a 10-20: [1]"]


def test_late_values_go_into_the_oldest_open_window() -> None:
    trial = sent(windows(tumbling("10s"), "15s", Late.PLACE_IN_OLDEST), "a@40=1 a@3=2 a@44=3 a@1=4", finish=True)
    assert lines(trial) == ["a 20-30: [2, 4]", "a 40-50: [1, 3]"]


def test_the_oldest_open_window_does_not_depend_on_batches() -> None:
    app = windows(tumbling("10s"), late=Late.PLACE_IN_OLDEST)
    assert lines(sent(app, "a@15=1 b@29=2 a@1=3", finish=True)) == lines(sent(app, "a@15=1", "b@29=2", "a@1=3", finish=True))


def test_sliding_windows_overlap() -> None:
    trial = sent(windows(sliding("10s", every="5s")), "a@7=1 a@12=2", finish=True)
    assert lines(trial) == ["a 0-10: [1]", "a 5-15: [1, 2]", "a 10-20: [2]"]


def test_a_value_goes_into_those_of_its_sliding_windows_that_are_open() -> None:
    trial = sent(windows(sliding("10s", every="5s"), late=Late.FIRE), "a@12=1 a@7=2 a@4=3", finish=True)
    assert lines(trial) == ["a 0-10: [3]", "a 5-15: [1, 2]", "a 10-20: [1]"]


def test_the_oldest_of_sliding_windows() -> None:
    trial = sent(windows(sliding("10s", every="5s"), late=Late.PLACE_IN_OLDEST), "a@22=1 a@1=2", finish=True)
    assert lines(trial) == ["a 15-25: [1, 2]", "a 20-30: [1]"]


def test_a_session_ends_after_a_gap() -> None:
    trial = sent(windows(session("5s")), "a@1=1 a@4=2 a@8=3 a@13=4 a@30=5")
    assert lines(trial) == ["a 1-13: [1, 2, 3]", "a 13-18: [4]"]


def test_sessions_grow_together() -> None:
    trial = sent(windows(session("5s"), delay="20s"), "a@10=1 a@2=2 a@6=3", finish=True)
    assert lines(trial) == ["a 2-15: [2, 1, 3]"]


def test_a_late_value_may_belong_to_a_session_that_is_open() -> None:
    trial = sent(windows(session("5s"), late=Late.FIRE), "a@10=1 a@14=2 a@9=3 a@5=4 a@0=5", finish=True)
    assert lines(trial) == ["a 0-5: [5]", "a 5-19: [1, 2, 3, 4]"]


def test_a_late_value_in_the_earliest_session_that_can_be() -> None:
    trial = sent(windows(session("5s"), late=Late.PLACE_IN_OLDEST), "b@30=1 a@3=2", finish=True)
    assert lines(trial) == ["a 25-30: [2]", "b 30-35: [1]"]


def test_a_count_window_gives_a_result_for_so_many_values() -> None:
    trial = sent(windows(count_window(2)), "a@1=1 b@1=2 a@1=3 a@1=4", "a@1=5 b@1=6")
    assert lines(trial) == ["a [1, 3]", "a [4, 5]", "b [2, 6]"]
    assert trial.states("window") == {}


def test_count_windows_need_no_time() -> None:
    assert lines(sent(windows(count_window(1)), "a@")) == ["a [1]"]


def test_aggregate_without_a_window_gives_a_result_for_each_value() -> None:
    app = pipeline()
    keyed(app).aggregate(total()).sink("out", encode=text)
    trial = sent(app, "a@1=1 a@1=2", "b@1=5 a@1=3")
    assert lines(trial) == ["a 1", "a 3", "b 5", "a 6"]
    assert trial.states("aggregate") == {"a": 6, "b": 5}


def test_an_aggregation_of_ones_own() -> None:
    class Spread(Aggregation[int, list[int], str]):
        def initial(self) -> list[int]:
            return []

        def update(self, accumulator: list[int], value: int) -> list[int]:
            return [*accumulator, value]

        def combine(self, first: list[int], second: list[int]) -> list[int]:
            return first + second

        def output(self, key: Any, accumulator: list[int], window: Window | None) -> str | None:
            return None if len(accumulator) < 2 else f"{max(accumulator) - min(accumulator)} {window is None}"

    app = pipeline()
    flow = keyed(app)
    flow.window(session("5s")).aggregate(Spread()).sink("out", encode=text)
    flow.aggregate(Spread()).sink("running", encode=text)
    trial = sent(app, "a@1=1 a@3=5 b@1", finish=True)
    assert lines(trial) == ["a 4 False"]
    assert lines(trial, "running") == ["a 4 True"]


def test_an_aggregation_of_functions() -> None:
    app = pipeline()
    keyed(app).window(tumbling("10s")).aggregate(initial=int, update=lambda a, b: a + b, output=show).sink("out")
    assert lines(sent(app, "a@1=2 a@2=3", finish=True)) == ["a 0-10: 5"]


def test_collect_hands_over_all_values() -> None:
    app = pipeline()
    keyed(app).window(tumbling("10s")).collect(lambda key, values, window: f"{key} {values}").sink("out")
    assert lines(sent(app, "a@1=2 a@2=3", finish=True)) == ["a a [2, 3]"]


def test_windows_of_windows() -> None:
    """The results of all minutes of an hour are in time for it, whatever the delay of the minutes."""
    app = pipeline()
    minutes = keyed(app).window(tumbling("10s"), delay="7s").aggregate(total())
    minutes.key_by(lambda _: "all").window(tumbling("30s")).aggregate(total(), output=show, name="larger").sink("out")
    trial = sent(app, "a@1=1 b@29=2 a@35=4", "a@28=8", "a@36=16 b@41=32", "a@47=64", "a@48=128")
    assert lines(trial) == ["all 0-30: 11"]
    trial.finish()
    assert lines(trial) == ["all 0-30: 11", "all 30-60: 244"]


def test_a_result_happened_in_the_last_instant_of_its_window() -> None:
    app = pipeline()
    counts = keyed(app).window(tumbling("10s")).aggregate(count())
    counts.stateful(lambda value, state, context: f"{context.event_time}", dict, name="times").sink("out")
    assert lines(sent(app, "a@1", finish=True)) == [f"a {10 * SECOND - 1}"]


def test_the_bounds_of_a_window_as_datetimes() -> None:
    window = Window(0, 60 * SECOND)
    assert window.start_time == datetime(1970, 1, 1, tzinfo=UTC)
    assert window.end_time - window.start_time == timedelta(minutes=1)


def test_windows_before_1970() -> None:
    assert lines(sent(windows(tumbling("10s")), "a@-1=1", finish=True)) == ["a -10-0: [1]"]


def test_a_value_without_a_time_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(StepError, match=r"step window, key 'a', stream s/0, sequence 1: .*event_time\(\.\.\.\)"):
        sent(windows(tumbling("10s")), "a@")


def test_a_failed_update_leaves_no_trace() -> None:
    def update(values: list[int], value: int) -> list[int]:
        values.append(value)
        if value < 0:
            raise ValueError("below zero")
        return values

    app = pipeline(OnError.DEAD_LETTER)
    flow = keyed(app).window(sliding("10s", every="5s"), delay="5s")
    flow.aggregate(initial=list, update=update, output=show).sink("out")
    trial = sent(app, "a@6=1", "a@7=2 a@7=-3 a@8=4 b@8=-5", finish=True)
    assert lines(trial) == ["a 0-10: [1, 2, 4]", "a 5-15: [1, 2, 4]"]
    assert len(trial.failed) == 2
    assert "step window, key 'a', stream s/0, sequence 3: ValueError: below zero" in trial.failed[0]
    assert trial.states("window") == {}


def test_a_failed_output_names_the_last_value_of_the_window() -> None:
    def output(key: str, values: list[int], window: Window | None) -> str:
        raise ValueError("never")

    app = pipeline(OnError.DEAD_LETTER)
    keyed(app).window(tumbling("10s")).aggregate(collect(), output=output).sink("out")
    trial = sent(app, "a@6=1 a@7=2", "a@12=4")
    assert lines(trial) == []
    assert len(trial.failed) == 1
    assert "key 'a', stream s/0, sequence 2: ValueError: never" in trial.failed[0]
    assert list(trial.states("window")["a"].values()) == [[4]]


def test_what_makes_no_sense_is_refused_while_the_pipeline_is_built() -> None:
    def refused(match: str) -> Any:
        return pytest.raises(GraphError, match=match)

    flow = keyed(pipeline())
    with refused("'5 parsecs' is not a duration"):
        tumbling("5 parsecs")
    with refused("must be positive"):
        session("0s")
    with refused("leave gaps"):
        sliding("1s", every="2s")
    with refused("values must be at least 1, and is 0"):
        count_window(0)
    with refused("remove delay"):
        flow.window(count_window(2), delay="1s")
    with refused("remove delay and late"):
        flow.window(count_window(2), late=Late.FIRE)
    with refused("not '1 minute'"):
        flow.window("1 minute")  # type: ignore[arg-type]
    with refused("needs combine"):
        flow.window(session("1s")).aggregate(initial=int, update=max)
    with refused("is not an Aggregation"):
        flow.aggregate(len)  # type: ignore[arg-type]
    with refused("only output= is allowed with both"):
        flow.aggregate(count(), initial=int, name="both")
    with refused("pass an Aggregation, or functions"):
        flow.window(tumbling("1s")).aggregate(initial=int, name="half")


def test_event_time_is_said_before_the_first_key_by() -> None:
    app = pipeline()
    keyed(app).event_time(lambda number: number).key_by(lambda _: 1).window(tumbling("1s")).aggregate(count()).sink("out")
    with pytest.raises(GraphError, match="event_time must precede the first key_by"):
        Trial(app).send(*messages("a@1"))
