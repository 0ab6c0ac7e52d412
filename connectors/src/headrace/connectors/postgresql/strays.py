"""Rows of an outbox that belong to no stream, because their partition is null or cannot be the name of one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import sql

from headrace.connectors.bad_records import BadRecordPolicy
from headrace.connectors.postgresql._parameters import PostgreSQLOutboxParameters
from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.names import name
from headrace.connectors.postgresql.opened import readable
from headrace.connectors.postgresql.page import BadRow
from headrace.connectors.postgresql.table import Table
from headrace.connectors.postgresql.watch import Watch
from headrace.sdk import InvalidMessage, InvalidSource

Do = Callable[[Callable[[tuple[Session, Table]], Awaitable[Any]]], Awaitable[Any]]

_ROWS_AT_ONCE = 1000
_NUMBERS = """
    SELECT message.{number}::bigint FROM {table} AS message
    WHERE message.{column} IS NOT DISTINCT FROM %s AND message.{number} > %s ORDER BY 1 LIMIT %s
"""
_DELETE = "DELETE FROM {table} AS message WHERE message.{number} = %s AND message.{column} IS NOT DISTINCT FROM %s"


class Strays:
    """Applies the policy for bad records to these rows, and deletes them if acknowledged rows are deleted."""

    def __init__(self, watch: Watch, do: Do, policy: BadRecordPolicy, parameters: PostgreSQLOutboxParameters) -> None:
        """Creates the object.

        Args:
            watch: What knows the columns of messages.
            do: Does work with a connection and the table.
            policy: The policy.
            parameters: The parameters of the source.
        """
        self._watch = watch
        self._do = do
        self._policy = policy
        self._column = parameters.partition_column or ""
        self._sequence_column = parameters.sequence_column
        self._keeps = parameters.acknowledged_rows == "keep"
        self._refused: set[int] = set()
        """The rows that remain, and were refused before."""

    async def refuse(self, partition: str | None) -> None:
        """Refuses all rows of a partition.

        Raises:
            InvalidSource: The policy is to fail.
        """
        after = -(2**63)
        while numbers := await self._numbers(partition, after):
            after = numbers[-1]
            for number in numbers:
                if number not in self._refused:
                    await self._refuse_row(partition, number)

    async def _refuse_row(self, partition: str | None, number: int) -> None:
        async def read(opened: tuple[Session, Table]) -> tuple[bytes | None, bytes | None]:
            session, table = opened
            return await readable(session, self._watch.layout_of(table), number)

        what = "null" if partition is None else repr(partition)
        reason = f"{what} in column {self._column} cannot be the name of a partition, which has letters, digits and '._-' only"
        content, key = await self._do(read)
        row = BadRow.of(number, content, key, reason)
        try:
            await asyncio.to_thread(self._policy.take, partition or "", row.message, row.error)
        except InvalidMessage as error:
            raise InvalidSource(
                f"outbox: {error}; correct the row, and add a constraint to the table, or set bad_records to dead-letter"
            ) from None
        if self._keeps:
            self._refused.add(number)
            return

        async def delete(opened: tuple[Session, Table]) -> None:
            session, table = opened
            await session.execute(self._statement(_DELETE, table), (number, partition))

        await self._do(delete)

    async def _numbers(self, partition: str | None, after: int) -> list[int]:
        async def list_them(opened: tuple[Session, Table]) -> list[int]:
            session, table = opened
            found = await session.fetch(self._statement(_NUMBERS, table), (partition, after, _ROWS_AT_ONCE))
            return [number for (number,) in found]

        numbers: list[int] = await self._do(list_them)
        return numbers

    def _statement(self, text: Any, table: Table) -> sql.Composed:
        names = {"table": table.identifier, "number": name(self._sequence_column), "column": name(self._column)}
        return sql.SQL(text).format(**names)
