"""One session of a sink with a gateway, from Welcome to its end."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from headrace.contract import clock
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._settings import Settings
from headrace.sdk.sinks.async_sinks import AsyncIdempotentSink, AsyncTwoPhaseSink
from headrace.sdk.sinks.driver import SinkDriver
from headrace.sdk.sinks.handler import Fail, Say, SinkHandler
from headrace.sdk.sinks.idempotent import IdempotentHandler
from headrace.sdk.sinks.in_order import AtLeastOnceHandler
from headrace.sdk.sinks.sink import IdempotentSink, TwoPhaseSink
from headrace.sdk.sinks.two_phase import TwoPhaseHandler
from headrace.sdk.wire import Ending, Tasks

log = logging.getLogger("headrace.sdk")

Read = Callable[[], Awaitable[pb.SinkServiceAttachResponse]]
Write = Callable[[pb.SinkServiceAttachRequest], Awaitable[None]]

_DRAIN_SHARE = 0.9
_BUSY_SHARE = 0.25
"""The interval between busy messages, as a fraction of the gateway's read timeout."""
_GOODBYE_S = 1.0


class SinkSession:
    """The sink's side of one session."""

    def __init__(
        self, driver: SinkDriver, settings: Settings, welcome: pb.SinkWelcome, write: Write, read: Read, stop: asyncio.Event
    ) -> None:
        """Takes over a call after Welcome; ends it when `stop` is set."""
        self._busy_seconds = welcome.read_timeout_ms / 1000 * _BUSY_SHARE
        self._driver = driver
        self._settings = settings
        self._write = write
        self._read = read
        self._stop = stop
        self._writing = asyncio.Lock()
        self._leaving: Ending | None = None
        self._taking = False
        self._tasks = Tasks(self._fail)
        self._end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._handler = _handler(driver, settings, self._say, self._fail)

    async def run(self) -> Ending:
        """Serves the session until it ends; no method of the sink runs for it afterwards.

        Raises:
            Exception: The error of the call, if it broke.
        """
        receiving = self._tasks.start(self._receive())
        self._tasks.start(self._watch_stop())
        self._tasks.start(self._driver.reports.send(self._report))
        if self._busy_seconds:
            self._tasks.start(self._tell_busy())
        try:
            ending = await self._end
            await self._say(pb.SinkServiceAttachRequest(goodbye=pb.SinkGoodbye(reason=ending.value)))
            # The gateway ends the call; cancelling it could overtake what was just written.
            await asyncio.wait({receiving}, timeout=_GOODBYE_S)
            return ending
        finally:
            await self._close()

    async def _receive(self) -> None:
        """Receives messages until the call ends. Ignores messages that arrive while the session is ending."""
        while True:
            message = await self._read()
            if message.HasField("drain"):
                log.info("the gateway asks to reconnect: %s", message.drain.reason)
                self._leave(Ending.DRAINED, message.drain.deadline_ms / 1000 * _DRAIN_SHARE)
            elif self._leaving is None:
                self._taking = True
                await self._handler.take(message)
                self._taking = False

    async def _tell_busy(self) -> None:
        """Sends SinkBusy periodically while a message waits for the sink and nothing more is read."""
        while True:
            await asyncio.sleep(self._busy_seconds)
            if self._taking:
                await self._say(pb.SinkServiceAttachRequest(busy=pb.SinkBusy()))

    async def _say(self, request: pb.SinkServiceAttachRequest) -> None:
        """Sends an answer. If the call is broken, ends the session; the answer is then not needed."""
        try:
            async with self._writing:
                await self._write(request)
        except Exception as error:
            self._fail(error)

    async def _report(self, report: connector_pb2.Report) -> None:
        await self._say(pb.SinkServiceAttachRequest(report=report))

    async def _watch_stop(self) -> None:
        """Ends the session when `stop` is set."""
        await self._stop.wait()
        self._leave(Ending.STOPPED, self._settings.drain_seconds)

    def _leave(self, why: Ending, seconds: float) -> None:
        """Stops accepting messages; ends the session once everything that has arrived is answered, or after `seconds`."""
        if self._leaving is None:
            self._leaving = why
            self._tasks.start(self._finish(why, seconds))

    async def _finish(self, why: Ending, seconds: float) -> None:
        """Answers everything that has arrived, then ends `run`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._handler.finish()
        if not self._end.done():
            self._end.set_result(why)

    def _fail(self, error: BaseException) -> None:
        """Ends `run` with an error."""
        if not self._end.done():
            self._end.set_exception(error)

    async def _close(self) -> None:
        """Waits until no method of the sink runs, for a limited time if the connector must stop."""
        if self._end.done() and not self._end.cancelled():
            self._end.exception()
        if tasks := self._tasks.cancel():
            await asyncio.wait(tasks)
        closing = asyncio.create_task(self._handler.close())
        stopping = asyncio.create_task(self._stop.wait())
        began = clock.monotonic()
        try:
            while not closing.done():
                waiting = {closing} if self._stop.is_set() else {closing, stopping}
                await asyncio.wait(waiting, timeout=self._close_timeout(), return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    break
                busy = clock.monotonic() - began
                if busy >= self._close_timeout():
                    log.warning("sink %s: still busy with what is no longer needed, for %.0f s", self._driver.name, busy)
                    if self._stop.is_set():
                        break
        finally:
            for task in (closing, stopping):
                task.cancel()
            await asyncio.gather(closing, stopping, return_exceptions=True)

    def _close_timeout(self) -> float:
        """Returns how long to wait for a sink before a warning is logged or it is abandoned, in seconds."""
        return min(self._settings.stuck_seconds, self._settings.drain_seconds)


def _handler(driver: SinkDriver, settings: Settings, say: Say, fail: Fail) -> SinkHandler:
    """Creates the handler for the sink's mode."""
    sink = driver.sink
    if isinstance(sink, TwoPhaseSink | AsyncTwoPhaseSink):
        return TwoPhaseHandler(sink, driver, settings, say, fail)
    if isinstance(sink, IdempotentSink | AsyncIdempotentSink):
        return IdempotentHandler(sink, driver, settings, say, fail)
    return AtLeastOnceHandler(sink, driver, settings, say, fail)
