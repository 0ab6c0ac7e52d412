"""A growing table with one that is inserted into, and an outbox with one that keeps the last row of each key."""

from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg
from psycopg.rows import class_row
from scripts.brokers import PostgreSQL
from tests.broker_crashes.pairs import Pair, again_while
from tests.broker_crashes.workload import Row, key_of, not_the_last, other_than_once, value_of


class TablePair(Pair):
    """`postgresql` and `postgresql-sink`."""

    name = "postgresql"
    system = "postgresql"
    sink = "postgresql-sink"
    table: ClassVar[str] = "crashes.orders"
    results: ClassVar[str] = "crashes.results"
    made: ClassVar[tuple[str, ...]] = (
        f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, value text NOT NULL)",
        f"CREATE TABLE {results} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " key text NOT NULL, number bigint NOT NULL, count bigint NOT NULL, checksum bigint NOT NULL)",
    )
    findings = staticmethod(other_than_once)

    def __init__(self, broker: PostgreSQL) -> None:
        self._broker = broker

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"url": self._broker.url, "table": self.table, "key_column": "key", "value_column": "value"}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {"url": self._broker.url, "table": self.results}

    def make(self) -> None:
        with self._connected() as connection:
            for statement in ("CREATE SCHEMA IF NOT EXISTS crashes", *self.made):
                connection.execute(statement)

    def publish(self, numbers: range) -> None:
        insert = f"INSERT INTO {self.table} (key, value) VALUES (%s, %s)"
        with self._connected() as connection:
            connection.cursor().executemany(insert, [(key_of(number), value_of(number).decode()) for number in numbers])

    def rows(self) -> list[Row]:
        query = f"SELECT key, number, count, checksum FROM {self.results} ORDER BY key, count"
        with self._connected() as connection, connection.cursor(row_factory=class_row(Row)) as cursor:
            return cursor.execute(query).fetchall()

    def left(self) -> str | None:
        with self._connected() as connection:
            prepared = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'headrace:crashes:%'").fetchall()
            staged = connection.execute("SELECT count(*) FROM crashes.headrace_staged").fetchone()
        return None if not prepared and staged == (0,) else f"prepared {prepared}, staged {staged}"

    def _connected(self) -> psycopg.Connection:
        return again_while(psycopg.OperationalError, lambda: psycopg.connect(self._broker.url))


class OutboxPair(TablePair):
    """`postgresql-outbox` and `postgresql-upsert`."""

    name = "postgresql-outbox"
    sink = "postgresql-upsert"
    table = "crashes.outbox"
    results = "crashes.totals"
    made = (
        f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, value text NOT NULL)",
        f"CREATE TABLE {results} (key text PRIMARY KEY, number bigint NOT NULL, count bigint NOT NULL, checksum bigint NOT NULL)",
    )
    findings = staticmethod(not_the_last)

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {**super().source_parameters, "poll_seconds": 0.1}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {**super().sink_parameters, "key_columns": ["key"], "columns": ["number", "count", "checksum"]}

    def visible(self) -> int:
        return sum(row.count for row in self.rows())

    def left(self) -> str | None:
        with self._connected() as connection:
            rows = connection.execute(f"SELECT count(*) FROM {self.table}").fetchone()
        return None if rows == (0,) else f"{rows} rows in {self.table}"
