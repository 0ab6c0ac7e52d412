"""The headers of a source reach a sink on Spark: in one stage, through two shuffles, and in real-time mode."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.engine.levels import number, two_levels
from tests.examples.rig import rig

from headrace.pipelines import Pipeline
from headrace.sdk import Message, Outcomes, Position, Rows, Sink, Source

COUNT = 20
WIDE = b" " + b"x" * 1_500_000
"""The rest of a message that is worth two tasks."""


class Numbers(Source):
    """Numbers, of which every third has no headers."""

    name = "n"

    def __init__(self, rest: bytes = b"") -> None:
        self._rest = rest

    def partitions(self) -> list[str]:
        return ["0"]

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        for n in range(0 if position is None else position.sequence, COUNT):
            headers = [("number", b"%d" % n), ("null", None)] if n % 3 else None
            yield Message(b"%d" % n + self._rest, sequence=n + 1, headers=headers)


class Kept(Sink):
    """Keeps the headers of each value."""

    name = "kept"

    def __init__(self) -> None:
        self.headers: dict[bytes, list[tuple[str, bytes | None]]] = {}

    def write(self, rows: Rows) -> Outcomes | None:
        self.headers |= {message.value or b"": list(message.headers or ()) for message in rows.messages()}
        return None


def through(two: bool) -> Pipeline:
    if two:
        return two_levels()
    app = Pipeline("straight")
    app.source("n/*", decode=number).filter(lambda n: n != 1).map(str).sink("out")
    return app


@pytest.mark.each_value
@pytest.mark.parametrize("words", [{"available_now": True}, {"real_time": True, "trigger_interval": "200ms"}], ids=str)
@pytest.mark.parametrize("rest", [b"", WIDE], ids=["small", "large"])
@pytest.mark.parametrize("two", [False, True])
def test_headers_reach_the_sink(spark: SparkSession, tmp_path: Path, two: bool, rest: bytes, words: dict[str, Any]) -> None:
    kept = Kept()
    kept.name = "out"
    with rig(spark, tmp_path) as running:
        running.run(through(two), Numbers(rest), sinks={"out": kept}, **words)
    if two:
        of = {b"%d:%d:%d" % (n % 5, n // 5 + 1, n // 5 + 1): n for n in range(COUNT)}
    else:
        of = {b"%d" % n: n for n in range(COUNT) if n != 1}
    assert kept.headers == {value: [("number", b"%d" % n), ("null", None)] if n % 3 else [] for value, n in of.items()}
