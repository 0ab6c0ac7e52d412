"""A temporary file for frames that exceed a memory limit."""

import os
import tempfile
import threading
from dataclasses import dataclass
from typing import IO

from headrace.machine.resources import named_folder
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk.sinks.rows import Rows


@dataclass(frozen=True, slots=True)
class Place:
    """The offset and size of a frame in the file, in bytes."""

    offset: int
    size: int


class FrameFile:
    """A temporary file of frames, created when the first one is written. One thread may write while another one reads."""

    def __init__(self) -> None:
        """Begins without a file."""
        self._file: IO[bytes] | None = None
        self._end = 0
        self._open = threading.Lock()

    def write(self, frame: Frame) -> Place:
        """Appends a frame; returns its place.

        Raises:
            OSError: The file cannot be written.
        """
        data = frame.SerializeToString()
        with self._open, named_folder():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="headrace-", buffering=0)  # noqa: SIM115 - closed by `close`
            place = Place(self._end, len(data))
            left = memoryview(data)
            while left:
                left = left[os.pwrite(self._file.fileno(), left, self._end) :]
                self._end = place.offset + len(data) - len(left)
        return place

    def read(self, place: Place) -> Rows:
        """Returns the rows of the frame at a place."""
        with self._open:
            assert self._file is not None, "what has a place was written"
            data = os.pread(self._file.fileno(), place.size, place.offset)
        return Rows(Frame.FromString(data))

    def close(self) -> None:
        """Deletes the file."""
        with self._open:
            if self._file is not None:
                self._file.close()
                self._file = None
