"""The SQL that inserts messages into a table."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from headrace.connectors.postgresql._target import Filling

_INSERT = "INSERT INTO {target} ({names}) SELECT {expressions} FROM "


@dataclass(frozen=True, slots=True)
class Inserting:
    """Inserts; a `Writing`.

    Attributes:
        filling: The expressions for the columns.
        skips: Whether rows that violate a unique constraint are skipped.
    """

    filling: Filling
    skips: bool

    def all_of(self, chunk: sql.Composable, target: sql.Composable) -> sql.Composed:
        """Returns a statement that inserts all messages of a chunk, in their order."""
        return self._insert(target) + self.filling.messages(chunk) + self._conflicts

    def one(self, target: sql.Composable) -> sql.Composed:
        """Returns a statement that inserts the `message` of a loop."""
        one = sql.SQL("(VALUES (1)) AS one {}").format(self.filling.records)
        return self._insert(target) + one + self._conflicts + sql.SQL(";")

    def messages(self, chunk: sql.Composable) -> sql.Composed:
        """Returns the messages of a chunk; follows FROM."""
        return self.filling.messages(chunk, with_records=False)

    def _insert(self, target: sql.Composable) -> sql.Composed:
        return sql.SQL(_INSERT).format(target=target, names=self.filling.names, expressions=self.filling.expressions)

    @property
    def _conflicts(self) -> sql.SQL:
        clause: LiteralString = " ON CONFLICT DO NOTHING" if self.skips else ""
        return sql.SQL(clause)
