"""The files that a micro-batch writes to tables, as the checkpoint notes them before its commit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a table that a task has written.

    Attributes:
        name: Its name, which no other attempt uses.
        bytes: Its size.
        rows: The number of its rows.
        folder: The folder of its partition, such as `day=2026-11-29`; empty in a table without partitions.
    """

    name: str
    bytes: int
    rows: int
    folder: str = ""

    @property
    def path(self) -> str:
        """Its path in a table whose readers find partitions by their folders."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    def to_json(self) -> list[Any]:
        """The file as a document."""
        return [self.name, self.bytes, self.rows, *([self.folder] if self.folder else [])]

    @classmethod
    def of_json(cls, document: Any) -> "LakeFile":
        """The file of a document.

        Raises:
            ValueError: The document is not a file.
            TypeError: The document is not a file.
        """
        name, size, rows, *folder = document
        return cls(str(name), int(size), int(rows), *map(str, folder))


@dataclass(frozen=True, slots=True)
class LakeBatch:
    """The files of a micro-batch for one table. Readers see all of them once the micro-batch is committed, or none.

    Attributes:
        path: The place of the table.
        format: How its files are committed.
        query: Spark's id of the query, which is the same for the life of its checkpoint.
        batch: The number of the micro-batch.
        files: The files.
    """

    path: str
    format: str
    query: str
    batch: int
    files: tuple[LakeFile, ...]

    def to_json(self) -> list[Any]:
        """The batch as a document."""
        return [self.path, self.format, self.query, self.batch, [each.to_json() for each in self.files]]

    @classmethod
    def of_json(cls, document: Any) -> "LakeBatch":
        """The batch of a document.

        Raises:
            ValueError: The document is not a batch.
            TypeError: The document is not a batch.
        """
        path, form, query, batch, files = document
        return cls(str(path), str(form), str(query), int(batch), tuple(map(LakeFile.of_json, files)))


def joined(batches: Iterable[LakeBatch]) -> tuple[LakeBatch, ...]:
    """What all tasks of a micro-batch have written, by table."""
    found: dict[str, LakeBatch] = {}
    for each in batches:
        before = found.get(each.path)
        found[each.path] = each if before is None else replace(before, files=(*before.files, *each.files))
    return tuple(found[path] for path in sorted(found))
