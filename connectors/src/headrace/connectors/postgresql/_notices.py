"""One connection that listens for whoever notifies, on behalf of all who read."""

import asyncio
import time
from contextlib import suppress

import psycopg
from psycopg import sql

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._link import Link

_LISTENS_SECONDS = 10.0


class Notices:
    """Tells when somebody has notified a channel. What was told while there was no connection, nobody has heard: that counts."""

    def __init__(self, database: Database, channel: str) -> None:
        """Listens to nothing yet."""
        self._database = database
        self._channel = channel
        self._told_at = float("-inf")
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Listens from now on, if it does not already."""
        if self._task is None:
            self._news = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name=f"headrace listens on {self._channel}")

    async def end(self) -> None:
        """Listens no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def wait(self, since: float, seconds: float) -> float:
        """Waits until somebody notifies who has not before a moment, at most for a while; returns since when to look again.

        Those who wait at about the same time share a look.

        Raises:
            HeadraceError: It is not allowed to listen; of the database's type.
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
        await session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._tell()
        return session

    async def _hear(self, session: Session) -> None:
        if await session.notified(_LISTENS_SECONDS):
            self._tell()

    def _tell(self) -> None:
        """Wakes all who wait."""
        self._told_at = time.monotonic()
        self._news.set()
        self._news = asyncio.Event()
