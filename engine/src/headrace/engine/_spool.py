"""The frames of a part, kept until it is staged, since Spark gives a task's rows only once."""

import itertools
import tempfile
from collections.abc import Iterator, Sequence

from headrace.engine import _decode as decode
from headrace.engine._encode import frames
from headrace.protocol.v1 import frame_pb2 as pb

MEMORY_BYTES = 16 * 2**20
_PREFIX_BYTES = 4


class Spool:
    """Frames in order: in memory, and in a temporary file where they are many."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes, prefix="headrace-part-")  # noqa: SIM115
        self.messages = 0

    def close(self) -> None:
        """Lets go of all frames."""
        self._file.close()

    def append(self, frame: pb.Frame) -> None:
        """Keeps a frame."""
        data = frame.SerializeToString()
        self._file.write(len(data).to_bytes(_PREFIX_BYTES, "little"))
        self._file.write(data)
        self.messages += frame.count

    def __iter__(self) -> Iterator[pb.Frame]:
        """All frames from the first one. Nothing may be appended meanwhile."""
        self._file.seek(0)
        while prefix := self._file.read(_PREFIX_BYTES):
            yield pb.Frame.FromString(self._file.read(int.from_bytes(prefix, "little")))

    def pick(self, places: Sequence[int], first: int = 0) -> Iterator[pb.Frame]:
        """The messages at some places of the part, which rise, as frames of their own whose sequences count from `first`."""
        runs = _runs(places)
        for frame in self:
            columns = decode.columns("", frame)
            found = [part for low, high in runs if (part := decode.cut(columns, low - 1, high)) is not None]
            for batch in decode.record_batches(found):
                yield from frames(batch, first)
                first += batch.num_rows


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Rising places as runs of consecutive ones, from first to last."""
    groups = itertools.groupby(enumerate(places), lambda pair: pair[1] - pair[0])
    runs = ([place for _, place in group] for _, group in groups)
    return [(run[0], run[-1]) for run in runs]
