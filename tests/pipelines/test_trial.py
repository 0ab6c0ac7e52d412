"""What a trial refuses: with a wrong name, a test would pass and show nothing."""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from tests.pipelines.rig import text
from tests.pipelines.test_arguments import ODD, raised

from headrace.pipelines import Headers, Message, OnError, Pipeline, Trial, TrialError, Written, count, tumbling


def application() -> Pipeline:
    app = Pipeline("orders", on_error=OnError.SKIP, dead_letters="failed")
    orders = app.source("orders/*, returns/0", decode=int, max_ahead="1 day", name="read").key_by(lambda value: 0, name="by-key")
    orders.counter("seen").histogram("sizes", float, [1])
    orders.window(tumbling("1 hour")).aggregate(count(), name="counts").sink("out", encode=text)
    return app


def test_messages_of_streams_that_nobody_reads_are_refused_and_none_is_processed() -> None:
    trial = Trial(application())
    for stream in ("test/0", "order/0", "returns/1", "orders", "orders/*", "orders/a b"):
        with pytest.raises(TrialError, match=r"send\(...\): "):
            trial.send(Message(b"1", event_time=1, stream="orders/0"), Message(b"1", stream=stream))
    with pytest.raises(TrialError, match=r"no source of pipeline orders reads stream test/0; it reads orders/\*, returns/0"):
        trial.send(Message(b"1"))
    trial.finish()
    assert trial.values("out") == []
    trial.send(Message(b"1", stream="returns/0"))


def test_names_that_the_pipeline_does_not_have_are_refused() -> None:
    trial = Trial(application())
    with pytest.raises(TrialError, match="pipeline orders has no sink 'ou'; did you mean 'out'"):
        trial.values("ou")
    with pytest.raises(TrialError, match="has no sink 'typo'; there are: out, failed"):
        trial.written["typo"]
    with pytest.raises(TrialError, match="pipeline orders has no step count that keeps states; did you mean 'counts'"):
        trial.states("count")
    with pytest.raises(TrialError, match="counts no 'late:count'; did you mean 'late:counts'"):
        trial.counts["late", "count"]
    with pytest.raises(TrialError, match="counts no 'ahead:counts'"):
        trial.counts["ahead", "counts"]
    with pytest.raises(TrialError, match="counts no 'lost:counts'"):
        trial.counts["lost", "counts"]
    for method in (trial.end, trial.open):
        with pytest.raises(TrialError, match=rf"{method.__name__}\(...\): no source of pipeline orders reads stream order/0"):
            method("orders/0", "order/0")


def test_names_that_it_has_are_empty_until_something_happens() -> None:
    trial = Trial(application())
    assert (trial.values("out"), trial.written["failed"], trial.states("counts")) == ([], [], {})
    assert {trial.counts[key] for key in (("late", "counts"), ("ahead", "by-key"), ("skipped", "read"))} == {0}
    assert (trial.counts, dict(trial.written)) == ({}, {"out": [], "failed": []})


def test_the_names_of_a_pipeline_before_a_restart_stay_known() -> None:
    def then() -> Pipeline:
        app = Pipeline("orders")
        app.source("orders/*", name="again").sink("copies", encode=lambda message: message.value)
        return app

    trial = Trial(application())
    trial.restart(then(), drop_states=["counts"])
    trial.send(Message(b"1", stream="orders/0"))
    assert (trial.values("out"), trial.values("copies")) == ([], [b"1"])
    assert (trial.counts["late", "counts"], trial.counts["skipped", "again"]) == (0, 0)
    with pytest.raises(TrialError, match="no source"):
        trial.send(Message(b"1", stream="returns/0"))


@pytest.mark.parametrize(
    ("field", "odd", "says"),
    [
        ("value", "text", "the value of a message is bytes or None, not 'text'"),
        ("key", 5, "the key of a message is bytes or None, not 5"),
        ("event_time", 1.5, "the event_time of a message is int or None, not 1.5"),
        ("event_time", True, "the event_time of a message is int or None, not True"),
        ("stream", 5, "5 is not the name of a stream"),
        ("sequence", "1", "the sequence of a message is int, not '1'"),
        ("sequence", -1, "the sequence of a message is at least 1 and less than 2^63, not -1"),
        ("sequence", 2**63, "less than 2^63"),
        ("message_id", b"id", "the message_id of a message is str or None, not b'id'"),
        ("headers", [("a", b"1")], "the headers of a message is Headers, not"),
        ("headers", Headers([("a", "1")]), "the headers of a message: a header must be a str and bytes or None"),  # type: ignore[list-item]
        ("headers", Headers(["ab"]), "the headers of a message: a header must be a pair"),  # type: ignore[list-item]
    ],
)
def test_fields_of_messages_have_their_types(field: str, odd: object, says: str) -> None:
    trial = Trial(application())
    with pytest.raises(TrialError) as refusal:
        trial.send(Message(**{"value": b"1", "stream": "orders/0", field: odd}))  # type: ignore[arg-type]
    assert says in str(refusal.value)


def test_fields_of_messages_that_are_right_are_accepted() -> None:
    trial = Trial(application())
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    trial.send(
        Message(b"1", b"k", int(moment.timestamp()) * 1_000_000, "orders/0", 7, "id", Headers([("a", None)])),
        Message(None, stream="orders/0"),
    )
    assert trial.counts["skipped", "read"] == 1


SOUND: Mapping[str, Mapping[str, Any]] = {
    "Trial": {"pipeline": application()},
    "send": {},
    "bootstrap": {},
    "history": {},
    "open": {},
    "end": {},
    "finish": {},
    "restart": {},
    "values": {"sink": "out"},
    "rows": {"path": "tables/out"},
    "states": {"step": "counts"},
    "counter": {"name": "seen"},
    "histogram": {"name": "sizes"},
}
CAN_BE: Mapping[str, set[str]] = {
    "buckets": {"60"},
    "now": {"a function without parameters", "a function of five", "a generator", "an async function", "an async generator"}
    | {"an object that yields when it is called"},
    "pipeline": {"None"},
    "value": {"no text"},
    "migrate_states": {"an empty list", "an empty dict"},
    "drop_states": {"an empty list", "an empty dict"},
}


def methods() -> dict[str, Callable[[], Callable[..., Any]]]:
    found: dict[str, Callable[[], Callable[..., Any]]] = {"Trial": lambda: Trial}
    for name, _ in inspect.getmembers(Trial, inspect.isfunction):
        if not name.startswith("_"):
            found[name] = lambda name=name: getattr(Trial(application()), name)  # type: ignore[misc]
    return found


@pytest.mark.parametrize(
    ("method", "parameter"),
    [(method, parameter) for method, bind in methods().items() for parameter in inspect.signature(bind()).parameters.values()],
    ids=lambda found: getattr(found, "name", found),
)
def test_every_parameter_of_a_trial_refuses_what_it_cannot_have(method: str, parameter: inspect.Parameter) -> None:
    for name in ODD.keys() - CAN_BE.get(parameter.name, set()):
        if (method, parameter.name, name) == ("Trial", "pipeline", "None"):
            continue
        many = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        given = ((ODD[name],), SOUND[method]) if many else ((), {**SOUND[method], parameter.name: ODD[name]})
        call = partial(methods()[method](), *given[0], **given[1])
        assert raised(call, TrialError), f"{method} accepts {name} as {parameter.name}"


def test_what_a_sink_received_compares_by_value() -> None:
    trial = Trial(application())
    trial.send(Message(b"1", event_time=1, stream="orders/0"))
    trial.finish()
    assert trial.written["out"] == [Written(b"1", 0)]
