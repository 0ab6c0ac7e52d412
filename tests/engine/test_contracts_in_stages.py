"""Contracts in the stages of an engine: whatever fails and is decoded again, each message is counted once."""

import json as standard
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages

from headrace.pipelines import Message, OnError, Pipeline, Trial
from headrace.pipelines.formats import Contract, json


@dataclass
class Order:
    id: int
    note: str | None = None


@dataclass
class Seen:
    count: int = 0


def seen(order: Order, state: Seen) -> str:
    state.count += 1
    return f"{order.note} {state.count}"


def application() -> Pipeline:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    contract: dict[str, Any] = {"orders/eu": "freeze", "*/*": Contract("evolve", {"note": "discard"})}
    # By the message's own key, so that messages are shuffled as they are, and decoded again behind it.
    app.source("orders/*", decode=json(Order), contract=contract, name="in").key_by().stateful(seen, Seen).sink("out")
    return app


DOCUMENTS = st.fixed_dictionaries(
    {"id": st.integers(0, 3)}, optional={"note": st.sampled_from(["a", 7, None]), "new": st.just(1), "debug": st.none()}
)


@settings(deadline=None, max_examples=40)
@given(
    batches=st.lists(st.lists(st.tuples(st.sampled_from(["orders/eu", "orders/us"]), DOCUMENTS), max_size=6), max_size=3),
    buckets=st.integers(1, 8),
    failing=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 99),
)
def test_counts_and_results_are_those_of_a_trial(
    batches: list[list[tuple[str, dict[str, Any]]]], buckets: int, failing: float, seed: int
) -> None:
    trial, stages = Trial(application()), Stages(application(), buckets=buckets, failing=failing, seed=seed)
    sequence = 0
    for batch in batches:
        messages = []
        for stream, document in batch:
            sequence += 1
            payload = standard.dumps(document).encode()
            messages.append(Message(payload, b"k%d" % (sequence % 3), stream=stream, sequence=sequence))
        trial.send(*messages)
        if messages:
            stages.send(*messages)
    assert Counter(value for _, value in stages.written["out"]) == Counter(trial.values("out"))
    assert len(stages.written["failed"]) == len(trial.failed)
    assert {key: count for key, count in stages.counts.items() if count} == {
        key: count for key, count in trial.counts.items() if count
    }
