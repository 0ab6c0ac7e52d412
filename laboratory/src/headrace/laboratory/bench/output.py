"""Reads what a file sink has made visible, for benchmarks."""

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.laboratory.bench.sources import MESSAGE_BYTES

LINE_BYTES = MESSAGE_BYTES + 1
POLL_S = 0.001
"""How often files are looked at, in seconds: half of it is part of each latency."""

Sightings = npt.NDArray[np.float64]
"""A row for each message: its stamp, and when it was visible, both in seconds since 1970."""


class Output:
    """The files of one folder, with lines of equal size; some files are still growing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def size(self) -> int:
        """Returns the number of visible bytes."""
        return sum(path.stat().st_size for path in self._files())

    def delays(self, messages: int, timeout_s: float) -> list[float]:
        """Like `sightings`, but returns the time from each message's stamp until it was visible, in seconds."""
        seen = self.sightings(messages, timeout_s)
        delays: list[float] = (seen[:, 1] - seen[:, 0]).tolist()
        return delays

    def sightings(self, messages: int, timeout_s: float) -> Sightings:
        """Reads stamped messages as they become visible, until there are this many.

        Raises:
            TimeoutError: There were fewer messages by then.
        """
        found: list[Sightings] = []
        count = 0
        deadline = time.monotonic() + timeout_s
        while count < messages:
            stamps = self.stamps()
            if len(stamps):
                found.append(np.column_stack((stamps, np.full(len(stamps), time.time()))))
                count += len(stamps)
            else:
                time.sleep(POLL_S)
            if count < messages and time.monotonic() > deadline:
                raise TimeoutError(f"{count} of {messages} messages were visible after {timeout_s:.0f} s")
        return np.concatenate(found)

    def stamps(self) -> npt.NDArray[np.float64]:
        """Returns the stamps of all messages that have become visible since the last call."""
        found = [self._new_stamps(path) for path in self._files()]
        return np.concatenate(found) if found else np.empty(0)

    def _new_stamps(self, path: Path) -> npt.NDArray[np.float64]:
        at = self._read.get(path, 0)
        with path.open("rb") as file:
            file.seek(at)
            data = file.read()
        lines = len(data) // LINE_BYTES
        self._read[path] = at + lines * LINE_BYTES
        cells = np.frombuffer(data[: lines * LINE_BYTES], dtype=f"S{LINE_BYTES}")
        return np.char.strip(cells).astype(np.float64)

    def _files(self) -> list[Path]:
        if not self._folder.exists():
            return []
        return [path for path in sorted(self._folder.iterdir()) if path.suffix in (".lines", ".txt")]
