"""From the Go source through a real gateway into Spark: what is written in another language loses and repeats nothing."""

import asyncio
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.gateway.processes import gateway_process
from tests.go_source.expected import message
from tests.go_source.processes import Program

DEADLINE_S = 120.0
COUNT, PARTITIONS = 20_000, 3
COLUMNS = ("stream", "sequence", "key", "value", "unix_micros(event_time) AS event_time_us", "headers")

pytestmark = pytest.mark.timeout(600)  # The first build compiles gRPC.


async def wait_until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {query.lastProgress}"
        await asyncio.sleep(0.05)


async def test_a_killed_source_loses_and_repeats_nothing(go_source: Program, spark: SparkSession, tmp_path: Path) -> None:
    flags = {"source": "numbers", "instance": "go", "count": COUNT, "partitions": PARTITIONS}
    with gateway_process() as gateway:
        numbers = spark.readStream.format("headrace").option("gateway", gateway.address).option("stream", "numbers/*").load()
        writer = numbers.selectExpr(*COLUMNS).writeStream.format("memory").queryName("from_go")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            # At this rate it cannot end before the deadline, however slow Spark is.
            async with go_source.run(gateway.address, rate=100, **flags) as source:
                await wait_until(lambda: spark.table("from_go").select("stream").distinct().count() == PARTITIONS, query)
                source.process.send_signal(signal.SIGKILL)
                assert await source.wait() == -signal.SIGKILL
            assert spark.table("from_go").count() < COUNT
            async with go_source.run(gateway.address, **flags) as source:
                assert await source.wait(DEADLINE_S) == 0, source.log
                assert all(int(number) > PARTITIONS for number in re.findall(r"next=(\d+)", source.log)), source.log
            # The source has ended, so the checkpoint has everything: nothing to wait for.
            rows = spark.table("from_go").collect()
        finally:
            query.stop()
    assert len(rows) == COUNT
    by_number = {row.sequence: row for row in rows}
    assert sorted(by_number) == list(range(1, COUNT + 1))
    for number, row in by_number.items():
        want = message(number)
        assert row.stream == f"numbers/{(number - 1) % PARTITIONS}"
        assert (bytes(row.key), bytes(row.value), row.event_time_us) == (want.key, want.value, want.event_time)
        assert [(header.name, bytes(header.value)) for header in row.headers] == (want.headers or [])
