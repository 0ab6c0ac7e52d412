"""The stored states of one bucket, in the files of a checkpoint.

A micro-batch writes one file for each bucket with messages: the pieces that it has written, and a description of the bucket, its
head and where each piece is. Pieces that have not changed stay in the files of earlier micro-batches.
"""

import pickle
from collections.abc import Sequence

from headrace.engine.checkpoint._manifests import Bucket, Entry, new_file
from headrace.engine.checkpoint._state_files import StateFiles
from headrace.pipelines.runtime import dumps_plain

_Place = tuple[str, int, int]
"""A file, and the offset and size of a piece in it, in bytes."""


class BucketFiles:
    """The store of a bucket while its micro-batch runs: what it writes is kept in memory until `finish`.

    Args:
        files: The files of the checkpoint.
        bucket: The bucket.
        entry: The bucket's entry in the manifest of the last micro-batch; None if the bucket is new.
    """

    def __init__(self, files: StateFiles, bucket: Bucket, entry: Entry | None) -> None:
        self._files = files
        self._bucket = bucket
        self._head: bytes | None = None
        self.is_changed = False
        """Whether a micro-batch has replaced the head, which it does last."""
        places: tuple[dict[int, _Place], dict[int, _Place]] = ({}, {})
        if entry is not None:
            self._head, *places = pickle.loads(files.read(entry.file, entry.offset, entry.bytes))
        self.changes = _Pieces(files, places[0])
        self.segments = _Pieces(files, places[1])

    def read_head(self) -> bytes | None:
        """The head; None if the bucket is new."""
        return self._head

    def write_head(self, head: bytes) -> None:
        """Replaces the head."""
        self._head = head
        self.is_changed = True

    @property
    def size(self) -> int:
        """The size of all pieces, in bytes."""
        return sum(size for pieces in (self.changes, self.segments) for _, _, size in pieces.places.values())

    def finish(self, batch: int, run: int | None = None) -> Entry:
        """Writes the file of this micro-batch; returns the bucket's entry in its manifest.

        Args:
            batch: The micro-batch.
            run: The number of its run; None if it has none.
        """
        name = new_file(self._bucket, batch, run)
        parts: list[bytes] = []
        offset = self.changes.place(name, 0, parts)
        offset = self.segments.place(name, offset, parts)
        description = dumps_plain((self._head, self.changes.places, self.segments.places))
        self._files.write(name, [*parts, description])
        needs = {file for places in (self.changes.places, self.segments.places) for file, _, _ in places.values()}
        return Entry(name, offset, len(description), tuple(sorted(needs | {name})))


class _Pieces:
    """Numbered pieces of a bucket."""

    def __init__(self, files: StateFiles, places: dict[int, _Place]) -> None:
        self._files = files
        self.places = places
        self._written: dict[int, bytes] = {}

    def read(self, number: int) -> bytes:
        """The piece with a number."""
        written = self._written.get(number)
        return self._files.read(*self.places[number]) if written is None else written

    def write(self, number: int, piece: bytes) -> None:
        """Stores a piece under a number, replacing the one before."""
        self._written[number] = piece

    def drop(self, numbers: Sequence[int]) -> None:
        """Removes pieces."""
        for number in numbers:
            self._written.pop(number, None)
            self.places.pop(number, None)

    def place(self, name: str, offset: int, parts: list[bytes]) -> int:
        """Appends what was written to the parts of a file; returns the offset after it, in bytes."""
        for number, piece in self._written.items():
            parts.append(piece)
            self.places[number] = (name, offset, len(piece))
            offset += len(piece)
        return offset
