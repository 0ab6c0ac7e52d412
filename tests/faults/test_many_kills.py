"""Kills at random moments, by the dozen, of everything except Spark, whose part is played by a loop that starts quickly."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.faults.expected import assert_each_came_once, assert_none_is_missing, changed_batches
from tests.faults.processes import Process
from tests.faults.queries import Query
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, Queue, number_sequence

PARTITIONS = ("0", "1")
AHEAD = 3000
"""Messages that the sources have beyond what was committed, at each kill."""
KILLS = 20
CONFIG = """
[limits]
session_messages = 400

[[streams]]
pattern = "*/*"
pipelines = ["small", "large"]
"""
pytestmark = pytest.mark.timeout(600)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kills by `--kill-seed`, and by some more seeds with `--every-pair`."""
    config = metafunc.config
    seeds = [str(config.getoption("kill_seed")), *("0", "1", "2")]
    metafunc.parametrize("seed", seeds if config.getoption("every_pair") else seeds[:1])


def test_state_ends_as_without_the_faults_and_nothing_is_lost(tmp_path: Path, seed: str) -> None:
    rig = Rig(tmp_path, CONFIG)
    try:
        numbers, queue = Numbers(rig.source_folder("numbers")), Queue(rig.source_folder("queue"))
        queries = [
            rig.query("small", "record", "*/*", {"maxMessagesPerTrigger": "60"}),
            rig.query("large", "record", "*/*", {"maxMessagesPerTrigger": "250", "inlineBytes": "0", "readTasks": "2"}),
        ]
        processes = [rig.gateway, rig.connector("numbers"), rig.connector("queue"), *(rig.engine(query) for query in queries)]
        for process in processes:
            process.start()
        offered = kill_at_random(rig, processes, partial(offer_more, numbers, queue, queries), random.Random(seed))
        for query in queries:
            for partition in PARTITIONS:
                committed = partial(query.has_committed, f"numbers/{partition}", number_sequence(offered))
                rig.wait_until(f"{query.name} commits all", committed)
        rig.wait_until("all is acknowledged", lambda: all(numbers.has_acked(p, offered) for p in PARTITIONS))
        rig.wait_until("the queue is empty", lambda: queue.unacked() == 0)
        for query in queries:
            for partition in PARTITIONS:
                assert_each_came_once(query, partition, offered)
            assert_none_is_missing(query, offered)
            assert not changed_batches(query)
    finally:
        rig.dispose()


def offer_more(numbers: Numbers, queue: Queue, queries: list[Query]) -> int:
    """Has the sources offer AHEAD messages more than were committed; returns the last."""
    last = max(query.committed("numbers/0") for query in queries) // number_sequence(1) + AHEAD
    for partition in PARTITIONS:
        numbers.offer(partition, last)
    queue.put(last)
    return last


def kill_at_random(rig: Rig, processes: list[Process], offer: Callable[[], int], moments: random.Random) -> int:
    """Kills one to three processes at a time and starts them again, in another order, without waiting for anything.

    Returns the last message that was offered.
    """
    for _ in range(KILLS):
        last = offer()
        rig.holds(lambda: True, moments.uniform(0, 1.5))
        victims = moments.sample(processes, moments.choice([1, 1, 1, 2, 3]))
        for victim in victims:
            victim.kill()
        moments.shuffle(victims)
        for victim in victims:
            victim.start()
    return last
