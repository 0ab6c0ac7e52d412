"""The `file-sink`: every message of a transaction is in the files once it is committed, exactly once and in order."""

import fcntl
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.connectors.file._disk import Disk
from headrace.connectors.file._format import SinkFormat, encode
from headrace.connectors.file._output import Output, Rotation
from headrace.connectors.file._staging import Staging
from headrace.sdk import WRITTEN, InvalidSink, Outcome, Outcomes, Part, Recovered, Refused, Rows, Transaction, TwoPhaseSink

log = logging.getLogger("headrace.connectors")

_LOOK_SECONDS = 1.0


class FileSink(TwoPhaseSink):
    """Writes files that are only ever appended to, `<name>-<number>` with the format's suffix, in a folder.

    Parts are staged in the hidden folder `.headrace/<name>` beside them, which must not be touched. A file is complete once the
    next one exists; only then may it be moved away. Until then it may end within a record, for who reads it meanwhile.
    """

    connector = "file-sink"
    version = "0.1.0"

    def __init__(
        self,
        name: str,
        path: str | os.PathLike[str],
        format: SinkFormat = SinkFormat.JSON,
        *,
        rotation: Rotation | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Takes a folder; makes it where needed.

        Args:
            name: What Spark calls the sink.
            path: The folder.
            format: How messages follow one another.
            rotation: When to begin a new file. Default: at 128 MiB.
            disk: How files are written; for tests.

        Raises:
            InvalidSink: Another process writes this sink to this folder, or it cannot be written to.
        """
        if not name.strip(".") or "/" in name:
            raise InvalidSink(f"sink name {name!r}: it cannot be the name of a folder")
        self.name = name
        self._format = format
        self._disk = disk or Disk()
        folder = Path(path)
        hidden = folder / ".headrace" / name
        try:
            self._disk.make_folder(hidden)
            self._lock = _lock(hidden / "lock")
            self._staging = Staging(hidden / "staged", self._disk)
        except BlockingIOError:
            raise InvalidSink(f"another process writes the sink {name} to {folder}; give each one a folder of its own") from None
        except OSError as error:
            raise InvalidSink(f"cannot write to {folder}: {error.strerror}") from error
        rotation = rotation or Rotation()
        self._output = Output(folder, hidden, name, format.suffix, rotation, self._disk)
        # Whoever is told what to commit, and who looks at the time, are two threads.
        self._output_lock = threading.Lock()
        self._closed = threading.Event()
        self._clock = None if rotation.seconds is None else threading.Thread(target=self._rotate, args=(rotation.seconds,))
        if self._clock is not None:
            self._clock.daemon = True
            self._clock.start()

    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        """Writes a part to a file of its own."""
        refused: dict[int, Refused] = {}
        messages = 0
        with self._staging.begin(part) as file:
            for some in rows:
                encoded = encode(some, self._format)
                self._disk.write(file, encoded.data)
                refused |= encoded.refused
                messages += len(some)
            self._staging.finish(part, file)
        if not refused:
            return None
        outcomes: list[Outcome] = [WRITTEN] * messages
        for place, why in refused.items():
            outcomes[place] = why
        return outcomes

    def drop(self, part: Part) -> None:
        """Removes a part's file."""
        self._staging.drop(part)

    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Writes the vote down."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._staging.vote(transaction, parts)

    def commit(self, transaction: Transaction) -> None:
        """Moves or appends the parts to the files that are visible."""
        with self._output_lock:
            self._output.finish(self._staging)
            vote = self._staging.voted(transaction)
            if vote is not None:
                self._output.show(vote, self._staging)
                return
            if not self._output.shows(transaction):
                batch, pipeline = transaction.batch, transaction.pipeline
                raise LookupError(f"batch {batch} of pipeline {pipeline} was never prepared in this folder")
            self._staging.abort(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Removes the vote and the parts."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._staging.abort(transaction)

    def recover(self) -> Recovered:
        """Finishes a commit that was interrupted, and reads what there is."""
        with self._output_lock:
            self._output.finish(self._staging)
        self._staging.tidy()
        votes = [vote.transaction for vote in self._staging.votes()]
        return Recovered(self._staging.parts(), votes, self._output.committed())

    def rotate(self) -> None:
        """Begins a new file where that is due, so that the one before is complete though nothing comes."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._output.rotate()

    def _rotate(self, seconds: float) -> None:
        """Looks at the time."""
        while not self._closed.wait(min(seconds, _LOOK_SECONDS)):
            try:
                self.rotate()
            except OSError as error:
                log.warning("sink %s: no new file could be begun: %s; trying again", self.name, error)

    def close(self) -> None:
        """Lets another process write to the folder."""
        self._closed.set()
        if self._clock is not None:
            self._clock.join()
        os.close(self._lock)


def _lock(path: Path) -> int:
    """Locks a file for as long as this process lives; returns its descriptor.

    Raises:
        BlockingIOError: Somebody else has locked it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
