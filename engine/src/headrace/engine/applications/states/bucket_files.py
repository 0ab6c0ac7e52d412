"""The stored states of one bucket, in the files of a checkpoint.

A micro-batch writes one file for each bucket with messages: the pieces that it has written, and a description of the bucket, its
head and where each piece is. Pieces that have not changed stay in the files of earlier micro-batches. Description and pieces have
checksums, which are compared whenever they are read.
"""

import pickle
import zlib
from collections.abc import Iterator, Sequence

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.states.piece_spool import PieceSpool
from headrace.engine.checkpoint.manifests import RESTORE, STATES, Bucket, Entry, new_file
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.pipelines.runtime import dumps_plain

_Place = tuple[str, int, int, int]
"""A file, the offset and size of a piece in it, in bytes, and its checksum."""


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
        self._entry = entry
        self.reset()

    def reset(self) -> None:
        """Forgets what was written since the last micro-batch."""
        self._head: bytes | None = None
        self.is_changed = False
        """Whether a micro-batch has replaced the head, which it does last."""
        places: tuple[dict[int, _Place], dict[int, _Place]] = ({}, {})
        if (entry := self._entry) is not None:
            description = _checked(self._files, (entry.file, entry.offset, entry.bytes, entry.checksum))
            self._head, *places = pickle.loads(description)
        self.changes, self.segments = (_Pieces(self._files, each) for each in places)

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
        return sum(place[2] for pieces in (self.changes, self.segments) for place in pieces.places.values())

    def finish(self, batch: int, run: int | None = None) -> Entry:
        """Writes the file of this micro-batch; returns the bucket's entry in its manifest.

        Args:
            batch: The micro-batch.
            run: The number of its run; None if it has none.
        """
        name = new_file(self._bucket, batch, run)
        offset = self.changes.place(name, 0)
        offset = self.segments.place(name, offset)
        description = dumps_plain((self._head, self.changes.places, self.segments.places))
        self._files.write(name, _Parts((self.changes, self.segments), description))
        needs = {place[0] for places in (self.changes.places, self.segments.places) for place in places.values()}
        return Entry(name, offset, len(description), tuple(sorted(needs | {name})), zlib.crc32(description))


class _Pieces:
    """Numbered pieces of a bucket."""

    def __init__(self, files: StateFiles, places: dict[int, _Place]) -> None:
        self._files = files
        self.places = places
        self._written = PieceSpool()

    def read(self, number: int) -> bytes:
        """The piece with a number."""
        return self._written.get(number) if number in self._written else _checked(self._files, self.places[number])

    def write(self, number: int, piece: bytes) -> None:
        """Stores a piece under a number, replacing the one before."""
        self._written.put(number, piece)

    def drop(self, numbers: Sequence[int]) -> None:
        """Removes pieces."""
        for number in numbers:
            self._written.drop(number)
            self.places.pop(number, None)

    def place(self, name: str, offset: int) -> int:
        """Gives what was written places in a file; returns the offset after it, in bytes."""
        for number in self._written:
            piece = self._written.get(number)
            self.places[number] = (name, offset, len(piece), zlib.crc32(piece))
            offset += len(piece)
        return offset

    def written(self) -> Iterator[bytes]:
        """The pieces for the file, in the order of their places."""
        return map(self._written.get, self._written)


class _Parts:
    """The parts of a file, one at a time: together, they may be as large as all states.

    Args:
        pieces: The pieces.
        description: What follows them.
    """

    def __init__(self, pieces: Sequence[_Pieces], description: bytes) -> None:
        self._pieces, self._description = pieces, description

    def __iter__(self) -> Iterator[bytes]:
        for pieces in self._pieces:
            yield from pieces.written()
        yield self._description


def _checked(files: StateFiles, place: _Place) -> bytes:
    """The bytes at a place.

    Raises:
        CheckpointError: They differ from the pieces that were written, or are missing.
    """
    file, offset, size, checksum = place
    try:
        found = files.read(file, offset, size)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{STATES}/{file} in the checkpoint is missing: a driver that has started meanwhile may have removed it; "
            f"if none has: {RESTORE}"
        ) from error
    if zlib.crc32(found) != checksum:
        raise CheckpointError(
            f"{STATES}/{file} in the checkpoint is damaged: {size} bytes from byte {offset} on differ from what was written; "
            f"{RESTORE}"
        )
    return found
