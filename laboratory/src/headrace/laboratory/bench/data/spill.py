"""States of many keys with little memory, compared to all of them in memory: one worker, without Spark and a gateway.

`python -m headrace.laboratory.bench.data.spill KEYS MEMORY` prints one JSON object.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.engine.applications.stages.keyed_stage import keyed_stage_rows
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.source_stage import pieces, rows_of_piece
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.applications.states.state_cache import StateCache
from headrace.engine.checkpoint.manifests import Bucket, Entry
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.engine.codec import Columns
from headrace.laboratory.bench.figures import Figure
from headrace.pipelines import Pipeline

KEYS, QUICK_KEYS = 1_000_000, 20_000
"""The number of keys, unless another one is given."""
BYTES_OF_KEY = 100
"""The resident memory for each key, in bytes: 10 million keys in 1 GB."""
GOAL_KEYS = 10_000_000
"""The number of keys for which the memory is a goal: of fewer, the interpreter and the libraries take most of it."""
BUCKETS = 8
_BATCH = 100_000
_FRAME = 10_000
_BATCHES_AFTER = 5
"""The number of micro-batches that touch keys at random, after each key had one message."""
_MAX_S = 7_200.0


@dataclass(slots=True)
class Account:
    """The state of a key."""

    count: int = 0
    last: int = 0


def spill(keys: int | None, quick: bool) -> Iterator[Figure]:
    """Yields the messages that a second of processor time counts, and the resident memory, both beside the states in memory."""
    keys = keys or (QUICK_KEYS if quick else KEYS)
    # Half of the memory is the states'; the other half has the interpreter, the messages, and what is being written.
    spilled, whole = _in_child(keys, keys * BYTES_OF_KEY // 2), _in_child(keys, 10**12)
    yield Figure("spill.messages_cpu_s", spilled["touched_cpu_s"], "messages/s of CPU", whole["touched_cpu_s"])
    yield Figure("spill.created_cpu_s", spilled["created_cpu_s"], "messages/s of CPU", whole["created_cpu_s"])
    goal, used = keys * BYTES_OF_KEY, spilled["resident_bytes"]
    target = "" if keys < GOAL_KEYS else f"<= {goal / 2**20:.0f} MiB"
    yield Figure(
        "spill.resident_mib", used / 2**20, "MiB", whole["resident_bytes"] / 2**20, target, used <= goal if target else None
    )


def _in_child(keys: int, memory_bytes: int) -> dict[str, float]:
    command = [sys.executable, "-m", "headrace.laboratory.bench.data.spill", str(keys), str(memory_bytes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_MAX_S, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


class _Worker:
    """A worker with all buckets of an application that counts the messages of each key.

    Args:
        folder: The folder of states.
        memory_bytes: The memory for states.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        app = Pipeline("accounts")
        app.source("n/*", decode=len).key_by().stateful(_count, Account).sink("out")
        self._plan = Plan(app.graph, bucket_ids(BUCKETS), "query", "run", memory_bytes)
        self._folder = folder
        self._files = LocalFiles(folder)
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
        for path in self._folder.iterdir():
            if path.name not in needed:
                path.unlink()
        return took

    def _frame(self, numbers: Sequence[int]) -> Columns:
        count, first = len(numbers), self._sequence + 1
        self._sequence += count
        keys = [b"k%09d" % number for number in numbers]
        lengths = np.full(count, len(keys[0]), "<u4").tobytes()
        values = np.ones(count, "<u4").tobytes()
        return Columns("n/0", first, self._sequence, count, b"", b"".join(keys), lengths, b"v" * count, values, *[b""] * 8)


def _count(value: int, account: Account) -> None:
    account.count += 1
    account.last = value


def main() -> None:
    """Measures, and prints one JSON object."""
    keys, memory_bytes = map(int, sys.argv[1:])
    drawn = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        worker = _Worker(Path(name), memory_bytes)
        created = sum(worker.process(range(at, min(at + _BATCH, keys))) for at in range(0, keys, _BATCH))
        size = min(_BATCH, keys)
        touched = sum(worker.process([drawn.randrange(keys) for _ in range(size)]) for _ in range(_BATCHES_AFTER))
    found = {
        "created_cpu_s": keys / created,
        "touched_cpu_s": _BATCHES_AFTER * size / touched,
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
