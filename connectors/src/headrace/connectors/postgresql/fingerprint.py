"""The part of a table's shape that a cursor keeps, to notice changes between two runs of a connector. Pure functions."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from itertools import accumulate
from typing import Any

from headrace.connectors.postgresql.layout import Layout
from headrace.connectors.postgresql.sketch import Sketch
from headrace.connectors.postgresql.snapshot import Counted, Snapshot
from headrace.connectors.postgresql.table import Described, changes

_ROOM = 2000
"""The most bytes that columns, and partitions, may each take: a cursor has at most 4,096."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A table, as it was when rows were read.

    Attributes:
        table: Its id.
        columns: The columns that messages are made of; their digest if they are too many.
        complete: Whether these are all columns of the table, because none were named.
        generator: The storage of the sequence that generates the numbers, which is replaced when they start over; None if there
            is none.
        tables: The ids of the table, and of all partitions and tables that inherit; in a cursor, their sketch if they are many.
        newest: The largest number at the time.
        snapshot: The rows that were read last; None if that is unknown.
    """

    table: int
    columns: tuple[Described, ...] | str
    complete: bool
    generator: int | None
    tables: frozenset[int] | Sketch
    newest: int = 0
    snapshot: Snapshot | None = None

    @classmethod
    def of(cls, layout: Layout, generator: int | None, tables: frozenset[int]) -> "Fingerprint":
        """Returns the fingerprint of a table, without the largest number and the snapshot."""
        columns = layout.described
        few = len(_json(columns)) <= _ROOM
        complete = layout.fixed is None
        return cls(layout.table.oid, columns if few else digest(map(str, columns)), complete, generator, tables)

    @classmethod
    def read(cls, cursor: bytes) -> "Fingerprint":
        """Reads a cursor.

        Raises:
            ValueError: It is not one of this connector.
        """
        try:
            read = json.loads(cursor)
            columns, steps = read["columns"], read.get("tables", [read["table"]])
            return cls(
                table=int(read["table"]),
                columns=columns if isinstance(columns, str) else tuple(Described(*column) for column in columns),
                complete=bool(read.get("all")),
                generator=read.get("generator"),
                tables=Sketch.read(steps) if isinstance(steps, str) else frozenset(accumulate(steps)),
                newest=int(read.get("newest", 0)),
                snapshot=_snapshot(*read["snapshot"]) if "snapshot" in read else None,
            )
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{cursor!r} is no cursor of a table: {error}") from None

    def cursor(self) -> bytes:
        """Returns the cursor, as JSON."""
        written: dict[str, Any] = {"table": self.table, "columns": self.columns}
        if self.complete:
            written["all"] = True
        if self.generator is not None:
            written["generator"] = self.generator
        if self.tables != frozenset([self.table]):
            written["tables"] = self.tables.text() if isinstance(self.tables, Sketch) else _written(self.tables)
        if self.newest:
            written["newest"] = self.newest
        if (read := self.snapshot) is not None:
            written["snapshot"] = [read.last, read.xid, read.counted.inserted, read.counted.updated]
        return _json(written)

    def earlier_tables(self, now: frozenset[int]) -> frozenset[int] | None:
        """Returns the ids of the tables at the time; None if more have come and gone than a sketch can name.

        Args:
            now: The ids now.
        """
        return self.tables.tables(now) if isinstance(self.tables, Sketch) else self.tables

    def changes(self, now: Layout) -> list[str]:
        """Describes how the columns that are still to be read have changed."""
        described = now.described
        if isinstance(self.columns, str):
            return [] if self.columns == digest(map(str, described)) else ["its columns are others, or of other types"]
        complete = now.fixed is None
        used, numbers = {column.name for column in described}, {column.number for column in described}
        # A column that the parameters no longer name may change.
        earlier = [column for column in self.columns if complete or column.name in used or column.number in numbers]
        return changes(earlier, now.table, complete=complete and self.complete)


def digest(texts: Iterable[str]) -> str:
    """Returns a short name for texts."""
    return blake2s("\n".join(texts).encode(), digest_size=4).hexdigest()


@lru_cache(maxsize=8)
def _written(tables: frozenset[int]) -> Sequence[int] | str:
    """Returns the first id, and the difference of each further one from the one before; a sketch if that is too long."""
    ordered = sorted(tables)
    steps = [after - before for before, after in zip([0, *ordered], ordered, strict=False)]
    return steps if len(_json(steps)) <= _ROOM else Sketch.of(tables).text()


def _snapshot(last: int, xid: int, inserted: int, updated: int) -> Snapshot:
    return Snapshot(int(last), int(xid), Counted(int(inserted), int(updated)))


def _json(what: object) -> bytes:
    return json.dumps(what, ensure_ascii=False, separators=(",", ":")).encode()
