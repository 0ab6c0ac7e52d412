"""A value that cannot be sent to the process behind a key_by ends the query with an error that names it."""

import threading
from typing import Any

import pytest
from tests.engine.stages import Stages

from headrace.pipelines import Message, OnError, Pipeline, StepError


def decoded(payload: bytes) -> Any:
    return threading.Lock() if payload == b"lock" else payload.decode()


def nested(payload: bytes) -> Any:
    value: Any = payload.decode()
    for _ in range(10_000 if payload == b"lock" else 1):
        value = [value]
    return value


@pytest.mark.parametrize("policy", OnError)
@pytest.mark.parametrize(("decode", "error"), [(decoded, "TypeError: cannot pickle"), (nested, "RecursionError: ")])
@pytest.mark.parametrize("is_table", [False, True])
def test_a_value_that_cannot_be_sent_is_named(policy: OnError, decode: Any, error: str, is_table: bool) -> None:
    app = Pipeline("app", on_error=policy, dead_letters="failed")
    if is_table:
        rules = app.broadcast("n/*", decode=decode, name="rules")
        app.source("l/*").key_by().map_with(rules, lambda value, rows: str(rows), name="seen").sink("out")
    else:
        app.source("n/*", decode=bytes.decode).map(lambda text: decode(text.encode()), name="made").key_by(
            lambda value: b"a", name="grouped"
        ).map(repr, name="text").sink("out")
    step, key = ("seen-rows-key", "b'k'") if is_table else ("grouped", "b'a'")
    stages = Stages(app, buckets=3, tasks=1)
    stages.send(Message(b"1", b"k", 1, "n/0", 1))
    with pytest.raises(StepError, match=f"pipeline app, step {step}, key {key}, stream n/0, sequence 3: {error}.*plain data"):
        stages.send(*(Message(payload, b"k", 1, "n/0", at) for at, payload in enumerate([b"2", b"lock", b"3"], 2)))
