"""Where streams meet tables, services and windows: steps against what an author would write by hand, by processor time.

Both run in this process, in turns, without Spark.
"""

import asyncio
import statistics
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import ceil
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from headrace.engine.codec import Columns
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.alone import rate_alone
from headrace.laboratory.bench.pipelines.feed import FRAME, Numbers, Words
from headrace.laboratory.bench.pipelines.sizes import Sizes
from headrace.pipelines import Aggregation, Call, Context, Pipeline, quantile, top_n, total, tumbling

KEYS = 1_000
WINDOW = 20_000
"""The number of messages of a window, each of which is a microsecond after the one before."""
CALLS, CALL_S = 1_000, 0.01
"""How many calls run at a time, and how long each of them takes, in seconds."""
_UNIT = "messages/s"
_LAST = "\U0010ffff"

Measure = Callable[[], tuple[float, int]]


def join_as_of(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The join of orders with the rows of customers as of their times, against the same in a stateful function."""
    orders, customers = Words(KEYS, name="orders/0"), Words(KEYS, name="customers/0")
    share = sizes.meeting_messages // 2
    batches = [
        [*_dated(customers, at, min(at + FRAME, share)), *_dated(orders, at, min(at + FRAME, share))]
        for at in range(0, share, FRAME)
    ]
    ways = {"join": lambda: rate_alone(joined(), batches), "by hand": lambda: rate_alone(joined_by_hand(), batches)}
    yield from _against("join_as_of", ways, say, sizes, 0.8)


def top_n_part(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The three largest values of each key in windows, against a plain loop."""
    yield from _in_windows("top_n", top_n(3), lambda values: nlargest(3, values), say, sizes, 0.04)


def quantile_part(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The 99th percentile of each key in windows, by sketch, against a plain loop that sorts all values."""
    yield from _in_windows("quantile", quantile(0.99), _percentile, say, sizes, 0.06)


def hot_key(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """One key that has half of all messages: aggregated before the shuffle, too, against only behind it."""
    words = Hot(KEYS)
    batches = [_dated(words, at, at + FRAME) for at in range(0, sizes.meeting_messages, FRAME)]
    ways = {
        "hot_key": lambda: rate_alone(aggregated(total(), before_shuffle=True), batches),
        "only behind the shuffle": lambda: rate_alone(aggregated(total()), batches),
    }
    yield from _against("hot_key", ways, say, sizes, 1.0)


@dataclass(frozen=True)
class Hot(Words):
    """Words of which every other one is the same."""

    def numbers(self, begin: int, end: int) -> Numbers:
        """The numbers of the words, half of them 0."""
        return np.where(np.arange(begin, end) % 2, super().numbers(begin, end), 0)


def map_async_part(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """1,000 calls of 10 ms at a time, against a bare event loop that awaits the same function.

    The step is measured between source and sink, and alone.
    """
    count = sizes.meeting_messages // 4
    batches = [[*Words(KEYS).frames(0, count)]]
    ways = {"map_async": lambda: rate_alone(awaited(), batches), "bare": lambda: (_bare(batches[0]), count)}
    yield from _against("map_async", ways, say, sizes, 0.8)
    alone = {"map_async_step": lambda: _step_alone(batches), "bare": lambda: (_bare(batches[0]), count)}
    yield from _against("map_async_step", alone, say, sizes, 0.8)


def joined() -> Pipeline:
    """Joins orders with customers."""
    app = Pipeline("bench-join")
    customers = app.table("customers/*", decode=bytes.decode)
    pairs = app.source("orders/*", decode=bytes.decode).join(customers, on=str.encode, how="left", retention="0 s")
    pairs.sink("bench", encode=_encoded)
    return app


@dataclass(slots=True)
class Meeting:
    """The rows of a customer by time, and the orders that wait."""

    rows: list[tuple[int, str]] = field(default_factory=list)
    waiting: list[tuple[int, str]] = field(default_factory=list)


def meet(value: tuple[int, str], meeting: Meeting, context: Context) -> list[tuple[str, str | None]]:
    """Keeps a row, or an order until event time has passed it."""
    side, text = value
    assert context.event_time is not None
    if side:
        meeting.rows.append((context.event_time, text))
    else:
        meeting.waiting.append((context.event_time, text))
        context.set_timer(at=context.event_time + 1)
    return []


def due(meeting: Meeting, context: Context) -> list[tuple[str, str | None]]:
    """Pairs the orders that event time has passed with the rows as of their times."""
    assert context.event_time is not None
    count = bisect_right(meeting.waiting, (context.event_time, ""))
    found, meeting.waiting = meeting.waiting[:count], meeting.waiting[count:]
    pairs: list[tuple[str, str | None]] = []
    for at, text in found:
        last = bisect_right(meeting.rows, (at, _LAST)) - 1
        pairs.append((text, meeting.rows[last][1] if last >= 0 else None))
        meeting.rows = meeting.rows[max(last, 0) :]
    return pairs


def joined_by_hand() -> Pipeline:
    """Does what `joined` does, in a stateful function with timers."""
    app = Pipeline("bench-join-by-hand")
    customers = app.source("customers/*", decode=lambda payload: (1, payload.decode()))
    both = customers.merge(app.source("orders/*", decode=lambda payload: (0, payload.decode())))
    pairs = both.key_by(lambda value: value[1].encode()).stateful_flat(meet, Meeting, on_timer=due)
    pairs.sink("bench", encode=_encoded)
    return app


async def called(word: str, call: Call | None) -> str:
    """Waits as for a service."""
    await asyncio.sleep(CALL_S)
    return word


def awaited() -> Pipeline:
    """Awaits a call for each word."""
    app = Pipeline("bench-map-async")
    app.source("words/*", decode=bytes.decode).map_async(called, concurrency=CALLS).key_by(name="key").sink("bench")
    return app


def aggregated(aggregation: Aggregation[int, Any, Any], *, before_shuffle: bool = False) -> Pipeline:
    """Aggregates the numbers of each word in windows."""
    app = Pipeline("bench-windows")
    numbers = app.source("words/*", decode=int).key_by()
    windowed = numbers.window(tumbling(f"{WINDOW}us"))
    windowed.aggregate(aggregation, before_shuffle=before_shuffle, name="window").sink("bench", encode=_encoded)
    return app


def _in_windows(
    name: str, aggregation: Aggregation[int, Any, Any], result: Callable[[list[int]], Any], say: Say, sizes: Sizes, least: float
) -> Iterator[Figure]:
    words = Words(KEYS)
    batches = [_dated(words, at, at + FRAME) for at in range(0, sizes.meeting_messages, FRAME)]
    ways = {name: lambda: rate_alone(aggregated(aggregation), batches), "loop": lambda: _loop(batches, result)}
    yield from _against(name, ways, say, sizes, least)


def _percentile(values: list[int]) -> int:
    return sorted(values)[ceil(0.99 * len(values)) - 1]


def _loop(batches: Sequence[Sequence[Columns]], result: Callable[[list[int]], Any]) -> tuple[float, int]:
    frames = [frame for batch in batches for frame in batch]
    begun, at, results = time.process_time(), 0, list[bytes]()
    kept: dict[bytes, list[int]] = {}
    for frame in frames:
        for number in range(frame.rows):
            if at and at % WINDOW == 0:
                results += [_encoded(result(values)) for values in kept.values()]
                kept = {}
            value = frame.values[8 * number : 8 * number + 8]
            kept.setdefault(value, []).append(int(value))
            at += 1
    results += [_encoded(result(values)) for values in kept.values()]
    return at / (time.process_time() - begun), len(results)


def _step_alone(batches: Sequence[Sequence[Columns]]) -> tuple[float, int]:
    """The rate of the step without what is before and behind it."""
    app, took = awaited(), 0.0
    (step,) = (step for step in app.graph.steps if step.label == "map_async")
    apply = step.apply

    def timed(elements: Any, step_pass: Any) -> Any:
        nonlocal took
        begun = time.process_time()
        found = apply(elements, step_pass)
        took += time.process_time() - begun
        return found

    object.__setattr__(step, "apply", timed)  # A step is frozen.
    _, results = rate_alone(app, batches)
    return sum(frame.rows for batch in batches for frame in batch) / took, results


def _bare(frames: Sequence[Columns]) -> float:
    words = [frame.values[8 * number : 8 * number + 8] for frame in frames for number in range(frame.rows)]

    async def main() -> list[str]:
        results, waiting = [""] * len(words), iter(enumerate(words))

        async def take() -> None:
            for index, word in waiting:
                results[index] = await called(word.decode(), None)

        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS):
                group.create_task(take())
        return results

    begun = time.process_time()
    asyncio.run(main())
    return len(words) / (time.process_time() - begun)


def _against(name: str, ways: dict[str, Measure], say: Say, sizes: Sizes, least: float) -> Iterator[Figure]:
    """Runs two ways in turns; yields the rate of the first one against the second one, and against itself."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    counts = set[int]()
    for number in range(sizes.meeting_rounds + 1):
        for way, measure in ways.items():
            found, results = measure()
            counts.add(results)
            if number:  # The first round warms up.
                rates[way].append(found)
    if len(counts) > 1 or not min(counts):
        raise RuntimeError(f"{name}: both ways have the same number of results, and not {sorted(counts)}")
    own, other = (statistics.median(found) for found in rates.values())
    say(f"  {own:,.0f} messages/s of processor time, {other:,.0f} {list(ways)[1]}: {own / other:.2f}")
    yield Figure(name, own, _UNIT, other, f">= {least} of the baseline", own >= least * other)
    yield from itself(name, next(iter(rates.values())), _UNIT)


def _dated(words: Words, begin: int, end: int) -> list[Columns]:
    """Messages, each a microsecond after the one before."""
    return [
        frame._replace(event_times=np.arange(frame.first, frame.last + 1, dtype="<i8").tobytes())
        for frame in words.frames(begin, end)
    ]


def _encoded(result: object) -> bytes:
    return str(result).encode()
