"""Keeps the rows of a part until it is staged, since Spark's iterator over a task's rows can be read only once."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO

import numpy as np
import pyarrow as pa

from headrace.machine.resources import named_folder

MEMORY_BYTES = 16 * 2**20
_PREFIX_BYTES = 4


class Spool:
    """Record batches in order: in memory up to a limit, then in a temporary file."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._batches: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._file: IO[bytes] | None = None
        self._schema: pa.Schema | None = None
        self.messages = 0

    def close(self) -> None:
        """Frees all rows."""
        self._batches.clear()
        if self._file is not None:
            # It could not write everything, which `append` has raised.
            with suppress(OSError):
                self._file.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Adds a record batch. All must have the same schema.

        Raises:
            OSError: The temporary file cannot be written.
        """
        self.messages += batch.num_rows
        size = batch.get_total_buffer_size()
        if self._file is None and self._kept_bytes + size <= self._memory_bytes:
            self._batches.append(batch)
            self._kept_bytes += size
            return
        self._schema = batch.schema
        data = batch.serialize()
        with named_folder():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="headrace-part-")  # noqa: SIM115
            self._file.write(data.size.to_bytes(_PREFIX_BYTES, "little"))
            self._file.write(data)
            self._file.flush()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All record batches, from the first one. Do not append while iterating."""
        yield from self._batches
        if self._file is None:
            return
        self._file.seek(0)
        while prefix := self._file.read(_PREFIX_BYTES):
            data = self._file.read(int.from_bytes(prefix, "little"))
            yield pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)

    def pick(self, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows at `places`, which are ascending indices in the part, in one record batch for each stored one that has any."""
        wanted = np.asarray(places, dtype=np.int64)
        first = 0
        for batch in self:
            low, high = np.searchsorted(wanted, (first, first + batch.num_rows))
            if low < high:
                yield batch.take(pa.array(wanted[low:high] - first))
            first += batch.num_rows
