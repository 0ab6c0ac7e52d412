"""The input of the pipelines benchmark and the results that it expects, against the functions themselves."""

import pytest

from headrace.engine.codec import record_batch
from headrace.laboratory.bench.pipelines import columnar
from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, WORD_COUNT, App, market_spread_by_function
from headrace.laboratory.bench.pipelines.connectors import batch
from headrace.laboratory.bench.pipelines.feed import FRAME, Feed, MarketFeed, Words, frames
from headrace.laboratory.bench.pipelines.inprocess import FeedReader
from headrace.laboratory.bench.pipelines.loop import check, plain_loop
from headrace.pipelines import Message, Trial

FEEDS = pytest.mark.parametrize(
    ("app", "feed"), [(MARKET_SPREAD, MarketFeed()), (WORD_COUNT, Words(300)), (WORD_COUNT, Words(300, 600))]
)


@FEEDS
@pytest.mark.parametrize("messages", [9_998, 10_002, 30_000, 160_000])
def test_the_results_to_expect_are_those_of_a_plain_loop(app: App, feed: Feed, messages: int) -> None:
    check(feed, plain_loop(app, feed, messages), messages)


@FEEDS
def test_the_pipeline_gives_what_the_loop_gives(app: App, feed: Feed) -> None:
    trial = Trial(app.pipeline())
    for message in messages(feed, 12_000):
        trial.send(message)
    assert sorted(trial.values("bench")) == sorted(plain_loop(app, feed, 12_000).results)
    assert trial.values("bench")


def test_a_computed_key_is_the_key_of_the_message() -> None:
    one, other = Trial(MARKET_SPREAD.pipeline()), Trial(market_spread_by_function())
    for message in messages(MarketFeed(), 12_000):
        one.send(message)
        other.send(message)
    assert one.states("markets").keys() == other.states("markets").keys()
    assert one.values("bench") == other.values("bench")


def test_columns_lead_to_what_single_values_lead_to() -> None:
    one, other = Trial(MARKET_SPREAD.pipeline()), Trial(columnar.market_spread())
    for message in messages(MarketFeed(), 12_000):
        one.send(message)
        other.send(message)
    assert one.states("markets") == other.states("markets")
    assert one.values("bench") == other.values("bench") != []


def test_frames_are_cut_anywhere_and_hold_the_same() -> None:
    whole = record_batch(list(frames(Words(1000), 0, 3 * FRAME)))
    pieces = [frame for begin in range(0, 3 * FRAME, 700) for frame in frames(Words(1000), begin, min(begin + 700, 3 * FRAME))]
    assert record_batch(pieces).equals(whole)


def test_a_connector_gives_what_the_source_within_spark_gives() -> None:
    for frame in frames(MarketFeed(), 0, 2 * FRAME):
        given = batch(frame)
        assert len(given) == frame.rows
        assert given.sequences == range(frame.first, frame.last + 1)


@pytest.mark.parametrize("feed", [MarketFeed(), Words(1000)])
def test_micro_batches_hold_every_message_once(feed: Feed) -> None:
    sizes = [20, 200_000, 130_002]
    reader = FeedReader(feed, sizes, 2, None)
    offset, found = reader.initialOffset(), []
    for size in sizes:
        end = reader.latestOffset(offset, None)
        rows = [
            (stream, sequence)
            for part in reader.partitions(offset, end)
            for rows in reader.read(part)
            for stream, sequence in zip(rows["stream"].to_pylist(), rows["sequence"].to_pylist(), strict=True)
        ]
        assert len(rows) == size
        found += rows
        offset = end
    assert reader.latestOffset(offset, None) == offset
    assert len(set(found)) == len(found) == sum(sizes)


def messages(feed: Feed, count: int) -> list[Message]:
    """The same messages, one by one."""
    found = []
    for frame in frames(feed, 0, count):
        rows = record_batch([frame])
        columns = zip(rows["value"].to_pylist(), rows["key"].to_pylist(), rows["sequence"].to_pylist(), strict=True)
        found += [Message(value, key, None, frame.stream, sequence + 1) for value, key, sequence in columns]
    return found
