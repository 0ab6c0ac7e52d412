"""Connections that are opened when they are needed, and reopened when they were lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import psycopg

from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.errors import is_passing
from headrace.contract.backoff import Backoff

T = TypeVar("T")
S = TypeVar("S")

log = logging.getLogger("headrace.connectors")

_FIRST_BACKOFF_S = 0.05
_MAX_BACKOFF_S = 2.0


class Outdated(Exception):
    """A statement that was prepared on a connection no longer fits the table, so it has to be prepared again."""


class Link(Generic[S]):
    """One connection, and what was prepared on it. One user at a time; others wait."""

    def __init__(self, database: Database, prepare: Callable[[Session], Awaitable[S]]) -> None:
        """Creates the link, without connecting.

        Args:
            database: The database to connect to.
            prepare: Prepares a new connection.
        """
        self._database = database
        self._prepare = prepare
        self._session: Session | None = None
        self._prepared: S | None = None
        self._turn = asyncio.Lock()

    async def keep_trying(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Does repeatable work, and retries without limit if the server is unavailable or busy.

        Raises:
            HeadraceError: A retry would not help.
            psycopg.Error: The server rejects the work.
        """
        backoff = Backoff(_FIRST_BACKOFF_S, _MAX_BACKOFF_S, jitter=0.5)
        while True:
            async with self._turn:
                try:
                    result = await work(await self._ready())
                    self._database.works()
                    return result
                except Outdated as outdated:
                    log.info("%s: %s", self._database.who, outdated)
                    await self.close()
                    continue
                except (psycopg.Error, OSError) as error:
                    await self._let_go()
                    if not is_passing(error):
                        self._database.works()
                        raise
                    self._database.report(error)
                except BaseException:
                    self._database.works()
                    await self._let_go()
                    raise
            await asyncio.sleep(backoff.next())

    async def ask(self, work: Callable[[S], Awaitable[T]]) -> T:
        """As `keep_trying`, but the connector ends if the server rejects the work.

        Raises:
            HeadraceError: A retry would not help.
        """
        try:
            return await self.keep_trying(work)
        except psycopg.Error as error:
            raise self._database.refused(error) from error

    async def close(self) -> None:
        """Closes the connection; it is reopened when it is needed."""
        session, self._session, self._prepared = self._session, None, None
        if session is not None:
            with suppress(psycopg.Error):
                await session.close()

    async def _ready(self) -> S:
        """Opens the connection if there is none."""
        if self._session is None or self._prepared is None:
            await self.close()
            self._session = await self._database.connect()
            self._prepared = await self._prepare(self._session)
        return self._prepared

    async def _let_go(self) -> None:
        """Closes a connection that is no longer usable."""
        if self._session is None or self._prepared is None or not self._session.usable:
            await self.close()


class Pool(Generic[S]):
    """A pool of connections for concurrent work."""

    def __init__(self, database: Database, prepare: Callable[[Session], Awaitable[S]], size: int) -> None:
        """Creates the pool, without connecting; takes the arguments of `Link`, and the number of concurrent users."""
        self._links = [Link(database, prepare) for _ in range(size)]
        self._free: asyncio.LifoQueue[Link[S]] = asyncio.LifoQueue()
        for link in self._links:
            self._free.put_nowait(link)

    async def keep_trying(self, work: Callable[[S], Awaitable[T]]) -> T:
        """As `Link.keep_trying`."""
        link = await self._free.get()
        try:
            return await link.keep_trying(work)
        finally:
            self._free.put_nowait(link)

    async def close(self) -> None:
        """As `Link.close`, for all connections."""
        for link in self._links:
            await link.close()
