"""The connectors for PostgreSQL pass the conformance kit."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from tests.conformance.systems import CLOSE, Command, judge, values

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(3)]
LOST = 5
"""How many rows are deleted."""


class Tables:
    """A schema with a table for each check."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.schema = f"conformance{os.getpid()}"

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Runs a statement; returns its rows."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def name(self, check: str) -> str:
        """The name of a table, quoted: names of checks have hyphens."""
        return f'{self.schema}."{check}"'

    def fill(self, check: str) -> None:
        """Makes a table with 30 rows, in two partitions."""
        columns = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value text, part text"
        self.run(f"CREATE TABLE {self.name(check)} ({columns})")
        self.run(f"INSERT INTO {self.name(check)} (value, part) SELECT 'm' || n, n % 2 FROM generate_series(1, 30) n")

    def produce(self, check: str, count: str, size: str) -> None:
        values = f"SELECT repeat('x', {int(size)}), '0' FROM generate_series(1, {int(count)})"
        self.run(f"INSERT INTO {self.name(check)} (value, part) {values}")

    def lose(self, check: str) -> None:
        self.run(f"DELETE FROM {self.name(check)} WHERE id <= {LOST}")

    def make(self, check: str) -> None:
        """Makes an empty table, which refuses a value."""
        self.run(f"CREATE TABLE {self.name(check)} (value text CHECK (value <> 'refused'))")

    def read(self, check: str) -> str:
        found = self.run(f"SELECT value FROM {self.name(check)}")
        return values(None if value is None else str(value).encode() for (value,) in found)


@pytest.fixture
def tables(url: str) -> Iterator[Tables]:
    tables = Tables(url)
    tables.run(f"CREATE SCHEMA {tables.schema}")
    yield tables
    for (gid,) in tables.run("SELECT gid FROM pg_prepared_xacts"):
        tables.run(f"ROLLBACK PREPARED '{gid}'")
    tables.run(f"DROP SCHEMA {tables.schema} CASCADE")


def test_the_source_passes(url: str, tables: Tables) -> None:
    options = ["--sequence-column=id", "--value-column=value", "--detect-deleted", "--poll-seconds=0.1"]
    command = ["postgresql", "--source=s", f"--url={url}", f"--table={tables.name('{check}')}", *options]
    commands: dict[str, Command] = {"setup": tables.fill, "produce": tables.produce, "lose": tables.lose}
    verdict = judge("source", command, {"messages": 30}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"resume", "replay", "crash", "position-lost", "largest-message"} <= verdict.named("passed")


def test_the_source_of_an_outbox_passes(url: str, tables: Tables) -> None:
    options = ["--sequence-column=id", "--value-column=value", "--partition-column=part", "--poll-seconds=0.1"]
    command = ["postgresql-outbox", "--source=s", f"--url={url}", f"--table={tables.name('{check}')}", *options]
    commands: dict[str, Command] = {"setup": tables.fill, "produce": tables.produce}
    verdict = judge("source", command, {"messages": 30}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"resume", "replay", "crash", "gateway-restart", "largest-message"} <= verdict.named("passed")


def test_the_sink_passes(url: str, tables: Tables) -> None:
    options = ["--value-column=value", "--owner={check}"]
    command = ["postgresql-sink", "--sink=s", f"--url={url}", f"--table={tables.name('{check}')}", *options]
    commands: dict[str, Command] = {"setup": tables.make, "read": tables.read}
    declared = {"mode": "two-phase", "refused": "refused"}
    verdict = judge("sink", command, declared, commands)

    assert verdict.failed == set(), verdict.explained()
    assert verdict.named("skipped") == {"batch-again", "runs", "staged-survives"} | CLOSE


def test_the_upserting_sink_passes(url: str, tables: Tables) -> None:
    # It keeps one row for each key, so that what the kit sends cannot all be visible.
    def setup(check: str) -> None:
        tables.run(f"CREATE TABLE {tables.name(check)} (key text PRIMARY KEY, value text)")

    options = ["--value-column=value", "--key-columns=key", "--owner={check}"]
    command = ["postgresql-upsert", "--sink=s", f"--url={url}", f"--table={tables.name('{check}')}", *options]
    verdict = judge("sink", command, {"mode": "batch-idempotent"}, {"setup": setup})

    assert verdict.failed == set(), verdict.explained()
    assert {"prepare", "missing-part", "empty-part", "gateway-restart"} <= verdict.named("passed")
