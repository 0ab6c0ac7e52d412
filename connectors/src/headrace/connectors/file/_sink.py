"""The `file-sink`: the messages of a committed transaction are in the files exactly once and in order."""

import fcntl
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.connectors._connector import VERSION
from headrace.connectors.file._format import SinkFormat, encode
from headrace.connectors.file._output import Output, Rotation
from headrace.connectors.file.disk import Disk
from headrace.connectors.file.staging import Staging
from headrace.connectors.sink_folder import HIDDEN, LOCK
from headrace.sdk import WRITTEN, InvalidSink, Outcome, Outcomes, Part, Recovered, Refused, Rows, Transaction, TwoPhaseSink

log = logging.getLogger("headrace.connectors")

_LOOK_S = 1.0


class FileSink(TwoPhaseSink):
    """Writes files `<name>-<number>` with the format's suffix in a folder, and only appends to them.

    Parts are staged in the hidden folder `.headrace/<name>` next to them, which must not be changed. A file is complete once the
    next one exists; only then may it be moved. Before that, a reader may see it end within a record.
    """

    connector = "file-sink"
    version = VERSION
    keeps_runs = True

    def __init__(
        self,
        name: str,
        path: str | os.PathLike[str],
        format: SinkFormat = SinkFormat.JSON,
        *,
        rotation: Rotation | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Creates the sink of a folder, and the folder if necessary.

        Args:
            name: The name of the sink in Spark.
            path: The folder.
            format: The format of messages.
            rotation: When to start a new file. Default: at 128 MiB.
            disk: The disk operations; for tests.

        Raises:
            InvalidSink: Another process writes this sink to this folder, or it cannot be written to.
        """
        if not name.strip(".") or "/" in name:
            raise InvalidSink(f"sink name {name!r} is not a valid folder name")
        self.name = name
        self._format = format
        self._disk = disk or Disk()
        folder = Path(path)
        hidden = folder / HIDDEN / name
        try:
            self._disk.make_folder(hidden)
            self._lock = _lock(hidden / LOCK)
            self._staging = Staging(hidden / "staged", self._disk)
        except BlockingIOError:
            raise InvalidSink(f"another process writes the sink {name} to {folder}; give each its own folder") from None
        except OSError as error:
            raise InvalidSink(f"cannot write to {folder}: {error.strerror}") from error
        rotation = rotation or Rotation()
        self._output = Output(folder, hidden, name, format.suffix, rotation, self._disk)
        # Commits and time-based rotation run on two threads.
        self._output_lock = threading.Lock()
        self._closed = threading.Event()
        self._clock = None if rotation.seconds is None else threading.Thread(target=self._rotate, args=(rotation.seconds,))
        if self._clock is not None:
            self._clock.daemon = True
            self._clock.start()

    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        """Writes a part to a separate file.

        Raises:
            OSError: The part cannot be written.
        """
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
        """Removes the file of a part."""
        self._staging.drop(part)

    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Stores the vote durably.

        Raises:
            FileNotFoundError: A part is not staged in this folder.
            OSError: The vote cannot be written.
        """
        with self._output_lock:
            self._output.finish(self._staging)
            self._staging.vote(transaction, parts)

    def commit(self, transaction: Transaction) -> None:
        """Moves or appends the parts to the visible files.

        Raises:
            LookupError: The transaction was never prepared in this folder.
            OSError: The files cannot be written.
        """
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
        """Removes the vote and its parts."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._staging.abort(transaction)

    def recover(self) -> Recovered:
        """Finishes an interrupted commit, and lists what is staged, prepared and committed."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._output.tidy()
        self._staging.tidy()
        votes = [vote.transaction for vote in self._staging.votes()]
        return Recovered(self._staging.parts(), votes, self._output.committed())

    def rotate(self) -> None:
        """Starts a new file if that is due, so that the previous file is complete even if nothing arrives."""
        with self._output_lock:
            self._output.finish(self._staging)
            self._output.rotate()

    def _rotate(self, seconds: float) -> None:
        """Checks the time."""
        while not self._closed.wait(min(seconds, _LOOK_S)):
            try:
                self.rotate()
            except OSError as error:
                log.warning("sink %s: cannot start a new file: %s; retrying", self.name, error)

    def close(self) -> None:
        """Releases the folder for other processes."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._clock is not None:
            self._clock.join()
        os.close(self._lock)


def _lock(path: Path) -> int:
    """Locks a file for the lifetime of this process; returns its descriptor.

    Raises:
        BlockingIOError: Another process has locked it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
