"""The columns of a table with a log beside an application's: equal, or lacking some that can be added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engine._errors import LakeError


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: Its name.
        kind: Its type, as both sides name it.
        nullable: Whether it may be null.
    """

    name: str
    kind: Any
    nullable: bool


def missing(
    place: str, present: Iterable[Column], needs: Iterable[Column], partition_by: Sequence[str], *, may_require: bool
) -> list[str]:
    """The columns that a table lacks.

    Args:
        place: The place of the table.
        present: Its columns.
        needs: The columns of the application.
        partition_by: Columns that divide the table, which files do not have.
        may_require: Whether a column that permits no null can be added, since the table has no rows.

    Raises:
        LakeError: It has one of another type, or with a case of its own, or one that must not be null and is not written.
    """
    there = {column.name.lower(): column for column in present}
    here = {column.name.lower(): column for column in needs}
    for key, column in here.items():
        other = there.get(key)
        if other is not None and (other.name, other.kind) != (column.name, column.kind):
            raise LakeError(
                f"lake {place} has the column {other.name} of type {other.kind}, and the schema of the application "
                f"{column.name} of type {column.kind}: rename the field, or write to another table"
            )
        if other is not None and column.nullable and not other.nullable:
            raise LakeError(f"lake {place}: its column {other.name} permits no null, and the field may be None")
        if other is None and not column.nullable and not may_require:
            raise LakeError(f"lake {place} lacks the column {column.name}: only a field that may be None can be added")
    for key, other in there.items():
        if key not in here and not other.nullable and other.name not in partition_by:
            raise LakeError(f"lake {place}: its column {other.name} permits no null, and the schema has no such field")
    return [column.name for key, column in here.items() if key not in there]
