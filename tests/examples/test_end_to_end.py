"""Every example through a gateway and Spark: its sinks hold what a trial run, which the other tests check, gives them."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.examples.loading import Example
from tests.examples.rig import rig

from headrace.connectors import FileSource, Format
from headrace.pipelines import Message, Pipeline, Trial


def tried(app: Pipeline, stream: str, payloads: Iterable[bytes]) -> Trial:
    trial = Trial(app)
    trial.send(*(Message(payload, stream=stream) for payload in payloads))
    return trial


def run(spark: SparkSession, folder: Path, app: Pipeline, file: Path, format: Format = Format.LINES) -> dict[str, list[bytes]]:
    """The messages that the sinks get of a file's records; its streams are called as its folder."""
    with rig(spark, folder) as running:
        return running.run(app, FileSource(file.parent.name, [file], format, follow=False))


@pytest.mark.parametrize(
    ("name", "stream", "count"),
    [
        ("celsius", "celsius/celsius.txt", 5_000),
        ("word_count", "lines/lines.txt", 2_000),
        ("alerts", "sensors/sensors.csv", 4_000),
        ("flights", "flights/flights.csv", 8_000),
    ],
)
def test_lines(spark: SparkSession, tmp_path: Path, name: str, stream: str, count: int) -> None:
    example = Example(name)
    lines = example.feed.lines(count)
    file = tmp_path / stream
    file.parent.mkdir()
    file.write_text("".join(f"{line}\n" for line in lines))
    found = run(spark, tmp_path, example.app.app, file)
    trial = tried(example.app.app, stream, [line.encode() for line in lines])
    assert len(found.pop("unreadable", [])) == len(trial.failed)
    assert found.keys() == set(trial.written)
    for sink, values in found.items():
        assert sorted(values) == sorted(trial.values(sink)), sink


def test_alphabet(spark: SparkSession, tmp_path: Path) -> None:
    example = Example("alphabet")
    records = example.feed.records(5_000)
    file = tmp_path / "votes" / "votes.msg"
    file.parent.mkdir()
    file.write_bytes(b"".join(len(record).to_bytes(4, "big") + record for record in records))
    found = run(spark, tmp_path, example.app.app, file, Format.LENGTH_PREFIXED)
    expected = tried(example.app.app, "votes/votes.msg", records).values("totals")
    assert by_letter(found["totals"]) == by_letter(expected)


def by_letter(totals: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """The totals of each letter, in the order in which they were written."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for total in totals:
        found[total[:1]].append(total[1:])
    return found


def test_market_spread(spark: SparkSession, tmp_path: Path) -> None:
    example = Example("market_spread")
    feed, messages = example.feed.Feed(rejected=0.01), 30_000
    with rig(spark, tmp_path) as running:
        found = running.run(example.app.app, example.source.Market(feed, messages))["rejected"]
    assert orders(example, found) == orders(example, expected(example, feed, messages))
    assert len(found) > 200


def expected(example: Any, feed: Any, messages: int) -> list[bytes]:
    """The rejections where the opening quotes come first."""
    trial = Trial(example.app.app)
    for kind in ("nbbo", "orders"):
        for block in range(messages // example.feed.BLOCK):
            pairs = getattr(feed, kind)(block).messages()
            trial.send(*(Message(value, key, stream=f"market/{kind}") for key, value in pairs))
    return trial.values("rejected")


def orders(example: Any, results: Iterable[bytes]) -> dict[bytes, list[Any]]:
    """The rejected orders of each symbol in order, without the quotes that they met: two streams have no common order."""
    found: dict[bytes, list[Any]] = defaultdict(list)
    for result in map(example.messages.decode_result, results):
        found[result.symbol].append(result._replace(bid=0, offer=0))
    return found
