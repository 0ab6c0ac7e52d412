"""What two workers write for the same micro-batches who have nothing else in common.

The one holds its states all the time and gets its rows in order. The other begins each micro-batch with nothing, and its tasks
read the same messages in other parts, whose rows come in another order. Each runs in a process of its own, with hashes of its
own: run by `test_same_bytes.py` as a program, whose arguments say which worker it is, and which messages there are.
"""

import json
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
from tests.engine.doubled import contents
from tests.engine.stages import Stages

from headrace.engine.applications.stages import source_stage
from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.applications.states import durable, segments
from headrace.engine.applications.states.state_cache import StateCache
from headrace.pipelines import Context, KeyStates, Late, Message, OnError, Pipeline, session, sliding, tumbling

COUNTING = [sys.executable, str(Path(__file__).parents[1] / "pipelines" / "counting_program.py")]
BATCHES = 25
STREAMS = ["n/0", "n/1", "n/2", *(f"m/{part}" for part in range(5))]
PRODUCTS = [f"product {number} " * (1 + number % 3) for number in range(11)]
LONG = [f"{number}" * 400 for number in range(3)]


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Place(NamedTuple):
    x: int
    name: str


@dataclass(frozen=True)
class Price:
    amount: Decimal
    unit: str = "EUR"


@dataclass(slots=True)
class Item:
    name: str
    price: Price
    count: int = 0


class Plain:
    """Gets its fields in the order in which they are needed."""


HERE, FREE = Place(1, PRODUCTS[0]), Price(Decimal("0.10"))
"""Objects of the program, which the states of a worker share for as long as it lives, and not longer."""
SOMEBODY, NOON = UUID(int=7), datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Basket:
    total: float = 0.0
    names: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)
    text: str = ""


@dataclass
class Deep:
    items: dict[str, Item] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    mixed: set[Any] = field(default_factory=set)
    places: list[Place] = field(default_factory=list)
    colour: Colour = Colour.RED
    plain: Plain = field(default_factory=Plain)
    counts: Counter[str] = field(default_factory=Counter)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    others: dict[str, Any] = field(default_factory=dict)


@dataclass
class Noted:
    numbers: set[int] = field(default_factory=set)
    products: frozenset[str] = frozenset()


def fill(number: int, basket: Basket) -> str:
    name = PRODUCTS[number % 11]
    basket.total += number / 7
    basket.names[name] = basket.names.pop(name, 0) + 1
    basket.last = [*basket.last[-3:], name]
    basket.text = LONG[number % 3] if number % 4 == 0 else name
    if number % 17 == 0:
        raise ValueError("no such number")
    return f"{basket.total} {basket.last[0]}"


def dig(number: int, deep: Deep) -> list[str]:
    name = PRODUCTS[number % 11]
    item = deep.items.setdefault(name, Item(name, FREE))
    item.count += number
    if number % 3 == 0:
        item.price = Price(Decimal(number) / 100, PRODUCTS[number % 5])
    deep.seen |= {name, PRODUCTS[(number + 1) % 11]}
    deep.seen.discard(PRODUCTS[number % 7])
    deep.mixed |= {number % 5, (name, number % 2), Place(number % 2, name), Fraction(number, 4), frozenset([name, number % 3])}
    deep.places = [*deep.places[-2:], HERE, Place(number, name)]
    deep.colour = Colour.GREEN if number % 2 else Colour.RED
    vars(deep.plain)[f"field{number % 3}"] = name
    deep.counts[name] += 1
    deep.last.append(name)
    deep.others = {"who": SOMEBODY, "when": NOON + timedelta(days=number), "long": LONG[number % 3], "itself": Plain}
    return [f"{number} {name}", f"{number + 1} {sorted(deep.seen)[:1]}"]


def note(number: int, noted: Noted, context: Context) -> str:
    noted.numbers.add(number)
    noted.products |= {PRODUCTS[number % 11]}
    if len(noted.numbers) > 1:
        context.set_timer(after=f"{number % 7 + 1} s")
    if number % 4 == 0:
        context.forget()
    return f"{len(noted.numbers)}"


def ring(noted: Noted, context: Context) -> str:
    noted.numbers.discard(min(noted.numbers, default=0))
    return f"{len(noted.numbers)} left"


def keep(text: str, texts: list[str]) -> str:
    texts[:] = [*texts[-3:], text]
    return "".join(texts)


def fields_in_any_order() -> Any:
    return Plain()


def give(number: int, plain: Any) -> None:
    fields = vars(plain)
    if number % 3 == 0:
        fields["first"], fields["second"] = number, PRODUCTS[number % 11]
    elif "first" not in fields:
        fields["second"], fields["first"] = PRODUCTS[number % 11], number
    if number % 10 == 0:
        fields.pop("first", None)


def texts() -> Pipeline:
    app = Pipeline("texts", on_error=OnError.SKIP)
    app.source("n/*", decode=int).key_by().stateful(fill, Basket, name="basket").sink("out")
    return app


def instances() -> Pipeline:
    app = Pipeline("instances")
    numbers = app.source("n/*", decode=int)
    both = numbers.filter(lambda number: number % 3 > 0).merge(numbers.flat_map(lambda number: [number, -number]))
    dug = both.key_by(lambda number: f"key {number % 40}").stateful_flat(dig, Deep, name="deep")
    dug.key_by(lambda text: (text.split(" ", 1)[1], len(text) % 2)).stateful(keep, list, name="texts").sink("out")
    numbers.key_by(lambda number: number % 30).stateful(give, fields_in_any_order, name="plain").sink("out")
    return app


def timed() -> Pipeline:
    app = Pipeline("timed", on_error=OnError.SKIP)
    first = app.source("n/*", decode=int).event_time(lambda number: number * 100_000)
    other = app.source("m/*", decode=int, idle_after="9 s").event_time(lambda number: number * 100_000)
    numbers = first.merge(other)
    numbers.key_by(lambda number: f"{number % 50}").stateful(note, Noted, on_timer=ring, ttl="20 s", name="noted").sink("out")
    keyed = numbers.key_by(lambda number: number % 20)
    sessions = keyed.window(session("2 s"), delay="3 s", late=Late.FIRE)
    sessions.collect(lambda key, values, window: f"{values}", name="sessions").sink("out")
    slides = keyed.window(sliding("4 s", every="2 s"))
    slides.aggregate(initial=list, update=lambda values, number: [*values, number], name="slides").map(str).sink("out")
    new = keyed.deduplicate(lambda number: number % 9, within="5 s", name="new")
    sizes = new.window(tumbling("3 s")).collect(lambda key, values, window: len(values), name="sizes")
    by_size = sizes.key_by(lambda number: None if number > 2 else number)
    by_size.aggregate(initial=int, update=lambda total, number: total + number, name="total").map(str).sink("out")
    return app


def columns() -> Pipeline:
    app = Pipeline("columns")

    def count(batch: pa.RecordBatch, states: KeyStates[list[int]]) -> pa.RecordBatch:
        for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
            states[key].append(int(value))
        return batch

    app.source("n/*").key_by().stateful_columns(count, list, name="counts").map(lambda row: row["value"]).sink("out")
    return app


def programs() -> Pipeline:
    app = Pipeline("programs")
    app.source("n/*").key_by().stateful_program(COUNTING, state=["count"], name="count").sink("out")
    return app


APPS: tuple[Callable[[], Pipeline], ...] = texts, instances, timed, columns, programs


class Alone(Stages):
    """The stages on one worker, which forgets everything after each micro-batch where it is cold."""

    cold = False

    def _attempts(self, level: int, bucket: int, rows: Any) -> list[BlockRow]:
        if self.cold:
            self._workers = [StateCache()]
        return super()._attempts(level, bucket, rows)

    def _run(self, rows: list[BlockRow]) -> None:
        shuffle = self._draw.shuffle
        if not self.cold:
            self._draw.shuffle = lambda rows: None
        super()._run(rows)
        self._draw.shuffle = shuffle


def batches(seed: int) -> Iterator[list[Message]]:
    draw, sequence = random.Random(seed), Counter[str]()
    for number in range(BATCHES):
        batch = []
        for _ in range(draw.choice([1, 5, 40])):
            stream = draw.choice(STREAMS) if number % 5 else "n/1"
            sequence[stream] += 1
            value = b"%d" % (number * 20 + draw.randrange(60))
            batch.append(Message(value, b"k%d" % draw.randrange(60), stream=stream, sequence=sequence[stream]))
        yield batch


def small_folds() -> None:
    """Snapshots and changes of every kind also come about with the few states of a test."""
    durable.FOLD_BYTES, durable.INLINE_BYTES, durable.WHOLE_KEYS, segments.SEGMENT_KEYS = 4_000, 1_500, 45, 8


def main(worker: str, seed: int) -> None:
    """Prints, for each pipeline and micro-batch, a digest of whatever lies in each place of the store."""
    small_folds()
    cold = worker == "cold"
    source_stage.PIECE_MESSAGES = 7 if cold else 16_384
    for app in APPS:
        stages = Alone(app(), buckets=2, workers=1, tasks=3 if cold else 1, seed=seed + cold)
        stages.cold = cold
        for number, batch in enumerate(batches(seed)):
            stages.send(*batch)
            for (level, bucket), store in sorted(stages.stores.items()):
                found = {f"{place[0]} {place[1]}": digest(piece) for place, piece in sorted(contents(store).items())}
                print("RESULT", json.dumps([seed, app.__name__, number, level, bucket, found]))


def digest(piece: bytes) -> str:
    return f"{blake2b(piece, digest_size=8).hexdigest()} {len(piece)}"


if __name__ == "__main__":
    for given in sys.argv[2:]:
        main(sys.argv[1], int(given))
