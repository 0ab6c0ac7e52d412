"""Calls a source in the way that suits it: on threads, or on the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence

from headrace.sdk._errors import HeadraceError, InvalidSource, SourceFailed
from headrace.sdk._reader import Reader, ReaderTask, ThreadReader
from headrace.sdk._settings import stream_name
from headrace.sdk._source import AsyncSource, Source
from headrace.sdk._task_reader import TaskReader


class Driver:
    """A source, checked, and how its methods are called."""

    def __init__(self, source: Source | AsyncSource) -> None:
        """Checks the source.

        Raises:
            InvalidSource: It is not a source, or its name is not allowed.
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
        self._source = source
        self._asking: asyncio.Future[list[str]] | None = None

    async def partitions(self, at_most: int) -> Sequence[str]:
        """Asks for the partitions.

        Raises:
            SourceFailed: The source raised.
            InvalidSource: A name is not allowed, or listed twice, or there are more than the gateway allows.
        """
        try:
            if isinstance(self._source, AsyncSource):
                partitions = list(await self._source.partitions())
            else:
                partitions = await self._ask(self._source)
        except HeadraceError:
            raise
        except Exception as error:
            raise SourceFailed(f"source {self.name}: partitions() raised {type(error).__name__}: {error}") from error
        for partition in partitions:
            stream_name(self.name, partition)
        if len(set(partitions)) != len(partitions):
            raise InvalidSource(f"source {self.name}: partitions() lists a partition twice: {partitions}")
        if len(partitions) > at_most:
            raise InvalidSource(
                f"source {self.name}: {len(partitions)} partitions, and the gateway allows a session {at_most} streams; "
                "split them over several instances"
            )
        return partitions

    def reader(self, task: ReaderTask) -> Reader:
        """Starts to read a partition."""
        if isinstance(self._source, AsyncSource):
            return TaskReader(self._source, task)
        return ThreadReader(self._source, task)

    async def _ask(self, source: Source) -> list[str]:
        """Calls `partitions` on a thread: never twice at a time, and on one that does not keep a process that wants to exit."""
        if self._asking is None or self._asking.done():
            loop = asyncio.get_running_loop()
            answer = self._asking = loop.create_future()

            def ask() -> None:
                try:
                    listed, error = list(source.partitions()), None
                except BaseException as raised:
                    listed, error = [], raised
                with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits any more
                    loop.call_soon_threadsafe(_settle, answer, listed, error)

            threading.Thread(target=ask, name=f"headrace partitions of {self.name}", daemon=True).start()
        return await asyncio.shield(self._asking)


def _settle(answer: asyncio.Future[list[str]], listed: list[str], error: BaseException | None) -> None:
    """Completes a future."""
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(listed)
