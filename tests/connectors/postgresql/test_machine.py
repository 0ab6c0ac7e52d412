"""What programs commit at random, among changes of the table, and what the source reads: the same, once, in order."""

import asyncio
import json
from typing import ClassVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from psycopg import Connection
from tests import machines
from tests.connectors.postgresql.rig import read_once

from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource

SECONDS_PER_EXAMPLE = 5.0
WRITERS = st.integers(0, 2)


class PostgreSQLMachine(RuleBasedStateMachine):
    """Inserts, commits, rolls back, prepares, changes columns, deletes what was read, and restarts the source."""

    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.admin = psycopg.connect(self.url, autocommit=True)
        self.admin.execute("DROP TABLE IF EXISTS machine")
        self.admin.execute("CREATE TABLE machine (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
        self.writers: list[Connection] = [psycopg.connect(self.url) for _ in range(3)]
        self.open: dict[int, list[tuple[int, str]]] = {}
        self.prepared: dict[str, list[tuple[int, str]]] = {}
        self.committed: dict[int, str] = {}
        self.found: list[tuple[int, str]] = []
        self.written = 0

    @rule(writer=WRITERS, count=st.integers(1, 5))
    def insert(self, writer: int, count: int) -> None:
        for _ in range(count):
            value = f"v{self.written}"
            self.written += 1
            (row,) = self.writers[writer].execute("INSERT INTO machine (v) VALUES (%s) RETURNING id", (value,)).fetchall()
            self.open.setdefault(writer, []).append((row[0], value))

    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        self.writers[writer].commit()
        self.committed |= dict(self.open.pop(writer, []))

    @rule(writer=WRITERS)
    def roll_back(self, writer: int) -> None:
        self.writers[writer].rollback()
        self.open.pop(writer, None)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def prepare(self, data: st.DataObject) -> None:
        writer = data.draw(st.sampled_from(sorted(self.open)))
        name = f"machine {self.written}"
        self.writers[writer].execute(f"PREPARE TRANSACTION '{name}'")
        self.writers[writer].rollback()
        self.prepared[name] = self.open.pop(writer)

    @precondition(lambda self: self.prepared)
    @rule(data=st.data(), kept=st.booleans())
    def decide(self, data: st.DataObject, kept: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.prepared)))
        self.admin.execute(f"{'COMMIT' if kept else 'ROLLBACK'} PREPARED '{name}'")
        rows = self.prepared.pop(name)
        self.committed |= dict(rows) if kept else {}

    @precondition(lambda self: not self.open and not self.prepared)
    @rule(number=st.integers(0, 3))
    def change_another_column(self, number: int) -> None:
        self.admin.execute(f"ALTER TABLE machine DROP COLUMN IF EXISTS c{number}, ADD c{number + 4 * self.written} int DEFAULT 1")

    @rule()
    def delete_what_was_read(self) -> None:
        self.admin.execute("DELETE FROM machine WHERE id <= %s", (self.found[-1][0] if self.found else 0,))

    @rule()
    def read(self) -> None:
        given = {"url": self.url, "table": "machine", "source": "s", "columns": ["v"], "poll_seconds": 0.01}
        after = self.found[-1][0] if self.found else 0
        messages = asyncio.run(read_once(PostgreSQLSource(PostgreSQLParameters(**given)), after=after))
        self.found += [(message.sequence or 0, json.loads(message.value or b"")["v"]) for message in messages]
        wanted = sorted(self.committed.items())
        assert self.found == wanted[: len(self.found)]
        if not self.open and not self.prepared:
            assert self.found == wanted

    def teardown(self) -> None:
        try:
            for name in list(self.prepared):
                self.admin.execute(f"ROLLBACK PREPARED '{name}'")
            self.prepared.clear()
            for writer in range(3):
                self.roll_back(writer)
            self.read()
        finally:
            for connection in (*self.writers, self.admin):
                connection.close()


def test_what_is_read_is_what_was_committed(url, pytestconfig):
    PostgreSQLMachine.url = url
    machines.run(PostgreSQLMachine, pytestconfig, SECONDS_PER_EXAMPLE)
