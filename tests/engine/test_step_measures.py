"""The measures of an application's steps, wherever its stages run."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import pytest
from tests.engine.stages import Stages

from headrace.engine.applications.batches import totals as totals_module
from headrace.engine.applications.batches.totals import Totals
from headrace.engine.applications.stages.reports import Report
from headrace.gateway.core.base.bounds import MAX_STEPS
from headrace.pipelines import Message, OnError, Pipeline, Trial, total, tumbling
from headrace.pipelines.formats import json
from headrace.pipelines.runtime import StepMeasures


@dataclass
class Order:
    id: int


def numbers(values: list[int]) -> list[Message]:
    return [Message(b"%d" % value, stream="n/0", sequence=1 + at) for at, value in enumerate(values)]


def without_time(measures: dict[str, StepMeasures]) -> dict[str, dict[str, int]]:
    """The counts by step that are not 0."""
    names = [name for name in StepMeasures.__slots__ if name != "time_ns"]
    return {step: {n: getattr(done, n) for n in names if getattr(done, n)} for step, done in sorted(measures.items())}


def failing() -> Pipeline:
    app = Pipeline("failing", dead_letters="dead")
    decoded = app.source("n/*", decode=int, name="numbers").map(lambda n: 60 // n, name="divide", on_error=OnError.DEAD_LETTER)
    kept = decoded.filter(lambda n: n > 10, name="large")
    kept.key_by(lambda n: n % 3, name="by").stateful(lambda n, seen: seen.append(n) or n, state=list, name="seen").map(
        str, name="text"
    ).sink("out")
    return app


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("tasks", [1, 3])
def test_counts_are_those_of_the_messages_however_they_are_divided(buckets: int, tasks: int) -> None:
    stages = Stages(failing(), buckets=buckets, tasks=tasks, failing=0.3, seed=buckets + tasks)
    stages.send(*numbers([0, 1, 2, 3, 30, 0]))
    assert without_time(dict(stages.done.measures)) == {
        "by": {"received": 3, "sent": 3},
        "divide": {"received": 6, "sent": 4, "failed": 2},
        "large": {"received": 4, "sent": 3},
        "numbers": {"received": 6, "sent": 6},
        "seen": {"received": 3, "sent": 3},
        "text": {"received": 3, "sent": 3},
        "to-out": {"received": 3, "sent": 3},
    }
    assert all(done.time_ns > 0 for done in stages.done.measures.values())
    keys = [steps["seen"] for steps in stages.done.keys.values()]
    assert sum(keys) == 2, "of 60, 30 and 20, two are multiples of 3"


@pytest.mark.parametrize("on_error", [OnError.SKIP, OnError.DEAD_LETTER])
@pytest.mark.parametrize("contract", [None, "freeze", "evolve"])
def test_a_message_that_is_first_decoded_after_the_shuffle_is_counted_if_it_fails(
    on_error: OnError, contract: Literal["freeze", "evolve"] | None
) -> None:
    app = Pipeline("own-keys", on_error=on_error, dead_letters="dead" if on_error is OnError.DEAD_LETTER else None)
    orders = app.source("n/*", decode=json(Order), contract=contract, name="orders")
    orders.key_by().stateful(lambda order, seen: seen.append(order.id) or str(order.id), state=list, name="seen").sink("out")
    payloads = [b'{"id": 1}', b'{"id": 2, "new": 3}', b'{"id": "x"}', b'{"id": 3}']
    messages = [Message(payload, b"k", stream="n/0", sequence=at) for at, payload in enumerate(payloads, 1)]
    trial, stages = Trial(app), Stages(app, failing=0.3, seed=7)
    trial.send(*messages)
    stages.send(*messages)
    assert +stages.counts == +Counter(trial.counts)
    failed = 2 if contract == "freeze" else 1
    assert stages.counts["skipped", "orders"] == failed * (on_error is OnError.SKIP)
    of_contract = {"freeze": {"violated": 2}, "evolve": {"violated": 1, "further": 1}, None: {}}[contract]
    found = without_time(dict(stages.done.measures))["orders"]
    assert found == {"received": 4, "sent": 4 - failed, "failed": failed, **of_contract}


def test_decoding_after_the_shuffle_counts_no_message_twice_and_timers_and_late_values_are_counted() -> None:
    app = Pipeline("windows")
    timed = app.source("n/*", decode=int, name="numbers").event_time(lambda n: n * 1_000_000, name="time")
    timed.key_by(lambda n: 0, name="by").window(tumbling("10 s")).aggregate(total(), name="sums").map(str, name="text").sink(
        "out"
    )
    stages = Stages(app, buckets=2)
    stages.send(*numbers([1, 2, 35]))
    stages.send(Message(b"3", stream="n/0", sequence=4))
    found = without_time(dict(stages.done.measures))
    assert found["numbers"] == {"received": 4, "sent": 4}
    assert found["sums"] == {"received": 4, "sent": 1, "late": 1, "fired": 1}
    assert found["text"] == {"received": 1, "sent": 1}


def test_a_run_reports_sums_and_the_last_number_of_keys_of_each_bucket() -> None:
    totals = Totals()
    totals.add([Report(measures={"a": StepMeasures(received=2, time_ns=5_000)}, keys={(1, 0): {"a": 3}}, sizes={(1, 0): 10})])
    totals.add(
        [
            Report(measures={"a": StepMeasures(received=3)}, keys={(1, 0): {"a": 4}}, sizes={(1, 0): 12}),
            Report(measures={"b": StepMeasures(sent=1)}, keys={(1, 1): {"a": 1}}, sizes={(1, 1): 5}),
        ]
    )
    told = totals.to_proto()
    assert (told.batches, told.state_bytes) == (2, 17)
    assert [(step.step, step.received, step.sent, step.keys, step.time_us) for step in told.steps] == [
        ("a", 5, 0, 5, 5),
        ("b", 0, 1, 0, 0),
    ]


def test_a_run_reports_no_more_steps_than_the_gateway_accepts() -> None:
    totals = Totals()
    totals.add([Report(measures={f"step {n}": StepMeasures(received=1) for n in range(totals_module.MAX_STEPS + 5)})])
    assert len(totals.to_proto().steps) == totals_module.MAX_STEPS
    assert totals_module.MAX_STEPS == MAX_STEPS
