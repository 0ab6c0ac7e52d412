"""A PostgreSQL database, and connections to it."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict

from headrace.connectors.postgresql._parameters import PostgreSQLConnection
from headrace.connectors.postgresql.chunk import Elements, ElementsDumper
from headrace.connectors.postgresql.errors import concerns_certificates, in_a_line, is_passing
from headrace.connectors.postgresql.settings import SEARCH_PATH, settings
from headrace.connectors.waiting import Reporting, goes_on, waits
from headrace.logs.repeats import Repeats
from headrace.sdk import HeadraceError

log = logging.getLogger("headrace.connectors")

Query = LiteralString | sql.SQL | sql.Composed

_OLDEST_VERSION = 140_000
_CONNECT_S = 10
# With these, each side detects within half a minute that the other one is gone, unless the connection string overrides them.
_CLIENT_OPTIONS = {
    "target_session_attrs": "primary",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Session:
    """A connection in autocommit mode, with a timeout for each statement."""

    def __init__(self, connection: AsyncConnection[Any], timeout_seconds: float) -> None:
        """Takes over a connection."""
        self.connection = connection
        self._timeout_seconds = timeout_seconds

    @property
    def usable(self) -> bool:
        """Whether it is neither lost nor in a transaction."""
        return not self.connection.closed and self.connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE

    async def fetch(self, query: Query, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Executes a statement and returns its rows, in binary format.

        Raises:
            TimeoutError: The statement took too long; the connection is closed.
            psycopg.Error: The server rejected it, or is unavailable.
        """
        with self._limited():
            cursor = self.connection.cursor(binary=True)
            await cursor.execute(query, tuple(parameters))
            return await cursor.fetchall()

    async def execute(self, query: Query, parameters: Sequence[object] = ()) -> int:
        """Executes a statement and returns the number of affected rows. Raises as `fetch` does."""
        with self._limited():
            cursor = await self.connection.execute(query, tuple(parameters))
            return int(cursor.rowcount)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Closes the connection if the server does not answer in time: cancelling a statement needs a working network."""
        late = False

        def give_up() -> None:
            nonlocal late
            late = True
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

        timer = asyncio.get_running_loop().call_later(self._timeout_seconds, give_up)
        try:
            yield
        except psycopg.OperationalError as error:
            if late:
                raise TimeoutError(f"no answer within {self._timeout_seconds:g} s") from error
            raise
        finally:
            timer.cancel()

    async def notified(self, seconds: float) -> bool:
        """Waits for a notification, for a limited time; returns whether there was one."""
        return bool([notice async for notice in self.connection.notifies(timeout=seconds, stop_after=1)])

    @asynccontextmanager
    async def transaction(self, *, end: Query = "COMMIT") -> AsyncIterator[None]:
        """Runs the body in a transaction, which is rolled back if the body raises, or else ended with the statement `end`."""
        await self.execute("BEGIN")
        async with self._undone_by("ROLLBACK"):
            yield
            await self.execute(end)

    @asynccontextmanager
    async def savepoint(self, name: LiteralString, *, undone: bool = False) -> AsyncIterator[None]:
        """Runs the body in a savepoint, which is rolled back if the body raises, or if `undone` is set."""
        await self.execute("SAVEPOINT " + name)
        undo: LiteralString = f"ROLLBACK TO {name}; RELEASE {name}"
        async with self._undone_by(undo):
            yield
        await self.execute(undo if undone else "RELEASE " + name)

    @asynccontextmanager
    async def _undone_by(self, statement: LiteralString) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            # If this also fails, the connection is not usable, and is discarded.
            with suppress(psycopg.Error, TimeoutError):
                await self.execute(statement)
            raise

    async def close(self) -> None:
        """Closes the connection."""
        await self.connection.close()


class Database:
    """A database, and the errors of a connector about it."""

    def __init__(
        self, parameters: PostgreSQLConnection, who: str, invalid: type[HeadraceError], connector: Reporting | None = None
    ) -> None:
        """Creates the database, without connecting.

        Args:
            parameters: How to reach it.
            who: The name of the connector, for the log and the server's list of sessions.
            invalid: The type of error to raise if the user has to change something.
            connector: What reports that it waits while the server is unavailable or busy.
        """
        self.who = who
        self.invalid = invalid
        self.connector = connector
        self._parameters = parameters
        self._options = {**_CLIENT_OPTIONS, **conninfo_to_dict(parameters.url.get_secret_value())}
        if parameters.password is not None:
            self._options["password"] = parameters.password.get_secret_value()
        self._options.setdefault("application_name", f"headrace {who}")
        self._options.setdefault("connect_timeout", min(_CONNECT_S, max(2, int(parameters.timeout_seconds))))
        self._options["client_encoding"] = "utf8"
        self._repeats = Repeats()
        self._has_connected = False

    @property
    def where(self) -> str:
        """The server and the database, without secrets."""
        host, port = self._options.get("host", "the local server"), self._options.get("port", "5432")
        return f"PostgreSQL at {host}:{port}/{self._options.get('dbname', '')}"

    async def connect(self) -> Session:
        """Opens a connection.

        Raises:
            HeadraceError: A retry would not help; of the type `invalid`.
            psycopg.OperationalError: The server is unavailable.
        """
        try:
            options: dict[str, Any] = self._options
            connection = await AsyncConnection.connect(autocommit=True, prepare_threshold=None, **options)
        except psycopg.Error as error:
            if self._has_connected and concerns_certificates(error):
                # Files are replaced one after the other, and not at the moment when the server's are. libpq reads them each time.
                raise ConnectionError(in_a_line(error)) from error
            raise error if is_passing(error) else self.refused(error) from None
        self._has_connected = True
        connection.adapters.register_dumper(Elements, ElementsDumper)
        session = Session(connection, self._parameters.timeout_seconds)
        if connection.info.server_version < _OLDEST_VERSION:
            await session.close()
            raise self.invalid(f"{self.where} is version {connection.info.server_version // 10_000}: 14 or newer is required")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            await session.close()
            raise self.invalid(
                f"{self.where}: the encoding of the database is {encoding}, and UTF8 is required, so that every text can be read "
                "and written. Create a database WITH ENCODING 'UTF8' TEMPLATE template0, and move the tables to it with pg_dump"
            )
        try:
            await session.execute(settings(connection.info.server_version, self._parameters.timeout_seconds))
            await session.fetch(SEARCH_PATH)
        except BaseException:
            await session.close()
            raise
        return session

    @asynccontextmanager
    async def looked_at(self) -> AsyncIterator[Session]:
        """Provides a connection for a single check, without retries.

        Raises:
            HeadraceError: Of the type `invalid`, for any error.
        """
        try:
            session = await self.connect()
            try:
                yield session
            finally:
                await session.close()
        except (psycopg.Error, OSError) as error:
            raise self.refused(error) from error

    def refused(self, error: BaseException) -> HeadraceError:
        """Returns the error that ends the connector."""
        return self.invalid(f"{self.where}: {in_a_line(error)}")

    def works(self) -> None:
        """Reports that nothing waits for the server: it answers, or nobody asks."""
        if self.connector is not None:
            goes_on(self.connector, self.where)

    def report(self, error: BaseException) -> None:
        """Reports the reason for retries, and logs it periodically."""
        if self.connector is not None:
            waits(self.connector, self.where, f"{self.where}: {in_a_line(error)}")
        if self._repeats.admit(self.where) is not None:
            log.warning("%s: %s: %s; retrying", self.who, self.where, in_a_line(error))
