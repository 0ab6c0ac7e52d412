"""Each kind of step names what bounds its states, and that holds: states that nothing ends are still there after any time."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.pipelines as package
from headrace.pipelines import (
    Context,
    Flow,
    KeyedFlow,
    Message,
    OnError,
    Pipeline,
    Trial,
    collect,
    count,
    count_window,
    distinct,
    quantile,
    session,
    sliding,
    top_n,
    tumbling,
)
from headrace.pipelines.steps.step import KeyedStep

COUNTING = [sys.executable, str(Path(__file__).with_name("counting_program.py"))]
SECOND = 1_000_000
SPAN = timedelta(seconds=5)
KEYS = 30
MAX_KEYS = 4
BUCKETS = 2

Adds = Callable[[Pipeline, "KeyedFlow[Message]", timedelta], Any]


def seen(value: Message, state: list[int]) -> str | None:
    return None


def number(value: Message) -> int:
    return value.sequence


def in_context(value: Message, state: list[int], context: Context) -> str | None:
    return None


def on_timer(state: list[int], context: Context) -> str | None:
    return None


def with_rows(value: Message, rows: Mapping[bytes, str]) -> str | None:
    return None


def on_batches(batch: Any, states: Any) -> None:
    for key in batch.column("key").to_pylist():
        states[key].append(1)


def right(app: Pipeline) -> "KeyedFlow[Message]":
    flow: Flow[Message] = app.source("r/*", name="right")
    return flow.key_by(name="right-key")


ENDING: dict[str, Adds] = {
    "stateful with ttl": lambda app, keyed, ttl: keyed.stateful(seen, list, ttl=ttl, name="step"),
    "stateful with ttl and timers": lambda app, keyed, ttl: keyed.stateful(
        in_context, list, ttl=ttl, on_timer=on_timer, name="step"
    ),
    "aggregate with ttl": lambda app, keyed, ttl: keyed.aggregate(count(), ttl=ttl, name="step"),
    "aggregate with clock_ttl": lambda app, keyed, ttl: keyed.aggregate(count(), clock_ttl=ttl, name="step"),
    "tumbling": lambda app, keyed, ttl: keyed.window(tumbling(ttl), delay=ttl).aggregate(count(), name="step"),
    "sliding": lambda app, keyed, ttl: keyed.window(sliding(ttl, ttl)).aggregate(collect(), name="step"),
    "session": lambda app, keyed, ttl: keyed.window(session(ttl)).aggregate(distinct(approximate=True), name="step"),
    "count_window with ttl": lambda app, keyed, ttl: keyed.window(count_window(9, ttl=ttl)).aggregate(count(), name="step"),
    "count_window with clock_ttl": lambda app, keyed, ttl: keyed.window(count_window(9, clock_ttl=ttl)).aggregate(
        count(), name="step"
    ),
    "deduplicate by key": lambda app, keyed, ttl: keyed.deduplicate(id=lambda value: value.value, within=ttl, name="step"),
    "join": lambda app, keyed, ttl: keyed.join(
        app.table("r/*", decode=bytes.decode), on=lambda value: value.key, retention=ttl, delay=ttl, name="step"
    ),
    "join_within": lambda app, keyed, ttl: keyed.join_within(right(app), before=ttl, after=ttl, how="full", name="step"),
    "window join": lambda app, keyed, ttl: keyed.window(tumbling(ttl)).join(right(app), name="step"),
    "map_with": lambda app, keyed, ttl: keyed.map_with(
        app.broadcast("r/*", decode=bytes.decode, max_rows=77), with_rows, retention=ttl, name="step"
    ),
}
"""Steps whose states end; `ttl` is whatever time they need."""
STAYING: dict[str, Adds] = {
    "stateful": lambda app, keyed, ttl: keyed.stateful(seen, list, name="step"),
    "stateful_flat": lambda app, keyed, ttl: keyed.stateful_flat(lambda value, state: [], list, name="step"),
    "stateful with a context": lambda app, keyed, ttl: keyed.stateful(in_context, list, on_timer=on_timer, name="step"),
    "stateful_columns": lambda app, keyed, ttl: keyed.stateful_columns(on_batches, list, name="step"),
    "stateful_program": lambda app, keyed, ttl: keyed.stateful_program(
        COUNTING, state=["count"], encode=lambda value: value.value, name="step"
    ),
    "aggregate": lambda app, keyed, ttl: keyed.aggregate(quantile(0.5, number), name="step"),
    "top_n": lambda app, keyed, ttl: keyed.aggregate(top_n(3, number, of=number), name="step"),
    "count_window": lambda app, keyed, ttl: keyed.window(count_window(9)).aggregate(distinct(str), name="step"),
}
"""Steps whose states stay, unless something is set."""


def application(adds: Adds, ttl: timedelta = SPAN, max_keys: int | None = None) -> Pipeline:
    app = Pipeline("bounds", max_keys=max_keys, on_error=OnError.SKIP)
    left: Flow[Message] = app.source("l/*", name="left")
    if adds is DEDUPLICATE:
        adds(app, left, ttl).sink("out")  # type: ignore[arg-type]
    else:
        adds(app, left.key_by(name="left-key"), ttl).sink("out")
    return app


DEDUPLICATE: Adds = lambda app, flow, ttl: flow.deduplicate(id=lambda value: value.key, within=ttl, name="step")  # noqa: E731
ENDING["deduplicate"] = DEDUPLICATE


def kept_after_an_hour(app: Pipeline) -> dict[str, int]:
    """The number of keys of each step: after a value of each key and tombstones, one more key has values an hour later."""
    now = [0]
    trial = Trial(app, buckets=BUCKETS, now=lambda: now[0])
    streams = [pattern.replace("*", "0") for pattern in app.graph.streams]

    def messages(at: int, key: int, other: bytes | None) -> Iterator[Message]:
        for stream in streams:
            payload = b"1" if stream == "l/0" else other
            yield Message(payload, b"%d" % key, at * SECOND, stream)

    trial.send(*(message for key in range(KEYS) for message in messages(key, key, b"1")))
    trial.send(*(message for key in range(KEYS) for message in messages(KEYS + key, key, None)))
    for at in 3600, 3601:
        now[0] += 3600 * SECOND
        trial.send(*messages(at, KEYS, b"1"))
    return {name: len(trial.states(name)) for name in app.graph.bounds}


@pytest.mark.parametrize("kind", ENDING)
def test_states_whose_step_tells_a_bound_end(kind: str) -> None:
    app = application(ENDING[kind])
    assert not [text for text in app.graph.bounds.values() if text.startswith("none")]
    assert all(keys <= 1 for keys in kept_after_an_hour(app).values())


@pytest.mark.parametrize("kind", STAYING)
def test_states_whose_step_tells_none_stay_and_max_keys_bounds_them(kind: str) -> None:
    app = application(STAYING[kind])
    (text,) = app.graph.bounds.values()
    assert text.startswith("none: ")
    assert "max_keys" in text
    assert kept_after_an_hour(app) == {"step": KEYS + 1}
    bounded = application(STAYING[kind], max_keys=MAX_KEYS)
    assert bounded.graph.bounds["step"].endswith(f"; at most {MAX_KEYS} keys in each bucket (max_keys)")
    assert not bounded.graph.bounds["step"].startswith("none")
    assert kept_after_an_hour(bounded) == {"step": MAX_KEYS * BUCKETS}


@settings(deadline=None, max_examples=50)
@given(
    kind=st.sampled_from(sorted(ENDING)),
    ttl=st.timedeltas(timedelta(seconds=4), timedelta(days=300)),
    max_keys=st.none() | st.integers(1, 10**9),
)
def test_a_bound_in_time_names_the_time(kind: str, ttl: timedelta, max_keys: int | None) -> None:
    graph = application(ENDING[kind], ttl, max_keys).graph
    text = " ".join(graph.bounds.values())
    assert any(str(ttl * times) in text for times in (1, 2))
    assert ("(max_keys)" in text) == (max_keys is not None)
    assert ("77 rows" in text) == (kind == "map_with")


def test_every_kind_of_step_with_states_is_among_these() -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    kinds, found = [KeyedStep], set[type[KeyedStep]]()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith(package.__name__):
            found.add(kind)
    made = {type(step) for adds in (ENDING | STAYING).values() for step in application(adds).graph.keyed}
    assert made == found
