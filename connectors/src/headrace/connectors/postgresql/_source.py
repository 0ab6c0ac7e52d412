"""The `postgresql` source: the rows of a table, in the order of a number that the server generates."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from headrace.connectors._connector import VERSION
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.postgresql._parameters import PostgreSQLParameters
from headrace.connectors.postgresql.database import Database
from headrace.connectors.postgresql.reading import Reading
from headrace.connectors.postgresql.watch import Watch
from headrace.sdk import Backlog, Batch, InvalidSource, Position


class PostgreSQLSource(PolicySource):
    """Reads an insert-only table. The sequence of a message is the number of its row."""

    connector = "postgresql"
    version = VERSION
    idle_seconds = 0.0

    def __init__(self, parameters: PostgreSQLParameters) -> None:
        """Creates the source, without connecting."""
        self.name = parameters.source
        self._parameters = parameters
        self.bad_records = BadRecordPolicy.of(self.name, parameters)
        self._watch = Watch(
            Database(parameters, f"postgresql source {parameters.source}", InvalidSource, self),
            parameters,
            value_column=parameters.value_column,
            columns=parameters.columns,
            where=parameters.where,
        )
        self._reading: Reading | None = None

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | None]:
        """Yields the batches of each page of rows; bad rows are left to the policy in their turn."""
        reading = self._reading = self._begin(position)
        try:
            async with aclosing(reading.batches(partial(self.unsendable, partition), self._wait)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            await self._watch.close()

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the number of rows left, and the last number."""
        return self._reading.backlog if self._reading else None

    async def close(self) -> None:
        """Closes the connection."""
        await self._watch.close()

    async def look(self) -> str:
        """Connects once, without reading rows, and returns a one-line description of the table.

        Raises:
            InvalidSource: The table cannot be read.
        """
        return await self._watch.describe()

    async def _wait(self, reading: Reading) -> float:
        await asyncio.sleep(reading.next_check_in(self._parameters.poll_seconds))
        return time.monotonic()

    def _begin(self, position: Position | None) -> Reading:
        return Reading(
            self._watch,
            position=position,
            detect_deleted=self._parameters.detect_deleted,
            only_grows=True,
        )
