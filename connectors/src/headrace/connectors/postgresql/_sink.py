"""The `postgresql-sink`: inserts all rows of a batch together, exactly once."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg import sql

from headrace.connectors._connector import VERSION
from headrace.connectors.postgresql import prepared
from headrace.connectors.postgresql._parameters import PostgreSQLSinkParameters
from headrace.connectors.postgresql.batches import Batches
from headrace.connectors.postgresql.chunk import Chunk, chunks
from headrace.connectors.postgresql.database import Database, Session
from headrace.connectors.postgresql.errors import in_a_line
from headrace.connectors.postgresql.link import Link, Pool
from headrace.connectors.postgresql.staged import Staged
from headrace.connectors.postgresql.table import find_columns
from headrace.connectors.postgresql.target import described, filling, find_target, key_of
from headrace.connectors.postgresql.trial import Trial, outcomes_of, trial_of
from headrace.connectors.postgresql.writing import Inserting
from headrace.sdk import AsyncTwoPhaseSink, InvalidSink, Outcomes, Part, Recovered, Rows, Transaction

log = logging.getLogger("headrace.connectors")

_STAGING_CONNECTIONS = 4
_VACUUM_BYTES = 64 << 20
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"


@dataclass(frozen=True, slots=True)
class _Opened:
    """A connection, and the state of the table."""

    session: Session
    inserting: Inserting
    trial: Trial
    staged: Staged
    batches: Batches


class PostgreSQLSink(AsyncTwoPhaseSink):
    """Inserts into a table. Parts are staged in a table next to it; a vote is a prepared transaction."""

    connector = "postgresql-sink"
    version = VERSION

    def __init__(self, parameters: PostgreSQLSinkParameters) -> None:
        """Creates the sink, without connecting."""
        self.name = parameters.sink
        self._parameters = parameters
        self._database = Database(parameters, f"postgresql-sink {parameters.sink}", InvalidSink, self)
        self._link: Link[_Opened] = Link(self._database, self._open)
        self._staging: Pool[_Opened] = Pool(self._database, self._open_aside, _STAGING_CONNECTIONS)
        self._staged_bytes = 0

    async def stage(self, part: Part, rows: AsyncIterator[Rows]) -> Outcomes:
        """Stores a part as it arrives, and then tries it on the table."""
        messages = number = 0
        last: Chunk | None = None
        async for chunk in chunks(rows):
            if last is not None:
                await self._staging.keep_trying(partial(_put, part=part, number=number, chunk=last))
            last = chunk
            number += 1
            messages += len(chunk)
            self._staged_bytes += chunk.size
        refused = await self._staging.keep_trying(partial(_finish, part=part, number=number, last=last))
        return outcomes_of(messages, refused)

    async def drop(self, part: Part) -> None:
        """Removes a part."""
        await self._link.keep_trying(lambda opened: opened.staged.drop(opened.session, part))

    async def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Inserts the parts in a transaction, and prepares it."""
        await self._link.keep_trying(lambda opened: self._prepare(opened, transaction, parts))

    async def commit(self, transaction: Transaction) -> None:
        """Commits the prepared transaction."""
        await self._link.keep_trying(lambda opened: self._commit(opened, transaction))
        if self._staged_bytes >= _VACUUM_BYTES:
            self._staged_bytes = 0
            await self._link.keep_trying(_vacuum)

    async def abort(self, transaction: Transaction) -> None:
        """Rolls the prepared transaction back, and removes the parts."""

        async def undo(opened: _Opened) -> None:
            for gid in await prepared.prepared(opened.session, self._name_of(opened, transaction)):
                await prepared.roll_back(opened.session, gid)
            await opened.staged.remove(opened.session, transaction)

        await self._link.keep_trying(undo)

    async def recover(self) -> Recovered:
        """Lists what is staged, prepared and committed.

        Raises:
            InvalidSink: The table or the configuration is not suitable, or the server rejects a statement.
        """

        async def look(opened: _Opened) -> Recovered:
            await opened.staged.remove_unfinished(opened.session)
            parts = await opened.staged.parts(opened.session)
            gids = await prepared.prepared(opened.session)
            known = sorted({part.transaction for part in parts})
            names = {transaction: self._name_of(opened, transaction) for transaction in known}
            voted = [transaction for transaction, name in names.items() if any(gid.startswith(name) for gid in gids)]
            return Recovered(parts, voted, await opened.batches.all(opened.session))

        await self._staging.close()
        return await self._link.ask(look)

    async def close(self) -> None:
        """Closes the connections, and releases the owner for other processes."""
        await self._staging.close()
        await self._link.close()

    async def look(self) -> str:
        """Connects once, without changing anything, and returns a one-line description of the table.

        Raises:
            InvalidSink: The table or the configuration is not suitable.
        """
        async with self._database.looked_at() as session:
            opened = await self._describe(session)
            return described(self._database, opened.trial.table, opened.inserting.filling)

    async def _open(self, session: Session) -> _Opened:
        """Checks everything, creates the missing tables next to the table, and locks out other processes."""
        given = self._parameters
        opened = await self._describe(session)
        lock = "/".join(("headrace", opened.staged.schema, given.sink, given.owner))
        if not (await session.fetch(_TRY_LOCK, (lock,)))[0][0]:
            # It may be a process that has just died, whose end the server has not detected yet.
            raise psycopg.OperationalError(
                f"another process writes the sink {given.sink} as owner {given.owner}; give each its own owner"
            )
        await opened.staged.make(session)
        await opened.batches.make(session)
        return opened

    async def _open_aside(self, session: Session) -> _Opened:
        """Opens a connection for staging."""
        opened = await self._describe(session)
        await opened.trial.prepare(session)
        return opened

    async def _describe(self, session: Session) -> _Opened:
        """Checks the server and the table."""
        given, database = self._parameters, self._database
        if (await session.fetch("SELECT current_setting('max_prepared_transactions')::int"))[0][0] == 0:
            raise database.invalid(
                f"{database.where} allows no prepared transactions; set max_prepared_transactions in its configuration to 10 or "
                "more, and restart it, or use postgresql-upsert"
            )
        table, state = await find_target(session, database, given)
        key = None if given.key_column is None else find_columns(database, table, [given.key_column])[0]
        filled = filling(database, table, given, key_of(key))
        inserting = Inserting(filled, given.on_conflict == "skip")
        trial = await trial_of(session, table, inserting, filled.columns, state)
        names = (table.schema, given.sink, given.owner)
        return _Opened(session, inserting, trial, Staged(*names), Batches(*names))

    async def _prepare(self, opened: _Opened, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Votes, unless that was already done. A different vote for the same transaction is withdrawn."""
        session, staged = opened.session, opened.staged
        name = self._name_of(opened, transaction)
        wanted = name + prepared.digest_of(parts)
        standing = await prepared.prepared(session, name)
        if list(standing) == [wanted]:
            return
        for gid in standing:
            await prepared.roll_back(session, gid)
        found = {part for part in await staged.parts(session) if part.transaction == transaction}
        for part in parts:
            if part not in found:
                raise LookupError(f"partition {part.partition}, attempt {part.attempt}, is not staged in {staged.schema}")
        for part in found.difference(parts):
            await staged.drop(session, part)
        await opened.trial.check(session)
        try:
            async with session.transaction(end=prepared.prepare(wanted)):
                await self._insert(opened, transaction, parts)
        except psycopg.errors.UniqueViolation as error:
            raise RuntimeError(
                f"{in_a_line(error)}. Either two rows of the batch have the same key, or another session has inserted one: "
                "set on_conflict to skip, or use postgresql-upsert"
            ) from error
        except psycopg.errors.FeatureNotSupported as error:
            raise RuntimeError(
                f"{opened.trial.table}: {in_a_line(error)}. The sink prepares its transactions, in which a trigger may neither "
                "NOTIFY nor use temporary tables: change that trigger, or use postgresql-upsert, which prepares none"
            ) from error
        except psycopg.errors.LockNotAvailable as error:
            # A prepared transaction that waits for this thread may hold the lock.
            raise RuntimeError(f"{opened.trial.table} is locked: {in_a_line(error)}") from error

    async def _insert(self, opened: _Opened, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Inserts the parts, and records the batch."""
        session, staged = opened.session, opened.staged
        for part in parts:
            for chunk in await staged.chunks(session, part):
                insert = opened.inserting.all_of(staged.relation(chunk), opened.trial.table.identifier)
                await session.execute(insert)
        await opened.batches.add(session, transaction)
        await staged.remove(session, transaction)

    async def _commit(self, opened: _Opened, transaction: Transaction) -> None:
        """Commits what is prepared, unless that was already done."""
        session = opened.session
        gids = await prepared.prepared(session, self._name_of(opened, transaction))
        if not gids:
            last = await opened.batches.last(session, transaction.pipeline)
            if last is None or last < transaction.batch:
                raise LookupError(f"batch {transaction.batch} of pipeline {transaction.pipeline} was never prepared here")
            return
        for gid in gids:
            await prepared.commit(session, gid)
        await opened.batches.forget_others(session, transaction)

    def _name_of(self, opened: _Opened, transaction: Transaction) -> str:
        return prepared.name_of(opened.staged.schema, self._parameters.sink, self._parameters.owner, transaction)


async def _put(opened: _Opened, part: Part, number: int, chunk: Chunk) -> None:
    """Stores a chunk."""
    needs_value = opened.inserting.filling.needs_value
    refused = chunk.missing("values", "the message has no value, but a JSON object is required") if needs_value else {}
    await opened.staged.put(opened.session, part, number, chunk, refused)


async def _finish(opened: _Opened, part: Part, number: int, last: Chunk | None) -> dict[int, str]:
    """Stores the last chunk of a part, and tries all chunks; returns the reasons of refused messages, by position."""
    session, staged, trial = opened.session, opened.staged, opened.trial
    known = await staged.finished(session, part)
    if known is not None:
        return known
    await trial.check(session)
    refused: dict[int, str] = {}
    async with session.transaction():
        if last is not None:
            await _put(opened, part, number, last)
        tried = []
        async with trial.begun(session):
            for chunk in await staged.chunks(session, part):
                tried.append((chunk, await trial.refused(session, staged.relation(chunk))))
        for chunk, reasons in tried:
            if reasons:
                await staged.refuse(session, chunk, reasons)
            refused |= {chunk.first + place - 1: reason for place, reason in {**chunk.refused, **reasons}.items()}
        await staged.finish(session, part, refused)
    return refused


async def _vacuum(opened: _Opened) -> None:
    """Reclaims the space of old rows: autovacuum would be too late for a table with short-lived rows."""
    try:
        await opened.session.execute(sql.SQL("VACUUM {}").format(opened.staged.table))
    except psycopg.Error as error:
        log.info("%s: %s", opened.staged.table.as_string(None), in_a_line(error))
