"""An application that counts the messages of each key, as one worker runs it: without Spark and a gateway."""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.engine.applications.stages.keyed_stage import keyed_stage_rows
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.source_stage import pieces, rows_of_piece
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.applications.states.state_cache import StateCache
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.manifests import MANIFESTS, STATES, Bucket, Entry, Manifest, ManifestLog
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.engine.codec import Columns
from headrace.pipelines import Pipeline

BUCKETS = 8
MAX_BATCH = 100_000
"""The most numbers that a micro-batch should have."""
_FRAME = 10_000
_RUN = 1


@dataclass(slots=True)
class Account:
    """The state of a key."""

    count: int = 0
    last: int = 0


def key_of(number: int) -> bytes:
    """The key of a number."""
    return b"k%09d" % number


def accounts() -> Pipeline:
    """The application, whose step is `count`."""
    app = Pipeline("accounts")
    app.source("n/*", decode=len).key_by().stateful(_count, Account, name="count").sink("out")
    return app


def _count(value: int, account: Account) -> None:
    account.count += 1
    account.last = value


class Worker:
    """A worker with all buckets of an application that counts the messages of each key.

    Args:
        folder: The checkpoint.
        memory_bytes: The memory for states.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self._plan = Plan(accounts().graph, bucket_ids(BUCKETS), "query", "run", memory_bytes)
        self._folder = folder
        self._files = LocalFiles(folder / STATES)
        self._cache = StateCache()
        self._entries: dict[Bucket, Entry] = {}
        self._batch = 0
        self._sequence = 0

    def process(self, numbers: Sequence[int]) -> float:
        """Processes a micro-batch with a message for each number; returns the processor time, in seconds."""
        frames = [self._frame(numbers[at : at + _FRAME]) for at in range(0, len(numbers), _FRAME)]
        begun = time.process_time()
        by_bucket: defaultdict[int, list[BlockRow]] = defaultdict(list)
        for piece in pieces(frames):
            for row in rows_of_piece(self._plan, piece, None):
                by_bucket[row.bucket].append(row)
        for bucket, rows in by_bucket.items():
            store = BucketFiles(self._files, (1, bucket), self._entries.get((1, bucket)))
            for _ in keyed_stage_rows(self._plan, 1, bucket, rows, store, self._cache):
                pass
            self._entries[1, bucket] = store.finish(self._batch)
        took = time.process_time() - begun
        self._batch += 1
        needed = {file for entry in self._entries.values() for file in entry.needs}
        for path in (self._folder / STATES).iterdir():
            if path.name not in needed:
                path.unlink()
        return took

    def _frame(self, numbers: Sequence[int]) -> Columns:
        count, first = len(numbers), self._sequence + 1
        self._sequence += count
        keys = list(map(key_of, numbers))
        lengths = np.full(count, len(keys[0]), "<u4").tobytes()
        values = np.ones(count, "<u4").tobytes()
        return Columns("n/0", first, self._sequence, count, b"", b"".join(keys), lengths, b"v" * count, values, *[b""] * 8)

    def commit(self) -> None:
        """Commits the last micro-batch: writes what the driver, and Spark, would."""
        batch = self._batch - 1
        ManifestLog(LocalFolder(self._folder / MANIFESTS)).write(batch, _RUN, Manifest(dict(self._entries)))
        conf = {"spark.sql.shuffle.partitions": str(BUCKETS)}
        for log, document in ("offsets", {"batchTimestampMs": 0, "conf": conf}), ("commits", {}):
            (self._folder / log).mkdir(exist_ok=True)
            (self._folder / log / str(batch)).write_text(f"v1\n{json.dumps(document)}\n")
