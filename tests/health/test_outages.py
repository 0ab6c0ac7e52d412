"""Queries on Spark while what their sinks write to is away, or rejects them: they wait in one case, and fail in the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.connectors.http.receiver import receiving
from tests.connectors.sink_systems import AT_LEAST_ONCE, LIMITS, OUTAGES, PATIENCE, Network, sink_behind_a_network, sink_to
from tests.health.site import Site
from tests.sdk.python.test_sinks_with_gateway import serving

from headrace.connectors import FileSource
from headrace.connectors.http import HttpSink, HttpSinkParameters
from headrace.engine import register

END_S = 300
"""How long a query may take to fail, or to write what it has, in seconds: far less than `PATIENCE`."""

pytestmark = pytest.mark.timeout(900)


@asynccontextmanager
async def querying(
    spark: SparkSession, here: Site, sink: object, name: str, folder: Path
) -> AsyncIterator[tuple[StreamingQuery, Path]]:
    """A query from a file to a sink, both of a name; yields it, and the file. Another one of the name continues it."""
    file = folder / name / "0"
    if not file.exists():
        file.parent.mkdir()
        file.write_text("first\n")

    register(spark)
    rows = spark.readStream.format("headrace").options(gateway=here.address, stream=f"{name}/*").load()
    writer = rows.selectExpr("value AS key", "value").writeStream.format("headrace").queryName(name)
    writer = writer.options(gateway=here.address, sink=name, checkpointLocation=str(folder / "checkpoint"))
    async with serving(FileSource(name, [file]), here.address), serving(sink, here.address, "i"):
        query = writer.start()
        try:
            yield query, file
        finally:
            await asyncio.to_thread(query.stop)


@pytest.mark.each_value
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("case", ["http-sink", "kafka-sink", "nats-sink", "postgresql-sink", "rabbitmq-sink"])
async def test_a_query_lives_on_while_what_its_sink_writes_to_is_away(
    case: str, outage: str, spark: SparkSession, here: Site, network: Network, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Sinks of each guarantee: at least once, batch-idempotent, two-phase."""
    name = f"outage-{case}-{outage}"
    part, connector = f"sink {name}", f"connector i of sink {name}"
    async with (
        sink_behind_a_network(case, name, network, request) as (sink, system),
        querying(spark, here, sink, name, tmp_path) as (query, file),
    ):
        async with asyncio.timeout(END_S):
            await asyncio.to_thread(query.processAllAvailable)
        system.fail(outage)
        with file.open("a") as more:
            more.write("second\n")
        await here.names("connector-reports", part, f"127.0.0.1:{system.network.port}", root=connector, waits=f"{name}/0")
        assert query.isActive
        system.repair(outage)
        async with asyncio.timeout(END_S):
            await asyncio.to_thread(query.processAllAvailable)
        await here.clears(part, connector)
        assert query.isActive
        stored = await system.stored()
        assert (sorted({*stored}) if case in AT_LEAST_ONCE else stored) == [b"first", b"second"]


@pytest.mark.each_value
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("case", ["http-sink", "kafka-sink", "nats-sink", "rabbitmq-sink"])
async def test_a_query_whose_sink_no_longer_waits_names_it_and_the_setting_and_loses_nothing(
    case: str, outage: str, spark: SparkSession, here: Site, network: Network, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name, (setting, seconds) = f"limit-{case}-{outage}", LIMITS[case]
    async with sink_behind_a_network(case, name, network, request, patience=seconds) as (sink, system):
        async with querying(spark, here, sink, name, tmp_path) as (query, file):
            async with asyncio.timeout(END_S):
                await asyncio.to_thread(query.processAllAvailable)
            system.fail(outage)
            with file.open("a") as more:
                more.write("second\n")
            with pytest.raises(StreamingQueryException) as failed:
                await asyncio.to_thread(query.awaitTermination, END_S)
            assert f"sink {name}" in str(failed.value)
            assert f"{setting} is {seconds:g} s: raise it to wait longer" in str(failed.value)
            system.repair(outage)
        async with querying(spark, here, sink_to(case, name, system), name, tmp_path) as (query, _):
            async with asyncio.timeout(END_S):
                await asyncio.to_thread(query.processAllAvailable)
            stored = await system.stored()
            assert (sorted({*stored}) if case in AT_LEAST_ONCE else stored) == [b"first", b"second"]


async def test_a_receiver_that_rejects_the_sink_fails_the_query_at_once(spark: SparkSession, here: Site, tmp_path: Path) -> None:
    """It does not wait as it would in an outage, and the reason names the receiver and what to do."""
    async with receiving() as receiver:
        receiver.answer = lambda _: web.Response(status=401, text="no token")
        sink = HttpSink(HttpSinkParameters.model_validate({"url": receiver.url, "sink": "rejects", "retry_seconds": PATIENCE}))
        async with querying(spark, here, sink, "rejects", tmp_path) as (query, _):
            with pytest.raises(StreamingQueryException, match=f"{receiver.url} was answered 401 .*no token; set token"):
                await asyncio.to_thread(query.awaitTermination, END_S)
            found = await here.names("sink-fails", "sink rejects", "was answered 401", waits="rejects/0")
            assert receiver.url in found["cause"]
            assert len(receiver.requests) == 1
        receiver.answer = lambda _: 204
        sink = HttpSink(HttpSinkParameters.model_validate({"url": receiver.url, "sink": "rejects"}))
        async with querying(spark, here, sink, "rejects", tmp_path) as (query, _):
            await asyncio.to_thread(query.processAllAvailable)
            await here.clears("sink rejects")
