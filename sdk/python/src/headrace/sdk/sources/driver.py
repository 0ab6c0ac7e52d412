"""Validates a source, and calls its methods on threads or on the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from headrace.contract.errors import HeadraceError
from headrace.contract.limits import PROTOCOL_VERSION
from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk._errors import InvalidSource, SourceFailed
from headrace.sdk._settings import stream_name
from headrace.sdk.calls import Calls
from headrace.sdk.sources.reader import Reader, ReaderTask, ThreadReader
from headrace.sdk.sources.source import AsyncSource, Source, SourceKind
from headrace.sdk.sources.starts import KnownStarts
from headrace.sdk.sources.task_reader import TaskReader
from headrace.sdk.wire import SDK, Connection, Position, Stream, reports_of

T = TypeVar("T")


class Driver:
    """A validated source, and the caller of its methods."""

    response = pb.IngestResponse
    fields: Mapping[str, str] = {}
    """What all log lines of a session contain."""

    def __init__(self, source: Source | AsyncSource) -> None:
        """Checks the source.

        Raises:
            InvalidSource: It is not a source, its name is not allowed, or it is redelivering and chooses starts.
        """
        if not isinstance(source, Source | AsyncSource):
            raise InvalidSource(f"{type(source).__name__} is neither a Source nor an AsyncSource")
        if not source.name:
            raise InvalidSource(
                f"{type(source).__name__} has no name: set the attribute `name` to the source part of its streams"
            )
        stream_name(source.name, "0")
        self.name = source.name
        self.connector = source.connector or source.name
        self.version = str(source.version)
        self.kind = source.kind
        self.chooses_start = source.chooses_start
        if self.chooses_start and self.kind is not SourceKind.REPLAYABLE:
            raise InvalidSource(f"source {self.name}: chooses_start is for replayable sources")
        self.starts = KnownStarts(self._ask_for_starts)
        self.takes_turns = source.takes_turns
        self.reports = reports_of(source)
        self.calls = Calls(f"source {source.name}", self.reports)
        self._source = source
        self._asking: asyncio.Future[Any] | None = None
        self._working: set[asyncio.Future[None]] = set()

    async def hello(self, instance: str) -> pb.IngestRequest:
        """Returns the first message of a session."""
        hello = pb.Hello(
            protocol_version=PROTOCOL_VERSION,
            connector=self.connector,
            connector_version=self.version,
            instance=instance,
            capabilities=[pb.CAPABILITY_PACE, pb.CAPABILITY_HEARTBEAT, pb.CAPABILITY_FRAMES, pb.CAPABILITY_CURSORS],
            sdk=SDK,
        )
        return pb.IngestRequest(hello=hello)

    def begin(self, connection: Connection) -> Stream[pb.IngestRequest]:
        """Begins the call of a session."""
        return connection.ingest()

    async def partitions(self, at_most: int) -> Sequence[str]:
        """Returns the source's partitions.

        Raises:
            SourceFailed: The source raised an exception.
            InvalidSource: A name is not allowed or listed twice, or there are more partitions than the gateway allows streams.
        """
        source = self._source
        source.streams_allowed = at_most
        try:
            if isinstance(source, AsyncSource):
                with self.calls.on_task():
                    partitions = list(await source.partitions())
            else:
                partitions = await self._ask(lambda: list(source.partitions()))
        except HeadraceError:
            raise
        except Exception as error:
            raise SourceFailed(f"source {self.name}: partitions() raised {type(error).__name__}: {error}") from error
        for partition in partitions:
            stream_name(self.name, partition)
        if len(set(partitions)) != len(partitions):
            raise InvalidSource(f"source {self.name}: partitions() lists a partition twice: {partitions}")
        if len(partitions) > at_most and not self.takes_turns:
            raise InvalidSource(
                f"source {self.name} has {len(partitions)} partitions, but the gateway limits a session to {at_most}: "
                "split them over several instances"
            )
        if self.chooses_start:
            self.starts.listed(partitions)
        self.reports.connected()
        return partitions

    async def _ask_for_starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """Returns the positions at which partitions begin.

        Raises:
            SourceFailed: The source raised an exception.
        """
        source = self._source
        try:
            if isinstance(source, AsyncSource):
                with self.calls.on_task():
                    return dict(await source.starts(partitions))
            return await self._ask(lambda: dict(source.starts(partitions)))
        except HeadraceError:
            raise
        except Exception as error:
            raise SourceFailed(f"source {self.name}: starts() raised {type(error).__name__}: {error}") from error

    def reader(self, task: ReaderTask) -> Reader:
        """Starts to read a partition."""
        source = self._source
        reader: Reader = (
            TaskReader(source, task, self.calls) if isinstance(source, AsyncSource) else ThreadReader(source, task, self.calls)
        )
        for work in reader.working:
            self._working.add(work)
            work.add_done_callback(self._working.discard)
        return reader

    @property
    def closes(self) -> bool:
        """Whether the source has a `close` of its own."""
        return type(self._source).close not in (Source.close, AsyncSource.close)

    async def idle(self) -> None:
        """Returns once no method of the source runs."""
        if working := {*self._working, *([] if self._asking is None else [self._asking])}:
            await asyncio.wait(working)

    async def close(self) -> None:
        """Calls the source's `close`."""
        if isinstance(self._source, AsyncSource):
            await self._source.close()
        else:
            await self._ask(self._source.close)

    async def _ask(self, question: Callable[[], T]) -> T:
        """Calls the source on a daemon thread, which does not keep the process from exiting; one call at a time."""
        while self._asking is not None and not self._asking.done():
            # A call whose caller was cancelled continues.
            await asyncio.wait({self._asking})
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._asking = answer

        def ask() -> None:
            try:
                with self.calls.on_thread():
                    complete = partial(_complete, answer, question(), None)
            except BaseException as raised:
                complete = partial(_complete, answer, None, raised)
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody awaits the result
                loop.call_soon_threadsafe(complete)

        threading.Thread(target=ask, name=f"headrace partitions of {self.name}", daemon=True).start()
        return await asyncio.shield(answer)


def _complete(answer: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Completes a future."""
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
