"""Faults of queries on Spark: each is named with its first cause, and is gone when it is repaired."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.health.site import Site, site

from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.engine import start
from headrace.pipelines import Pipeline
from headrace.sdk import serve

pytestmark = pytest.mark.timeout(400)


def strict(line: str) -> str:
    if line == "bad":
        raise ValueError("no price in 'bad'")
    return line


def lenient(line: str) -> str:
    return line


def priced(price: Callable[[str], str]) -> Pipeline:
    app = Pipeline("priced")
    app.source("n/*", decode=bytes.decode).map(price, name="price").sink("out")
    return app


@asynccontextmanager
async def files(here: Site, folder: Path) -> AsyncIterator[Path]:
    """A source that follows a file, and a sink; yields the file."""
    file = folder / "n" / "0"
    file.parent.mkdir()
    file.write_text("good\n")
    sink = FileSink("out", folder / "out", SinkFormat.LENGTH_PREFIXED)
    stop = asyncio.Event()
    tasks = [asyncio.create_task(serve(one, gateway=here.address, stop=stop)) for one in (FileSource("n", [file]), sink)]
    try:
        yield file
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        sink.close()


async def test_a_function_that_raises_for_ever(spark: SparkSession, tmp_path: Path) -> None:
    def run(price: Callable[[str], str]) -> StreamingQuery:
        return start(priced(price), spark, tmp_path / "checkpoint", options={"gateway": here.address})

    async with site(tmp_path) as here, files(here, tmp_path) as file:
        query = await asyncio.to_thread(run, strict)
        await here.is_well()
        with file.open("a") as more:
            more.write("bad\n")
        part = "pipeline priced"
        # It names the first error, also while a supervisor starts the query again and again.
        for _ in range(2):
            found = await here.names("pipeline-fails", part, "ValueError: no price in 'bad'")
            assert found[part]["root"] == part
            assert "in strict" in found[part]["cause"]
            with pytest.raises(StreamingQueryException):
                await asyncio.to_thread(query.awaitTermination, 60)
            assert (await here.status())[part]["kind"] == "pipeline-fails"
            query = await asyncio.to_thread(run, strict)
        with pytest.raises(StreamingQueryException):
            await asyncio.to_thread(query.awaitTermination, 60)
        query = await asyncio.to_thread(run, lenient)
        await here.is_well()
        query.stop()
