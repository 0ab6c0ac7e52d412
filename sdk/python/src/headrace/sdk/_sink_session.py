"""One session of a sink with a gateway, from Welcome to its end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._session import Ending
from headrace.sdk._settings import Settings
from headrace.sdk._sink import IdempotentSink, TwoPhaseSink
from headrace.sdk._sink_async import AsyncIdempotentSink, AsyncTwoPhaseSink
from headrace.sdk._sink_desk import Broke, Desk, Say
from headrace.sdk._sink_driver import SinkDriver
from headrace.sdk._sink_idempotent import IdempotentDesk
from headrace.sdk._sink_in_order import AtLeastOnceDesk
from headrace.sdk._sink_two_phase import TwoPhaseDesk
from headrace.sdk._tasks import Tasks

log = logging.getLogger("headrace.sdk")

Read = Callable[[], Awaitable[pb.SinkServiceAttachResponse]]
Write = Callable[[pb.SinkServiceAttachRequest], Awaitable[None]]

_DRAIN_SHARE = 0.9
_BUSY_SHARE = 0.25
"""How much of the time that the gateway waits for a sink that does not read passes before it is told that the sink is busy."""
_GOODBYE_SECONDS = 1.0


class SinkSession:
    """The sink's side of one call."""

    def __init__(
        self, driver: SinkDriver, settings: Settings, welcome: pb.SinkWelcome, write: Write, read: Read, stop: asyncio.Event
    ) -> None:
        """Takes over a call that was welcomed; leaves it when `stop` is set."""
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
        self._desk = _desk(driver, settings, self._say, self._fail)

    async def run(self) -> Ending:
        """Serves the session until it ends; the sink then does nothing more for it.

        Raises:
            Exception: What the call raised when it broke.
        """
        receiving = self._tasks.start(self._receive())
        self._tasks.start(self._watch_stop())
        if self._busy_seconds:
            self._tasks.start(self._tell_busy())
        try:
            ending = await self._end
            await self._say(pb.SinkServiceAttachRequest(goodbye=pb.SinkGoodbye(reason=ending.value)))
            # The gateway ends the call; to cancel it could overtake what was just written.
            await asyncio.wait({receiving}, timeout=_GOODBYE_SECONDS)
            return ending
        finally:
            await self._close()

    async def _receive(self) -> None:
        """Takes what the gateway sends, until the call ends. What comes while the session is left is not taken any more."""
        while True:
            message = await self._read()
            if message.HasField("drain"):
                log.info("the gateway asks to reconnect: %s", message.drain.reason)
                self._leave(Ending.DRAINED, message.drain.deadline_ms / 1000 * _DRAIN_SHARE)
            elif self._leaving is None:
                self._taking = True
                await self._desk.take(message)
                self._taking = False

    async def _tell_busy(self) -> None:
        """Tells the gateway that the sink is alive, as long as what has been read waits for it and nothing more is read."""
        while True:
            await asyncio.sleep(self._busy_seconds)
            if self._taking:
                await self._say(pb.SinkServiceAttachRequest(busy=pb.SinkBusy()))

    async def _say(self, request: pb.SinkServiceAttachRequest) -> None:
        """Sends an answer. Where the call has broken, that ends the session, and the answer is not needed."""
        try:
            async with self._writing:
                await self._write(request)
        except Exception as error:
            self._fail(error)

    async def _watch_stop(self) -> None:
        """Leaves when asked to."""
        await self._stop.wait()
        self._leave(Ending.STOPPED, self._settings.drain_seconds)

    def _leave(self, why: Ending, seconds: float) -> None:
        """Takes nothing more; ends the session once what has arrived is answered, or after a while."""
        if self._leaving is None:
            self._leaving = why
            self._tasks.start(self._finish(why, seconds))

    async def _finish(self, why: Ending, seconds: float) -> None:
        """Answers what has arrived, then ends `run`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._desk.finish()
        if not self._end.done():
            self._end.set_result(why)

    def _fail(self, error: BaseException) -> None:
        """Ends `run` with an error."""
        if not self._end.done():
            self._end.set_exception(error)

    async def _close(self) -> None:
        """Waits until the sink does nothing more; no longer than a while where the connector shall stop."""
        if self._end.done() and not self._end.cancelled():
            self._end.exception()
        if tasks := self._tasks.cancel():
            await asyncio.wait(tasks)
        closing = asyncio.create_task(self._desk.close())
        stopping = asyncio.create_task(self._stop.wait())
        began = time.monotonic()
        try:
            while not closing.done():
                waiting = {closing} if self._stop.is_set() else {closing, stopping}
                await asyncio.wait(waiting, timeout=self._patience(), return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    break
                busy = time.monotonic() - began
                if busy >= self._patience():
                    log.warning("sink %s: still busy with what is no longer needed, for %.0f s", self._driver.name, busy)
                    if self._stop.is_set():
                        break
        finally:
            for task in (closing, stopping):
                task.cancel()
            await asyncio.gather(closing, stopping, return_exceptions=True)

    def _patience(self) -> float:
        """How long to wait for a sink before that is reported, or it is given up, in seconds."""
        return min(self._settings.stuck_seconds, self._settings.drain_seconds)


def _desk(driver: SinkDriver, settings: Settings, say: Say, broke: Broke) -> Desk:
    """Where the sink's mode is worked at."""
    sink = driver.sink
    if isinstance(sink, TwoPhaseSink | AsyncTwoPhaseSink):
        return TwoPhaseDesk(sink, driver, settings, say, broke)
    if isinstance(sink, IdempotentSink | AsyncIdempotentSink):
        return IdempotentDesk(sink, driver, settings, say, broke)
    return AtLeastOnceDesk(sink, driver, settings, say, broke)
