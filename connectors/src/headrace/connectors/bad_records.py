"""The policy of all sources for records that they cannot send."""

import asyncio
import fcntl
import logging
import os
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from pydantic import Field, model_validator

from headrace.connectors._dead_letters import letter_of
from headrace.connectors._parameters import Parameters
from headrace.sdk import AsyncSource, InvalidMessage, Message

log = logging.getLogger("headrace.connectors")

_TELL_EACH = 5
_TELL_S = 10.0


class BadRecords(Enum):
    """What to do with a record that cannot be sent."""

    FAIL = "fail"
    """End the connector, with an error that names the record."""
    SKIP = "skip"
    """Skip it, count it and log it."""
    DEAD_LETTER = "dead-letter"
    """Store it elsewhere, durably, then skip it."""


class BadRecordParameters(Parameters):
    """The parameters that control what a source does with records that it cannot send."""

    last: ClassVar[tuple[str, ...]] = ("bad_records", "dead_letters")
    broker_keeps: ClassVar[bool] = False
    """Whether the external system can store dead letters, so that no folder is needed."""

    bad_records: BadRecords = Field(
        BadRecords.FAIL,
        description="What to do with a record that cannot be sent, such as one above the gateway's max_frame_bytes.",
    )
    dead_letters: Path | None = Field(None, description="The folder for dead letters.")

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        """Checks that a folder is configured if, and only if, dead letters need one."""
        wanted = self.bad_records is BadRecords.DEAD_LETTER
        if self.dead_letters is not None and not wanted:
            raise ValueError("dead_letters has no effect: set bad_records to dead-letter")
        if self.dead_letters is None and wanted and not self.broker_keeps:
            raise ValueError("bad_records is dead-letter: name a folder for them with dead_letters")
        return self


class PolicySource(AsyncSource):
    """A source that applies the policy `bad_records` to messages that the gateway cannot accept."""

    bad_records: "BadRecordPolicy"
    """The policy; subclasses must set it."""

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Applies the policy: skips the message, after storing it as a dead letter if so configured."""
        await asyncio.to_thread(self.bad_records.take, partition, message, error)


class BadRecordPolicy:
    """Applies the policy of one source, and counts skipped records. Thread-safe."""

    def __init__(self, source: str, what: BadRecords = BadRecords.FAIL, folder: str | os.PathLike[str] | None = None) -> None:
        """Creates the policy of a source.

        Args:
            source: The name of the source.
            what: What to do with bad records.
            folder: The folder for dead letters; None if the external system stores them.
        """
        self.what = what
        self.total = 0
        """The number of records that were skipped."""
        self._source = source
        self._folder = None if folder is None else Path(folder)
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()
        self._logged_total = 0
        self._tell_at = 0.0

    @classmethod
    def of(cls, source: str, parameters: BadRecordParameters) -> "BadRecordPolicy":
        """Returns the policy that the parameters of a source define."""
        return cls(source, parameters.bad_records, parameters.dead_letters)

    def take(self, partition: str, message: Message, error: Exception) -> None:
        """Applies the policy: skips a record, after storing it as a dead letter if so configured.

        Raises:
            Exception: `error`, if the policy is to fail.
            OSError: The dead letter could not be written.
        """
        if self.what is BadRecords.FAIL:
            raise error
        stream = f"{self._source}/{partition}"
        with self._lock:
            if self.what is BadRecords.DEAD_LETTER and self._folder is not None:
                self._keep(self._folder, stream, message, str(error))
            self.total += 1
            self._tell(stream, error)

    def _keep(self, folder: Path, stream: str, message: Message, reason: str) -> None:
        """Writes a dead letter, durably."""
        if self._file is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._new_file(folder)
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        line = memoryview(letter_of(message, source=self._source, stream=stream, reason=reason))
        whole = self._file.tell()
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._take_back(whole)
            raise

    def _take_back(self, whole: int) -> None:
        """Removes what was written of a dead letter beyond the whole ones, after which nobody could read the next ones."""
        assert self._file is not None
        try:
            self._file.truncate(whole)
            self._file.seek(whole)
        except OSError:
            self._file.close()
            self._file = None

    def _new_file(self, folder: Path) -> BinaryIO:
        """Returns a new file, locked for as long as the process lives: `discardable` leaves it alone."""
        while True:
            # Only this process writes to the file, so it cannot contain a partial line.
            path = folder / f"{self._source}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.jsonl"
            file = open(path, "xb", buffering=0)  # noqa: SIM115 - open for as long as the process lives
            with suppress(OSError):  # there are file systems without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():
                return file
            file.close()  # discarded before it was locked

    def _tell(self, stream: str, error: Exception) -> None:
        """Logs the first few records, then periodically the total."""
        now = time.monotonic()
        if self.total > _TELL_EACH and now < self._tell_at:
            return
        kept = "" if self.what is BadRecords.SKIP else ", and stored as dead letters"
        log.warning(
            "stream %s: skipped a record (%d since the last such line, %d in total%s): %s",
            stream, self.total - self._logged_total, self.total, kept, error,
        )  # fmt: skip
        self._logged_total, self._tell_at = self.total, now + _TELL_S
