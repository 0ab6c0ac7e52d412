"""Sinks that die, or lose their connection, at each statement that leaves something behind: each batch is written once."""

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from tests.connectors.postgresql.rig import coming, messages, rows_of, until_rows

from headrace.connectors.postgresql import (
    PostgreSQLSink,
    PostgreSQLSinkParameters,
    PostgreSQLUpsertParameters,
    PostgreSQLUpsertSink,
    chunk,
)
from headrace.connectors.postgresql.database import Session
from headrace.sdk import WRITTEN, Message, Part, Rows, Transaction

MAX_LENGTH = 100
LEAVES_NOTHING = ("SELECT", "SET", "BEGIN", "CREATE", "VACUUM")


class Crashed(BaseException):
    """What ends a process that is killed."""


class Faults:
    """Has something happen at one of the statements that leave something behind: they end a transaction, or are one."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._sessions: set[Session] = set()
        self.count = 0
        """How many such statements there were."""

    def is_due(self, session: Session, query: Any) -> bool:
        """Whether it is the statement at which something happens."""
        self._sessions.add(session)
        word = (query if isinstance(query, str) else query.as_string(None)).split()[0]
        if word not in ("COMMIT", "PREPARE") and (not session.usable or word in LEAVES_NOTHING):
            return False
        self.count += 1
        return self.count == self._at

    def cut(self) -> None:
        """Ends all connections, as the system does for a process that is killed."""
        for session in self._sessions:
            if not session.connection.closed:
                with socket.socket(fileno=os.dup(session.connection.fileno())) as end:
                    end.shutdown(socket.SHUT_RDWR)


@contextmanager
def dying_before(at: int) -> Iterator[Faults]:
    """The process dies before the n-th such statement, in the middle of its transaction."""
    with _patched(faults := Faults(at), after=False):
        yield faults


@contextmanager
def losing(at: int) -> Iterator[Faults]:
    """The n-th such statement is executed, and its answer is lost with the connection."""
    with _patched(faults := Faults(at), after=True):
        yield faults


@contextmanager
def _patched(faults: Faults, *, after: bool) -> Iterator[None]:
    originals = {"execute": Session.execute, "fetch": Session.fetch}

    def patched(name: str) -> Any:
        async def method(self: Session, query: Any, parameters: Any = ()) -> Any:
            due = faults.is_due(self, query)
            if due and not after:
                faults.cut()
                raise Crashed
            result = await originals[name](self, query, parameters)
            if due:
                faults.cut()
                raise psycopg.OperationalError("the answer was lost")
            return result

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in originals:
            patch.setattr(Session, name, patched(name))
        patch.setattr(chunk, "MAX_ROWS", 1)
        yield


class Inserting:
    """What Spark and the gateway do with the sink that inserts: run batches, keep a commit log, settle what was left open."""

    batches = 2

    def __init__(self, url: str, schema: str) -> None:
        self._given = PostgreSQLSinkParameters(url=url, table=f"{schema}.t", sink="out", value_column="v")
        self._attempts = itertools.count()
        self.log: set[int] = set()
        self.confirmed = 0
        """How many batches the sink has said to be visible."""

    async def run(self) -> None:
        """Goes on from whatever there is, to the end."""
        sink = PostgreSQLSink(self._given)
        try:
            found = await sink.recover()
            assert all(transaction.batch not in self.log or transaction.batch == max(self.log) for transaction in found.prepared)
            for transaction in sorted({*found.prepared, *(part.transaction for part in found.staged)}):
                if transaction.batch in self.log:
                    await self._commit(sink, transaction)
                else:
                    await sink.abort(transaction)
            for batch in range(self.batches):
                if batch not in self.log:
                    await self._write(sink, Transaction("p", batch))
                elif batch >= self.confirmed:
                    await self._commit(sink, Transaction("p", batch))
        finally:
            await sink.close()

    async def _write(self, sink: PostgreSQLSink, transaction: Transaction) -> None:
        """A batch of one task, or of two, of which one is tried twice; with something that is refused."""
        parts = [Part(transaction, number, f"r/{next(self._attempts)}") for number in ((0, 0, 1) if transaction.batch else (0,))]
        for part in parts:
            outcomes = await sink.stage(part, coming(*rows_of_part(part)))
            assert outcomes is not None
            assert [outcome == WRITTEN for outcome in outcomes] == [True, False, True]
        await sink.prepare(transaction, parts[-2:])
        self.log.add(transaction.batch)
        await self._commit(sink, transaction)

    async def _commit(self, sink: PostgreSQLSink, transaction: Transaction) -> None:
        await sink.commit(transaction)
        self.confirmed = max(self.confirmed, transaction.batch + 1)

    async def check(self, database: AsyncConnection, schema: str) -> None:
        """The visible rows are right, also in the middle of everything."""
        visible = [value for (value,) in await rows_of(database, f"SELECT v FROM {schema}.t ORDER BY id")]
        whole = [["0.0.0", "0.0.2"], ["1.0.0", "1.0.2", "1.1.0", "1.1.2"]]
        batches = [whole[batch] for batch in sorted(self.log)]
        allowed = [list(itertools.chain(*batches[:count])) for count in range(self.confirmed, len(batches) + 1)]
        assert visible in allowed

    async def finished(self, database: AsyncConnection, schema: str) -> None:
        """All batches are visible, and nothing else is left."""
        assert self.log == set(range(self.batches))
        await self.check(database, schema)
        assert await rows_of(database, f"SELECT FROM {schema}.headrace_staged") == []
        assert await rows_of(database, "SELECT FROM pg_prepared_xacts") == []


def rows_of_part(part: Part) -> list[Rows]:
    values = [f"{part.transaction.batch}.{part.partition}.{n}".encode() for n in range(3)]
    return [Rows.of(Message(value), first=place) for place, value in enumerate((values[0], b"\x00", values[2]))]


class Upserting:
    """The same with the sink that updates: batches are added up, so that one that is written twice shows."""

    batches = 3

    def __init__(self, url: str, schema: str) -> None:
        self._given = PostgreSQLUpsertParameters(url=url, table=f"{schema}.t", sink="out", key_columns="k", value_column="v")
        self.log: set[int] = set()

    async def run(self) -> None:
        sink = PostgreSQLUpsertSink(self._given)
        try:
            await sink.pipelines()
            last = await sink.last("p")
            for batch in range(self.batches):
                if batch in self.log:
                    continue
                rows = [messages(Message(b"%d" % batch, key=b"%d" % n)) for n in range(2)]
                for some in rows:
                    assert await sink.check(some) is None
                if last != batch:
                    await sink.write(Transaction("p", batch), coming(*rows))
                self.log.add(batch)
        finally:
            await sink.close()

    async def check(self, database: AsyncConnection, schema: str) -> None:
        found = await rows_of(database, f"SELECT k, v FROM {schema}.t ORDER BY k")
        done = max(self.log, default=-1)
        assert found in [[("0", str(last)), ("1", str(last))] if last >= 0 else [] for last in (done, done + 1)]
        written = await rows_of(database, f"SELECT coalesce(sum(times), 0) FROM {schema}.times")
        assert written[0][0] in (2 * (done + 1), 2 * (done + 2))

    async def finished(self, database: AsyncConnection, schema: str) -> None:
        """All batches are written, and none of them twice."""
        assert self.log == set(range(self.batches))
        await self.check(database, schema)
        assert await rows_of(database, f"SELECT sum(times) FROM {schema}.times") == [(2 * self.batches,)]


async def gone(database: AsyncConnection) -> None:
    """Waits until the server has noticed that a process died."""
    await until_rows(database, "SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'headrace %')")


async def begin(database: AsyncConnection, schema: str, kind: type[Inserting] | type[Upserting]) -> None:
    """Empty tables."""
    if kind is Inserting:
        await database.execute(f"CREATE TABLE IF NOT EXISTS {schema}.t (id bigint GENERATED ALWAYS AS IDENTITY, v text)")
        await database.execute(f"TRUNCATE {schema}.t RESTART IDENTITY")
    else:
        await database.execute(f"CREATE TABLE IF NOT EXISTS {schema}.t (k text PRIMARY KEY, v text)")
        await database.execute(f"CREATE TABLE IF NOT EXISTS {schema}.times (times int)")
        await database.execute(
            f"CREATE OR REPLACE FUNCTION {schema}.count() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN INSERT INTO {schema}.times VALUES (1); RETURN NULL; END $$"
        )
        await database.execute(
            f"CREATE OR REPLACE TRIGGER count AFTER INSERT OR UPDATE ON {schema}.t FOR EACH ROW EXECUTE FUNCTION {schema}.count()"
        )
        await database.execute(f"TRUNCATE {schema}.t, {schema}.times")
    for table in ("headrace_staged", "headrace_batches"):
        if (await rows_of(database, f"SELECT to_regclass('{schema}.{table}')"))[0][0] is not None:
            await database.execute(f"TRUNCATE {schema}.{table}")


@pytest.mark.parametrize("kind", [Inserting, Upserting])
async def test_a_sink_may_die_at_any_statement(url, schema, database, kind):
    for at in range(1, MAX_LENGTH):
        await begin(database, schema, kind)
        world = kind(url, schema)
        with dying_before(at) as faults, suppress(Crashed):
            await world.run()
        await gone(database)
        await world.check(database, schema)
        if faults.count < at:
            break
        await world.run()
        await world.finished(database, schema)
    assert 10 < at < MAX_LENGTH - 1


@pytest.mark.parametrize("kind", [Inserting, Upserting])
async def test_a_connection_may_be_lost_at_any_statement_and_nobody_notices(url, schema, database, kind):
    for at in range(1, MAX_LENGTH):
        await begin(database, schema, kind)
        world = kind(url, schema)
        with losing(at) as faults:
            await world.run()
        await world.finished(database, schema)
        if faults.count < at:
            break
    assert 10 < at < MAX_LENGTH - 1
