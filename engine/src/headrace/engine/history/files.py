"""The files of a history, as a checkpoint keeps them."""

import gzip
from dataclasses import dataclass

import pyarrow as pa

from headrace.engine._errors import HistoryError
from headrace.engine.history.stores import store_of

PARQUET, LINES, PACKED_LINES = "parquet", "lines", "packed lines"
Values = tuple[tuple[str, str | int | bool | None], ...]
"""Columns of a table, and the value that each has in all rows of a file."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a history.

    Attributes:
        path: Its path or URL.
        kind: PARQUET, LINES or PACKED_LINES.
        size: Its size in bytes, when it was listed.
        values: The columns by which its table is divided, with their values, where the file lacks these columns.
    """

    path: str
    kind: str
    size: int
    values: Values = ()

    def open(self) -> pa.NativeFile:
        """Opens it for random access.

        Raises:
            HistoryError: It cannot be opened, or has changed since it was listed.
        """
        try:
            store, inner = store_of(self.path)
            opened = store.open_input_file(inner)
            size = opened.size()
        except OSError as error:
            raise HistoryError(f"history {self.path}: {error}; put the file back, which the checkpoint has listed") from None
        if size != self.size:
            raise HistoryError(
                f"history {self.path}: the file had {self.size} bytes when the checkpoint began, and now has {size}; put it back "
                "as it was, or begin with a new checkpoint"
            )
        return opened

    def text(self, begin: int, end: int) -> bytes:
        """The bytes of a file of lines from `begin` (inclusive) to `end` (exclusive), unpacked.

        Raises:
            HistoryError: As `open`, or the file is damaged.
        """
        with self.open() as opened:
            if self.kind == LINES:
                opened.seek(begin)
                return bytes(opened.read(end - begin))
            try:
                return gzip.decompress(opened.read())[begin:end]
            except (OSError, EOFError) as error:
                raise HistoryError(f"history {self.path}: {error}; replace the damaged file") from None
