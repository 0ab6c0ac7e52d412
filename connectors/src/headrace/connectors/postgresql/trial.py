"""Finds the messages that a table rejects by trying all of them: only the server knows its constraints and triggers."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import psycopg
from psycopg import sql

from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.errors import NO_ROW_CLASSES, concerns_row
from headrace.connectors.postgresql.link import Outdated
from headrace.connectors.postgresql.names import name, plain, value
from headrace.connectors.postgresql.table import Table
from headrace.sdk import WRITTEN, Outcome, Outcomes, Refused

COPY = name("pg_temp", "headrace_trial")
"""The empty copy of a table, in which messages are tried."""

# A copy of a table has its check constraints, but nothing that depends on other rows, other tables, or triggers.
_NEEDS_TABLE = """
    SELECT c.relkind = 'p' OR c.relispartition OR c.relrowsecurity OR c.relhasrules OR c.relhassubclass
        OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid)
        OR EXISTS (
            SELECT FROM pg_index WHERE indrelid = c.oid AND (indisunique OR indisexclusion) AND indexrelid <> ALL (%s::oid[])
            AND (0 = ANY (indkey) OR EXISTS (
                SELECT FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY (indkey) AND attname = ANY (%s))))
    FROM pg_class c WHERE c.oid = %s
"""
_MAKE_COPY = """
    CREATE TEMPORARY TABLE headrace_trial (
        LIKE {table} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING IDENTITY INCLUDING INDEXES
    ) ON COMMIT DELETE ROWS
"""
_MAKE_REFUSED = "CREATE TEMPORARY TABLE headrace_refused (place int, reason text) ON COMMIT DELETE ROWS"
# Tries each message separately, and records its error. An error that does not concern a message ends the trial.
_ONE_BY_ONE = """
    #variable_conflict use_column
    DECLARE
        message record;
        state text;
        reason text;
        detail text;
    BEGIN
        FOR message IN SELECT message.* FROM {messages} LOOP
            BEGIN
                {statements}
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, reason = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
                IF left(state, 2) IN ({classes}) THEN
                    RAISE;
                END IF;
                INSERT INTO pg_temp.headrace_refused VALUES (message.place, concat_ws('; ', reason, nullif(detail, '')));
            END;
        END LOOP;
    END
"""
# All that decides whether a table accepts a row, and where it has to be tried.
_STATE = """
    SELECT md5(concat_ws('|', c.oid, c.relkind, c.relispartition, c.relrowsecurity, c.relhasrules, c.relhassubclass,
        (SELECT string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attidentity, attgenerated),
                           ', ' ORDER BY attnum)
         FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
        (SELECT string_agg(concat_ws(' ', oid, convalidated), ', ' ORDER BY oid) FROM pg_constraint WHERE conrelid = c.oid),
        (SELECT string_agg(indexrelid::text, ', ' ORDER BY indexrelid) FROM pg_index WHERE indrelid = c.oid),
        (SELECT string_agg(concat_ws(' ', oid, tgenabled), ', ' ORDER BY oid) FROM pg_trigger WHERE tgrelid = c.oid),
        (SELECT string_agg(concat_ws(' ', oid, ev_enabled), ', ' ORDER BY oid) FROM pg_rewrite WHERE ev_class = c.oid)))
    FROM pg_class c WHERE c.oid = to_regclass(%s)
"""


class Writing(Protocol):
    """How messages are written to a table, or to a copy of it."""

    def all_of(self, chunk: sql.Composable, target: sql.Composable) -> sql.Composed:
        """Returns a statement that writes all messages of a chunk."""

    def one(self, target: sql.Composable) -> sql.Composed:
        """Statements that write the `message` of a loop."""

    def messages(self, chunk: sql.Composable) -> sql.Composed:
        """Returns the SQL of the messages of a chunk, to follow FROM."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A table, and how messages are tried in it.

    Attributes:
        table: The table.
        writing: How messages are written to it.
        in_table: Whether the trial is in the table itself, and is then rolled back; or else in a copy of it.
        state: What `state_of` returned before the table was described.
    """

    table: Table
    writing: Writing
    in_table: bool
    state: str | None

    async def check(self, session: Session) -> None:
        """Checks that the table is as it was.

        Raises:
            Outdated: Its columns, constraints, indexes, triggers or rules have changed.
        """
        now = await state_of(session, self.table.identifier)
        # The server names a table that is missing when it is used.
        if now is not None and now != self.state:
            raise Outdated(f"{self.table} has changed; its columns and constraints are looked up again")

    async def prepare(self, session: Session) -> None:
        """Prepares a connection."""
        await session.execute(_MAKE_REFUSED)
        if not self.in_table:
            await session.execute(sql.SQL(_MAKE_COPY).format(table=self.table.identifier))

    @asynccontextmanager
    async def begun(self, session: Session) -> AsyncIterator[None]:
        """Runs the body, in which messages are tried together, and undoes its changes. Must be called within a transaction."""
        async with session.savepoint("headrace_trial", undone=self.in_table):
            await session.execute("SET CONSTRAINTS ALL IMMEDIATE")
            yield

    async def refused(self, session: Session, chunk: sql.Composable) -> dict[int, str]:
        """Tries the messages of a chunk; returns the reasons of refused messages, by position, counted from 1.

        Raises:
            psycopg.Error: An error that does not concern a message.
        """
        target = self.table.identifier if self.in_table else COPY
        try:
            async with session.savepoint("headrace_chunk"):
                await session.execute(self.writing.all_of(chunk, target))
        except psycopg.Error as error:
            if not concerns_row(error):
                raise
        else:
            return {}
        # A statement that fails without any message is wrong itself.
        nothing = sql.SQL("(SELECT * FROM {} AS chunk LIMIT 0)").format(chunk)
        await session.execute(self.writing.all_of(nothing, target))
        one_by_one = sql.SQL(_ONE_BY_ONE).format(
            messages=self.writing.messages(chunk),
            statements=self.writing.one(target),
            classes=sql.SQL(", ").join(map(value, sorted(NO_ROW_CLASSES))),
        )
        # As a constant rather than between dollar signs, which a name may contain.
        await session.execute(sql.SQL("DO {}").format(value(plain(one_by_one))))
        return dict(await session.fetch("DELETE FROM pg_temp.headrace_refused RETURNING place, reason"))


async def state_of(session: Session, table: sql.Identifier) -> str | None:
    """Returns a text that changes with columns, constraints, indexes, triggers and rules of a table; None if there is none."""
    found = await session.fetch(_STATE, (plain(table),))
    return found[0][0] if found else None


async def trial_of(
    session: Session, table: Table, writing: Writing, filled: Iterable[str], state: str | None, indexes: Sequence[int] = ()
) -> Trial:
    """Determines where messages have to be tried.

    Args:
        session: The connection to use.
        table: The table.
        writing: How messages are written to it.
        filled: The columns that they fill.
        state: What `state_of` returned before the table was described.
        indexes: The unique indexes that writing handles.
    """
    ((in_table,),) = await session.fetch(_NEEDS_TABLE, (list(indexes), list(filled), table.oid))
    return Trial(table, writing, in_table, state)


def outcomes_of(count: int, refused: Mapping[int, str]) -> Outcomes:
    """Returns the outcome of each of some messages.

    Args:
        count: How many they are.
        refused: The reasons for rows that the table rejects, by position, counted from 0.
    """
    if not refused:
        return None
    outcomes: list[Outcome] = [WRITTEN] * count
    for place, reason in refused.items():
        outcomes[place] = Refused(reason)
    return outcomes
