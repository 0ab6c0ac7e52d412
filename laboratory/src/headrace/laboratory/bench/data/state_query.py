"""The state of one key of many, as `headrace state query` reads it from a checkpoint, and beside it all states of the step."""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.engine import StoredStates
from headrace.laboratory.bench.data.accounts import MAX_BATCH, Worker, accounts, key_of
from headrace.laboratory.bench.figures import Figure, itself

_KEYS, _QUICK_KEYS = 500_000, 20_000
_ROUNDS, _QUICK_ROUNDS = 101, 3
_IN_MEMORY = 10**12


def state_query(quick: bool) -> Iterator[Figure]:
    """Yields the processor time in which the state of a key is found, from the opening of the checkpoint on."""
    drawn, keys = random.Random(7), _QUICK_KEYS if quick else _KEYS
    with tempfile.TemporaryDirectory() as name:
        worker, graph = Worker(Path(name), _IN_MEMORY), accounts().graph
        for begin in range(0, keys, MAX_BATCH):
            worker.process(range(begin, min(begin + MAX_BATCH, keys)))
        worker.process([drawn.randrange(keys) for _ in range(min(MAX_BATCH, keys))])  # Changes since the segments were written.
        worker.commit()

        def one() -> None:
            if StoredStates(None, name, graph).find("count", key_of(drawn.randrange(keys))) is None:
                raise RuntimeError("a key has no state")

        def all_of_them() -> None:
            if (found := sum(1 for _ in StoredStates(None, name, graph).all("count"))) != keys:
                raise RuntimeError(f"{found} keys of {keys} have states")

        took = [_milliseconds(one) for _ in range(_QUICK_ROUNDS if quick else _ROUNDS)]
        yield Figure("state_query.ms", statistics.median(took), "ms of CPU", _milliseconds(all_of_them))
        yield from itself("state_query.ms", took, "ms of CPU")


def _milliseconds(call: Callable[[], None]) -> float:
    begun = time.process_time()
    call()
    return 1_000 * (time.process_time() - begun)
