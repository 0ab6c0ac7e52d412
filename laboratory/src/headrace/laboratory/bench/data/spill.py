"""States of many keys with little memory, compared to all of them in memory: one worker, without Spark and a gateway.

`python -m headrace.laboratory.bench.data.spill KEYS MEMORY` prints one JSON object.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.laboratory.bench.data.accounts import MAX_BATCH, Worker
from headrace.laboratory.bench.figures import Figure

KEYS, QUICK_KEYS = 1_000_000, 20_000
"""The number of keys, unless another one is given."""
BYTES_OF_KEY = 100
"""The resident memory for each key, in bytes: 10 million keys in 1 GB."""
GOAL_KEYS = 10_000_000
"""The number of keys for which the memory is a goal: of fewer, the interpreter and the libraries take most of it."""
_BATCHES_AFTER = 5
"""The number of micro-batches that touch keys at random, after each key had one message."""
_MAX_S = 7_200.0


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


def main() -> None:
    """Measures, and prints one JSON object."""
    keys, memory_bytes = map(int, sys.argv[1:])
    drawn = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        worker = Worker(Path(name), memory_bytes)
        created = sum(worker.process(range(at, min(at + MAX_BATCH, keys))) for at in range(0, keys, MAX_BATCH))
        size = min(MAX_BATCH, keys)
        touched = sum(worker.process([drawn.randrange(keys) for _ in range(size)]) for _ in range(_BATCHES_AFTER))
    found = {
        "created_cpu_s": keys / created,
        "touched_cpu_s": _BATCHES_AFTER * size / touched,
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
