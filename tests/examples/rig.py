"""A gateway, sources and sinks in this process, around pipelines that run on Spark."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.gateway.wire import serve as serve_gateway

from headrace.connectors import FileSink, SinkFormat
from headrace.engine import start
from headrace.pipelines import Pipeline
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc
from headrace.sdk import Settings, Sink, Source, serve

DEADLINE_S = 120.0
T = TypeVar("T")


class Rig:
    """Runs pipelines on the streams of sources, to their end."""

    def __init__(self, spark: SparkSession, folder: Path, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self._spark, self._folder, self._address, self._loop = spark, folder, address, loop

    query: StreamingQuery
    """The last query that ran."""
    settings = Settings()
    """The settings of sources."""

    def run(
        self,
        pipeline: Pipeline,
        source: Source,
        checkpoint: str = "checkpoint",
        drop_states: Sequence[str] = (),
        into: Path | None = None,
        migrate_states: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        sinks: Mapping[str, Sink] | None = None,
        until: Callable[[Path], bool] = lambda folder: True,
        **started: Any,
    ) -> dict[str, list[bytes]]:
        """What each sink gets until everything that the source gives is committed; in a folder of its own if none is given.

        `until` is true of that folder once the query may end.

        The sinks are the named ones, and file sinks, whose content it returns. Further words are for `start`,
        such as `available_now=True`.
        """
        names, stop = pipeline.graph.sinks, asyncio.Event()
        folder = into or Path(mkdtemp(dir=self._folder))
        file_sinks = {name: FileSink(name, folder / name, SinkFormat.LENGTH_PREFIXED) for name in names}
        all_sinks: dict[str, Sink] = {**file_sinks, **(sinks or {})}
        serving = [self._submit(serve(sink, gateway=self._address, stop=stop)) for sink in all_sinks.values()]
        # A folder of its own lacks what the runs before have written.
        options = {"gateway": self._address, "onSinkLoss": "fail" if into else "accept", **(options or {})}
        query = None
        try:
            place = self._folder / checkpoint
            kept = {"drop_states": drop_states, "migrate_states": migrate_states}
            query = start(pipeline, self._spark, place, options=options, **kept, **started)
            given = self._submit(serve(source, gateway=self._address, stop=stop, settings=self.settings))
            serving.append(given)
            if started.get("available_now"):
                assert query.awaitTermination(DEADLINE_S), "a bounded run ends"
            self.query = query
            while not given.done() and query.isActive:
                with contextlib.suppress(TimeoutError):
                    given.result(0.1)
            if failure := query.exception():
                raise failure
            if given.done():
                given.result()
            deadline = time.monotonic() + DEADLINE_S
            while not until(folder) and query.isActive:
                assert time.monotonic() < deadline, "the query does not come to its end"
                time.sleep(0.02)
            self._await_visible()
            query.stop()
        finally:
            if query is not None:
                query.stop()
            self._loop.call_soon_threadsafe(stop.set)
            for one in serving:
                one.result(DEADLINE_S)
            for file_sink in file_sinks.values():
                file_sink.close()
        return {name: records(folder / name) for name in names}

    def _await_visible(self) -> None:
        """Waits until the sinks show what is committed: they hear of it after the commit log does, and after the source."""
        deadline = time.monotonic() + DEADLINE_S
        with grpc.insecure_channel(self._address) as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            while pending := [
                sink.sink
                for sink in stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S).sinks
                if sink.pending_transactions
            ]:
                assert time.monotonic() < deadline, f"{pending} do not show what is committed"
                time.sleep(0.02)

    def _submit(self, coroutine: Coroutine[Any, Any, None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


@contextmanager
def rig(spark: SparkSession, folder: Path) -> Iterator[Rig]:
    """A gateway of its own on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    gateway = serve_gateway()
    try:
        _, address = asyncio.run_coroutine_threadsafe(_entered(gateway), loop).result(DEADLINE_S)
        try:
            yield Rig(spark, folder, address, loop)
        finally:
            asyncio.run_coroutine_threadsafe(_left(gateway), loop).result(DEADLINE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _entered(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _left(context: AbstractAsyncContextManager[object]) -> None:
    await context.__aexit__(None, None, None)


def records(folder: Path) -> list[bytes]:
    """The records of a sink's files, in order."""
    found, data, at = [], b"".join(path.read_bytes() for path in sorted(folder.glob("*.bin"))), 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : end])
        at = end
    return found
