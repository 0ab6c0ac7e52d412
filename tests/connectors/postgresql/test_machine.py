"""What programs commit at random, among changes of the table, and what the source reads: the same, once, in order."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import hypothesis
import psycopg
import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from psycopg import Connection
from tests import machines
from tests.connectors.postgresql.rig import DEADLINE_S, entries
from tests.selection.turns import in_turns

from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource, continuity, fingerprint, reading
from headrace.sdk import Batch, InvalidSource, Position, PositionLost

SECONDS_PER_EXAMPLE = 5.0
WRITERS = st.integers(0, 2)
KINDS = range(4)
Row = tuple[int, int, str]
"""A row: its number, its partition, and its text."""


@dataclass(frozen=True)
class Known:
    """The table, as a run or a cursor knows it.

    Attributes:
        columns: The columns by number: name and type.
        partitions: The partitions that are part of the table.
        generation: How often numbers have started over.
        newest: The largest number.
    """

    columns: dict[int, tuple[str, str]]
    partitions: frozenset[int]
    generation: int
    newest: int


@dataclass
class Model:
    """The table as it should be.

    Attributes:
        rows: The committed rows, by number, of all partitions, also of detached ones.
        partitions: The partitions that are part of the table.
        columns: The columns besides number, kind and text.
        generation: How often numbers have started over.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=lambda: {0, 1})
    detached: set[int] = field(default_factory=set)
    columns: dict[int, tuple[str, str]] = field(default_factory=dict)
    generation: int = 0

    def visible(self) -> dict[int, Row]:
        """The rows that the table shows, in order."""
        return {number: row for number, row in sorted(self.rows.items()) if row[1] in self.partitions}

    def known(self) -> Known:
        """The result of a look."""
        visible = self.visible()
        return Known(dict(self.columns), frozenset(self.partitions), self.generation, max(visible, default=0))

    def value(self, row: Row) -> dict[str, Any]:
        """The message that the source makes of a row; added columns have a default."""
        number, kind, text = row
        added = {name: "5" if type_ == "text" else 5 for name, type_ in self.columns.values()}
        return {"id": number, "kind": kind, "v": text, **added}


class PostgreSQLMachine(RuleBasedStateMachine):
    """Commits, rolls back, prepares, changes columns and partitions that are read, empties the table, restarts the source."""

    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.admin = psycopg.connect(self.url, autocommit=True)
        self.admin.execute("DROP SCHEMA IF EXISTS machine CASCADE; CREATE SCHEMA machine")
        self.admin.execute("CREATE SEQUENCE machine.numbers")
        number = "id bigint NOT NULL DEFAULT nextval('machine.numbers')"
        self.admin.execute(f"CREATE TABLE machine.t ({number}, kind int, v text) PARTITION BY LIST (kind)")
        self.admin.execute("ALTER SEQUENCE machine.numbers OWNED BY machine.t.id; CREATE INDEX ON machine.t (id)")
        self.model = Model()
        for kind in sorted(self.model.partitions):
            self.admin.execute(f"CREATE TABLE machine.k{kind} PARTITION OF machine.t FOR VALUES IN ({kind})")
        self.writers: list[Connection] = [psycopg.connect(self.url) for _ in range(3)]
        self.open: dict[int, list[Row]] = {}
        self.prepared: dict[str, list[Row]] = {}
        self.items: AsyncIterator[Batch | None] | None = None
        self.run: Known | None = None
        self.position: Position | None = None
        self.at_position: Known | None = None
        self.dealt_with: set[int] = set()
        """The numbers that were read, or that a user has left out."""
        self.written = 0
        # A position, and rows after it, from the first step on.
        for count in (3, 2):
            query = "INSERT INTO machine.t (kind, v) SELECT 0, 'v' FROM generate_series(1, %s) RETURNING id, kind, v"
            self._is_committed(self.admin.execute(query, (count,)).fetchall())
            if count == 3:
                self.read()
                self._stop()

    @property
    def idle(self) -> bool:
        """Whether no transaction holds a lock on the table."""
        return not self.open and not self.prepared

    @property
    def after(self) -> int:
        """The number of the last row that was read."""
        return self.position.sequence if self.position else 0

    # What programs do

    @rule(writer=WRITERS, count=st.integers(1, 5), data=st.data())
    def insert(self, writer: int, count: int, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(sorted(self.model.partitions)))
        for _ in range(count):
            value = f"v{self.written}"
            self.written += 1
            query = "INSERT INTO machine.t (kind, v) VALUES (%s, %s) RETURNING id"
            (row,) = self.writers[writer].execute(query, (kind, value)).fetchall()
            self.open.setdefault(writer, []).append((row[0], kind, value))

    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        self.writers[writer].commit()
        self._is_committed(self.open.pop(writer, []))

    @rule(writer=WRITERS)
    def roll_back(self, writer: int) -> None:
        self.writers[writer].rollback()
        self.open.pop(writer, None)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def prepare(self, data: st.DataObject) -> None:
        writer = data.draw(st.sampled_from(sorted(self.open)))
        self.written += 1
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
        self._is_committed(rows if kept else [])

    @rule()
    def delete_what_was_read(self) -> None:
        self.admin.execute("DELETE FROM machine.t WHERE id <= %s", (self.after,))
        for number in [number for number in self.model.visible() if number <= self.after]:
            del self.model.rows[number]

    def _is_committed(self, rows: list[Row]) -> None:
        self.model.rows |= {row[0]: row for row in rows}

    # What administrators do, between transactions

    @precondition(lambda self: self.idle)
    @rule()
    def add_a_column(self) -> None:
        self.written += 1
        name = f"c{self.written}"
        self._alter(f"ADD {name} int DEFAULT 5")
        self.model.columns[self.written] = (name, "int")

    @precondition(lambda self: self.idle and self.model.columns)
    @rule(data=st.data(), how=st.sampled_from(["drop", "rename", "retype"]))
    def change_a_column(self, data: st.DataObject, how: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.columns)))
        name, type_ = self.model.columns[number]
        self.written += 1
        if how == "drop":
            self._alter(f"DROP {name}")
            del self.model.columns[number]
        elif how == "rename":
            self._alter(f"RENAME {name} TO c{self.written}")
            self.model.columns[number] = (f"c{self.written}", type_)
        else:
            to = {"int": "bigint", "bigint": "text", "text": "text"}[type_]
            self._alter(f"ALTER {name} TYPE {to}")
            self.model.columns[number] = (name, to)

    def _alter(self, change: str) -> None:
        """Changes the table, and the partitions that may be attached again."""
        for table in ("t", *(f"k{kind}" for kind in sorted(self.model.detached))):
            self.admin.execute(f"ALTER TABLE machine.{table} {change}")

    @precondition(lambda self: self.idle and len(self.model.partitions) > 1)
    @rule(data=st.data(), how=st.sampled_from(["", " CONCURRENTLY"]))
    def detach(self, data: st.DataObject, how: str) -> None:
        kind = data.draw(st.sampled_from(sorted(self.model.partitions)))
        self.admin.execute(f"ALTER TABLE machine.t DETACH PARTITION machine.k{kind}{how}")
        self.model.partitions.remove(kind)
        self.model.detached.add(kind)

    @precondition(lambda self: self.idle)
    @rule(kind=st.sampled_from(KINDS))
    def attach(self, kind: int) -> None:
        if kind in self.model.partitions:
            return
        if kind in self.model.detached:
            self.admin.execute(f"ALTER TABLE machine.t ATTACH PARTITION machine.k{kind} FOR VALUES IN ({kind})")
            self.model.detached.remove(kind)
        else:
            self.admin.execute(f"CREATE TABLE machine.k{kind} PARTITION OF machine.t FOR VALUES IN ({kind})")
        self.model.partitions.add(kind)

    @precondition(lambda self: self.idle)
    @rule(restart=st.booleans(), count=st.integers(0, 40))
    def truncate(self, restart: bool, count: int) -> None:
        """Empties the table; if numbers start over, a load may bring more of them than there were."""
        self.admin.execute(f"TRUNCATE machine.t {'RESTART IDENTITY' if restart else ''}")
        self.model.rows = {number: row for number, row in self.model.rows.items() if row[1] in self.model.detached}
        if restart:
            # Numbers of detached rows would be drawn again.
            for kind in sorted(self.model.detached):
                self.admin.execute(f"DROP TABLE machine.k{kind}")
            self.model.rows, self.model.detached = {}, set()
            self.model.generation += 1
            query = "INSERT INTO machine.t (kind, v) SELECT %s, 'w' || n FROM generate_series(1, %s) AS n RETURNING id, kind, v"
            self._is_committed(self.admin.execute(query, (min(self.model.partitions), count)).fetchall())

    # The source

    @rule()
    def restart(self) -> None:
        self._stop()

    @rule()
    def read(self) -> None:
        accepted: list[str] = []
        answered = set[str]()
        while True:
            reasons, before = self._reasons(), self.after
            try:
                found = self._read_now(accepted)
                break
            except (InvalidSource, PositionLost) as error:
                said = str(error)
                named = {reason for reason in reasons if re.search(reason, said)}
                assert named, f"expected one of {reasons}, and it said: {said}"
                self._stop()
                if isinstance(error, InvalidSource):
                    (code,) = re.findall(r"set accept_changes to (\w+) and restart", said)
                    assert code not in accepted, f"accepted, and raised again: {said}"
                    accepted.append(code)
                    answered |= named
                else:
                    self._lose(over="have started over" in said)
        assert answered.issuperset(reasons), f"it did not say: {reasons}"
        visible = self.model.visible()
        if accepted:
            self.dealt_with |= {number for number in visible if number <= before}
        wanted = [(number, self.model.value(row)) for number, row in visible.items() if number > before]
        assert found == wanted[: len(found)]
        assert not self.idle or len(found) == len(wanted)
        self.dealt_with |= {number for number, _ in found}
        assert not [number for number in visible if number <= self.after and number not in self.dealt_with]

    def _lose(self, *, over: bool) -> None:
        """A query that accepts the loss begins without a cursor, and one that reads another stream at the beginning."""
        self.position, self.at_position = None if over or not self.position else Position(sequence=self.after), None
        if over:
            self.dealt_with.clear()

    def _reasons(self) -> list[str]:
        """Returns what the source must complain about, in the state in which it is."""
        known, now, table = self.run or self.at_position, self.model.known(), self.model
        if known is None:
            return []
        reasons = []
        if known.generation != now.generation and self.after:
            reasons.append("have started over")
        # A run whose columns have changed says that before it says that numbers have started over.
        if known.columns != now.columns and (now.newest > self.after or (self.run is not None and reasons)):
            reasons.append("has changed since it was read: column")
        came, went = now.partitions - known.partitions, known.partitions - now.partitions
        early = sorted({kind for number, kind, _ in table.rows.values() if kind in came and number <= self.after})
        late = sorted({kind for number, kind, _ in table.rows.values() if kind in went and number > self.after})
        reasons += [f"machine.k({'|'.join(map(str, early))}) was attached"] if early else []
        reasons += [f"machine.k({'|'.join(map(str, late))}) was detached"] if late else []
        emptied = known.newest > self.after and known.newest not in table.rows
        if emptied and (now.newest <= self.after or self.run is None) and known.partitions == now.partitions:
            reasons.append("are gone before they were read")
        return reasons

    def _read_now(self, accepted: list[str]) -> list[tuple[int, dict[str, Any]]]:
        """Reads what is there, in the run that there is, or in a new one."""
        if self.items is None:
            given = {"url": self.url, "table": "machine.t", "source": "s", "poll_seconds": 0.01, "accept_changes": accepted}
            self.items = PostgreSQLSource(PostgreSQLParameters(**given)).read("0", self.position)
        found: list[tuple[int, dict[str, Any]]] = []

        async def collect(items: AsyncIterator[Batch | None]) -> None:
            async with asyncio.timeout(DEADLINE_S):
                async for batch in items:
                    if batch is None:
                        return
                    found.extend(zip(batch.sequences, map(json.loads, entries(batch.values)), strict=True))
                    self.position = Position(sequence=batch.sequences[-1], cursor=batch.cursor)
                    self.at_position = self.model.known()

        self.loop.run_until_complete(collect(self.items))
        # A run keeps the columns with which it has begun.
        now = self.model.known()
        self.run = now if self.run is None else replace(now, columns=self.run.columns)
        return found

    def _stop(self) -> None:
        """Ends the run."""
        items, self.items, self.run = self.items, None, None
        if items is not None:
            self.loop.run_until_complete(items.aclose())  # type: ignore[attr-defined]

    def teardown(self) -> None:
        try:
            for name in list(self.prepared):
                self.admin.execute(f"ROLLBACK PREPARED '{name}'")
            self.prepared.clear()
            for writer in range(3):
                self.roll_back(writer)
            self.read()
        finally:
            self._stop()
            self.loop.close()
            for connection in (*self.writers, self.admin):
                connection.close()


def test_what_is_read_is_what_was_committed(url, pytestconfig):
    PostgreSQLMachine.url = url
    machines.run(PostgreSQLMachine, pytestconfig, SECONDS_PER_EXAMPLE)


async def no_check(*_: object) -> None:
    """Checks nothing."""


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "changes between two runs are not checked": (reading, "check_known", no_check),
    "changes of columns are not noticed": (continuity.Watch, "retyped", lambda *_: None),
    "a cursor has no room for columns and partitions": (fingerprint, "_ROOM", 1),
}


@pytest.mark.parametrize("fault", in_turns(FAULTS))
def test_a_planted_fault_is_found(url, fault, monkeypatch):
    PostgreSQLMachine.url = url
    where, name, instead = FAULTS[fault]
    monkeypatch.setattr(where, name, instead)
    settings = hypothesis.settings(
        max_examples=40,
        stateful_step_count=machines.STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(hypothesis.seed(0)(PostgreSQLMachine), settings=settings)
