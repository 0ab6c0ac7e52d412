"""Observes from outside, in files as they grow, what is visible and what is acknowledged."""

import threading
import time
from contextlib import suppress
from pathlib import Path

from headrace.laboratory.chaos.evidence import (
    IDEMPOTENT,
    SINKS,
    TWO_PHASE,
    Journal,
    JournalReader,
    Layout,
    VisibleRecords,
    last_commit,
    stored_records,
)
from headrace.laboratory.chaos.workload import PARTITIONS, REDELIVERING, REPLAYABLE, STREAMS, Row, number_of, sequence_of

_LOOKS_EVERY_S = 0.01
_SETTLED_NS = 500_000_000
"""After this long without a write, a file has no write that a reader could have missed."""


class Observer:
    """Watches continuously, and records what was committed when each batch of the two-phase sink was first seen."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._records: dict[Path, VisibleRecords] = {}
        self._stored = 0
        self._written: tuple[tuple[int, int] | None, ...] = ()
        self._journals = {source: JournalReader(layout.journal(source)) for source in (REPLAYABLE, REDELIVERING)}
        self._watched = Journal(layout.watched)
        self._batches: set[int] = set()
        self._visible: dict[str, set[tuple[str, str]]] = {sink: set() for sink in SINKS}
        self._latest: dict[tuple[str, str], int] = dict.fromkeys(((sink, stream) for sink in SINKS for stream in STREAMS), 0)
        self._acked: dict[str, int] = {}
        self._settled: set[int] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-observer", daemon=True)

    def start(self) -> None:
        """Starts to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stops watching."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def visible(self, sink: str) -> int:
        """Returns the number of messages visible in a sink, without duplicates."""
        return len(self._visible[sink])

    def lowest(self) -> int:
        """Returns the number of messages that every sender has visible in both sinks, at least."""
        return min(self._latest.values())

    def is_at_rest(self, offered: int) -> bool:
        """Whether all of each sender's `offered` messages are visible in both sinks, and acknowledged."""
        return all(self.visible(sink) >= offered * len(STREAMS) for sink in SINKS) and self.is_acknowledged(offered)

    def is_acknowledged(self, offered: int) -> bool:
        """Whether all of each sender's `offered` messages are acknowledged."""
        logs = not offered or all(self._acked.get(f"{REPLAYABLE}/{p}", -1) >= sequence_of(offered) for p in PARTITIONS)
        return logs and len(self._settled) >= offered

    def describe(self) -> str:
        """Returns the progress as text."""
        visible = ", ".join(f"{self.visible(sink)} visible in {sink}" for sink in SINKS)
        return f"{visible}, acknowledged {self._acked} and {len(self._settled)} of the queue"

    def look(self) -> None:
        """Reads the files once."""
        with self._lock:
            self._look_at_output()
            self._look_at_store()
            for reader in self._journals.values():
                for entry in reader.new():
                    if "acked" in entry:
                        self._acked[entry["stream"]] = entry["acked"][1]
                    self._settled.update(entry.get("settled", ()))

    def _look_at_output(self) -> None:
        seen = set()
        for folder in self._layout.outputs():
            for record in self._records.setdefault(folder, VisibleRecords(folder)).new():
                row = self._note_row(TWO_PHASE, record)
                if row is not None:
                    seen.add(row.batch)
        # The log is read after the output: what it lacks now, it lacked when the rows became visible.
        for batch in sorted(seen - self._batches):
            self._watched.note(visible=batch, committed=last_commit(self._layout.checkpoint(TWO_PHASE)))
        self._batches |= seen

    def _look_at_store(self) -> None:
        """Reads the database, which is opened for each read, only if it was written to."""
        written = tuple(_changed_at(path) for path in (self._layout.store, self._layout.store.with_name("store.sqlite-wal")))
        # Two writes may have the same timestamp, and the second may come after the read.
        if written == self._written and not any(_is_recent(changed) for changed in written):
            return
        self._written = written
        for number, _, value in stored_records(self._layout.store, self._stored):
            self._stored = number
            self._note_row(IDEMPOTENT, value)

    def _note_row(self, sink: str, record: bytes) -> Row | None:
        """Records a row; the validator reports invalid records."""
        with suppress(ValueError, KeyError):
            row = Row.decode(record)
            at = (sink, row.stream)
            if at in self._latest:
                self._visible[sink].add((row.stream, row.name))
                self._latest[at] = max(self._latest[at], number_of(row.stream, row.name))
            return row
        return None

    def _run(self) -> None:
        while not self._over.wait(_LOOKS_EVERY_S):
            self.look()


def _changed_at(path: Path) -> tuple[int, int] | None:
    """Returns when a file was last changed, and its size; None if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_recent(changed: tuple[int, int] | None) -> bool:
    return changed is not None and time.time_ns() - changed[0] < _SETTLED_NS
