"""What is visible and acknowledged by now, as an onlooker sees it who reads files as they grow."""

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
"""A file that was not written to for so long has no write that is younger than what was read of it."""


class Observer:
    """Looks all the time, and notes of each batch of the two-phase sink what was committed when it was first seen."""

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
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def visible(self, sink: str) -> int:
        """How many messages a sink shows, repeats not counted."""
        return len(self._visible[sink])

    def lowest(self) -> int:
        """The number up to which, or beyond, each sender has messages that both sinks show."""
        return min(self._latest.values())

    def is_at_rest(self, offered: int) -> bool:
        """Whether all that each sender was to send is visible in both sinks, and acknowledged."""
        return all(self.visible(sink) >= offered * len(STREAMS) for sink in SINKS) and self.is_acknowledged(offered)

    def is_acknowledged(self, offered: int) -> bool:
        """Whether all that each sender was to send is acknowledged."""
        logs = not offered or all(self._acked.get(f"{REPLAYABLE}/{p}", -1) >= sequence_of(offered) for p in PARTITIONS)
        return logs and len(self._settled) >= offered

    def describe(self) -> str:
        """How far it has come, for people."""
        visible = ", ".join(f"{self.visible(sink)} visible in {sink}" for sink in SINKS)
        return f"{visible}, acknowledged {self._acked} and {len(self._settled)} of the queue"

    def look(self) -> None:
        """Looks once."""
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
        # The log is read after the output, so that what is not in it now was not when its rows became visible.
        for batch in sorted(seen - self._batches):
            self._watched.note(visible=batch, committed=last_commit(self._layout.checkpoint(TWO_PHASE)))
        self._batches |= seen

    def _look_at_store(self) -> None:
        """A database is opened for each look, which is worth it only where something was written."""
        written = tuple(_changed_at(path) for path in (self._layout.store, self._layout.store.with_name("store.sqlite-wal")))
        # Two writes may bear the same time, and the first be read before the second.
        if written == self._written and not any(_is_recent(changed) for changed in written):
            return
        self._written = written
        for number, _, value in stored_records(self._layout.store, self._stored):
            self._stored = number
            self._note_row(IDEMPOTENT, value)

    def _note_row(self, sink: str, record: bytes) -> Row | None:
        """Notes a row; the validator tells of records that are none."""
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
    """When a file was changed, and its size; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_recent(changed: tuple[int, int] | None) -> bool:
    return changed is not None and time.time_ns() - changed[0] < _SETTLED_NS
