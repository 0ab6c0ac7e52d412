"""Connections that are opened when they are needed, and again when they were lost."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import psycopg

from headrace.connectors.postgresql._database import Database, Session
from headrace.connectors.postgresql._errors import is_passing

T = TypeVar("T")
S = TypeVar("S")

_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0


class Link(Generic[S]):
    """One connection, and what was made ready on it. One user at a time: others wait."""

    def __init__(self, database: Database, prepare: Callable[[Session], Awaitable[S]]) -> None:
        """Connects to nothing yet.

        Args:
            database: Where to connect to.
            prepare: Makes ready what is needed, each time that the connection was opened.
        """
        self._database = database
        self._prepare = prepare
        self._session: Session | None = None
        self._prepared: S | None = None
        self._turn = asyncio.Lock()

    async def keep_trying(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Does something that may be done twice, and does it again where the server is away or busy, without limit.

        Raises:
            HeadraceError: It is no use to try again.
            psycopg.Error: The server refuses the work.
        """
        longest = _FIRST_BACKOFF_SECONDS
        while True:
            async with self._turn:
                try:
                    return await work(await self._ready())
                except (psycopg.Error, OSError) as error:
                    await self._let_go()
                    if not is_passing(error):
                        raise
                    self._database.report(error)
                except BaseException:
                    await self._let_go()
                    raise
            await asyncio.sleep(random.uniform(longest / 2, longest))
            longest = min(_LONGEST_BACKOFF_SECONDS, longest * 2)

    async def close(self) -> None:
        """Closes the connection; it is opened again where it is needed again."""
        session, self._session, self._prepared = self._session, None, None
        if session is not None:
            with suppress(psycopg.Error):
                await session.close()

    async def _ready(self) -> S:
        """Opens the connection where there is none."""
        if self._session is None or self._prepared is None:
            await self.close()
            self._session = await self._database.connect()
            self._prepared = await self._prepare(self._session)
        return self._prepared

    async def _let_go(self) -> None:
        """Closes a connection that cannot be used any more."""
        if self._session is None or self._prepared is None or not self._session.usable:
            await self.close()


class Pool(Generic[S]):
    """Some connections for work of which several pieces may be going on."""

    def __init__(self, database: Database, prepare: Callable[[Session], Awaitable[S]], size: int) -> None:
        """Connects to nothing yet; as `Link`, but for `size` users at a time."""
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
        """As `Link.close`, of all."""
        for link in self._links:
            await link.close()
