"""The rows of a part, kept until it is staged, since Spark gives a task's rows only once."""

import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

MEMORY_BYTES = 16 * 2**20
_PREFIX_BYTES = 4


class Spool:
    """Record batches in order: in memory, and in a temporary file where they are large."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes, prefix="headrace-part-")  # noqa: SIM115
        self._schema: pa.Schema | None = None
        self.messages = 0

    def close(self) -> None:
        """Lets go of all rows."""
        self._file.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Keeps a record batch; all have one schema."""
        self._schema = batch.schema
        data = batch.serialize()
        self._file.write(data.size.to_bytes(_PREFIX_BYTES, "little"))
        self._file.write(data)
        self.messages += batch.num_rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All record batches from the first one. Nothing may be appended meanwhile."""
        self._file.seek(0)
        while prefix := self._file.read(_PREFIX_BYTES):
            data = self._file.read(int.from_bytes(prefix, "little"))
            yield pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)

    def pick(self, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows at some places of the part, which rise: a record batch for each one that has some of them."""
        wanted = np.asarray(places, dtype=np.int64)
        first = 0
        for batch in self:
            low, high = np.searchsorted(wanted, (first, first + batch.num_rows))
            if low < high:
                yield batch.take(pa.array(wanted[low:high] - first))
            first += batch.num_rows
