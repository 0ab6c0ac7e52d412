"""Attempts that run twice leave the states that Spark counts, in either format of its state store."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.engine.doubled import DoubledStages

from headrace.engine.applications.states import durable, segments
from headrace.pipelines import Context, Message, Pipeline, Trial

PRODUCTS = [f"product {number} " * (1 + number % 3) for number in range(11)]
"""A worker that has held a state all the time has these very strings in it, another one has copies that it has read."""
ONE_FILE_A_VERSION, A_FILE_AN_ATTEMPT = False, True


@dataclass
class Basket:
    total: int = 0
    names: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)


@dataclass
class Noted:
    numbers: set[int] = field(default_factory=set)
    products: set[str] = field(default_factory=set)


def fill(number: int, basket: Basket) -> str:
    name = PRODUCTS[number % 11]
    basket.total += number
    basket.names[name] = basket.names.get(name, 0) + 1
    basket.last = [*basket.last[-3:], name]
    return f"{basket.total} {basket.last[0]}"


def note(number: int, noted: Noted, context: Context) -> str:
    noted.numbers.add(number)
    noted.products.add(PRODUCTS[number % 11])
    if len(noted.numbers) > 1:
        context.set_timer(after=f"{number % 7 + 1} s")
    return f"{len(noted.numbers)}"


def ring(noted: Noted, context: Context) -> str:
    noted.numbers.discard(min(noted.numbers, default=0))
    return f"{len(noted.numbers)} left"


def baskets() -> Pipeline:
    app = Pipeline("baskets")
    app.source("n/*", decode=int).key_by().stateful(fill, Basket, name="basket").sink("out")
    return app


def timed() -> Pipeline:
    app = Pipeline("timed")
    numbers = app.source("n/*", decode=int).event_time(lambda number: number * 100_000)
    numbers.key_by(lambda number: number % 50).stateful(note, Noted, on_timer=ring, ttl="20 s", name="noted").sink("out")
    return app


@pytest.fixture(autouse=True)
def small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and changes of every kind also come about with the few states of a test."""
    monkeypatch.setattr(durable, "FOLD_BYTES", 2_000)
    monkeypatch.setattr(durable, "INLINE_BYTES", 700)
    monkeypatch.setattr(durable, "WHOLE_KEYS", 40)
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 8)


def batches(seed: int) -> Iterator[list[Message]]:
    draw, sequence = random.Random(seed), 0
    for _ in range(60):
        batch = []
        for _ in range(draw.choice([1, 2, 5, 40])):
            sequence += 1
            batch.append(Message(b"%d" % draw.randrange(500), b"k%d" % draw.randrange(60), stream="n/0", sequence=sequence))
        yield batch


@pytest.mark.parametrize("by_attempt", [ONE_FILE_A_VERSION, A_FILE_AN_ATTEMPT])
@pytest.mark.parametrize("seed", range(8))
def test_recovered_states_are_those_that_count(seed: int, by_attempt: bool) -> None:
    stages = DoubledStages(baskets(), buckets=2, workers=3, seed=seed, by_attempt=by_attempt)
    trial = Trial(stages.pipeline)
    for batch in batches(seed):
        trial.send(*batch)
        stages.send(*batch)
        assert stages.states()["basket"] == trial.states("basket")
    assert stages.by_key("out") == {
        key: [w.value for w in trial.written["out"] if w.key == key] for key in {w.key for w in trial.written["out"]}
    }
    assert stages.compared > 30
    assert stages.same_places == stages.compared
    assert stages.same_bytes == stages.compared


@pytest.mark.parametrize("seed", range(4))
def test_sets_and_timers_are_stored_in_the_same_places(seed: int) -> None:
    stages = DoubledStages(timed(), buckets=2, workers=3, seed=seed, by_attempt=ONE_FILE_A_VERSION)
    trial = Trial(stages.pipeline)
    for batch in batches(seed):
        trial.send(*batch)
        stages.send(*batch)
        assert stages.shown("noted", stages.states()["noted"]) == trial.states("noted")
    assert stages.compared > 30
    assert stages.same_places == stages.compared
    assert stages.same_bytes == stages.compared


@pytest.mark.parametrize("seed", range(4))
def test_format_2_tells_attempts_apart_that_do_not_do_the_same(seed: int) -> None:
    draw = random.Random(seed)

    def forget(number: int, basket: Basket) -> str:
        basket.total += draw.randrange(10**6)
        basket.names = {f"{draw.random()}": 1 for _ in range(draw.randrange(9))}
        return f"{basket.total} {sorted(basket.names)}"

    app = Pipeline("chance")
    app.source("n/*", decode=int).key_by().stateful(forget, Basket, name="basket").sink("out")
    stages = DoubledStages(app, buckets=2, workers=3, seed=seed, by_attempt=A_FILE_AN_ATTEMPT)
    for batch in batches(seed):
        stages.send(*batch)
        shown = {key: f"{kept.total} {sorted(kept.names)}".encode() for key, kept in stages.states()["basket"].items()}
        assert shown == {key: values[-1] for key, values in stages.by_key("out").items()}
