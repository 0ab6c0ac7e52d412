"""One connection that listens for notifications, on behalf of all readers."""

import asyncio
import time
from contextlib import suppress

import psycopg
from psycopg import sql

from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.link import Link
from headrace.connectors.postgresql.names import name

_LISTENS_S = 10.0


class Notices:
    """Waits for notifications of a channel. A reconnect counts as a notification, because some may have been missed."""

    def __init__(self, database: Database, channel: str) -> None:
        """Creates the object, without listening."""
        self._database = database
        self._channel = channel
        self._told_at = float("-inf")
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts listening, unless it already listens."""
        if self._task is None:
            self._news = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name=f"headrace listens on {self._channel}")

    async def end(self) -> None:
        """Stops listening."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # a failure has been told by `wait`, or concerns nobody

    async def wait(self, since: float, seconds: float) -> float:
        """Waits for a notification after a moment, for a limited time; returns the time since which to check again.

        Readers that wait at about the same time share a check.

        Raises:
            HeadraceError: The user may not listen; of the database's type.
        """
        if self._task is not None and self._task.done():
            await self._task
        if self._told_at <= since:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        return self._told_at if self._told_at > since else time.monotonic() - seconds / 2

    async def _run(self) -> None:
        """Listens until it is cancelled."""
        link: Link[Session] = Link(self._database, self._listen)
        try:
            while True:
                await link.keep_trying(self._hear)
        except psycopg.Error as error:
            raise self._database.refused(error) from error
        finally:
            self._tell()
            await link.close()

    async def _listen(self, session: Session) -> Session:
        await session.execute(sql.SQL("LISTEN {}").format(name(self._channel)))
        self._tell()
        return session

    async def _hear(self, session: Session) -> None:
        if await session.notified(_LISTENS_S):
            self._tell()

    def _tell(self) -> None:
        """Wakes all waiters."""
        self._told_at = time.monotonic()
        self._news.set()
        self._news = asyncio.Event()
