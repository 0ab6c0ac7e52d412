"""Joins on real Spark, in micro-batches and in real time: SIGKILL of every process, and then what a plain loop says."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.sources import number_key, number_sequence, number_value
from tests.faults.world import MODES, PARTITIONS, World

pytestmark = pytest.mark.timeout(900)
LAST = 30
OFFERED = (200, 400, 600)
"""The last message of each partition, before each kill and after the last one."""
APPLICATION = """
from headrace.pipelines import Pipeline


def changed_at(message):
    return (message.sequence // 2 + 7) * 1_000_000


def row_of(payload):
    return int(payload) if int(payload) % 5 else None


def summed(order, rows):
    return f"sum {name_of(order)} {sum(rows.values())} of {len(rows)}"


def name_of(message):
    return "none" if message is None else f"{message.stream} {message.sequence}"


app = Pipeline("meetings", idle_flush=IDLE_FLUSH)
orders = app.source("dated/*", name="orders")
table = app.table("numbers/*", decode=row_of, event_time=changed_at, bootstrap=True, name="table")
changes = app.source("numbers/*", name="changes").event_time(changed_at)
rows = orders.join(table, on=lambda order: order.key, how="left", retention="1 minute", name="rows")
pairs = orders.key_by(name="by-order").join_within(
    changes.key_by(name="by-change"), before="20 s", after="0 s", how="full", name="pairs"
)
texts = rows.map(lambda pair: f"row {name_of(pair[0])} {pair[1]}", name="row-text").merge(
    pairs.map(lambda pair: f"pair {name_of(pair[0])} {name_of(pair[1])}", name="pair-text")
)
table_again = app.broadcast("numbers/*", decode=row_of, event_time=changed_at, bootstrap=True, name="broadcast")
sums = orders.key_by(name="by-order-again").map_with(table_again, summed)
texts.merge(sums).sink("out")
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str | None, str], World]]:
    worlds = list[World]()

    def make(idle_flush: str | None, mode: str) -> World:
        worlds.append(World(tmp_path, APPLICATION.replace("IDLE_FLUSH", repr(idle_flush)), mode))
        return worlds[-1]

    yield make
    for world in worlds:
        world.rig.dispose()


def expected(last: int) -> Counter[str]:
    """The results, by a loop over all messages."""
    found, both, met, all_rows = list[str](), range(1, last + 1), set[int](), dict[bytes, int]()
    for n in both:
        if n > 7:
            all_rows[number_key(n - 7)] = number_value(n - 7)
        seen = [value for value in all_rows.values() if value % 5]
        changes = [m for m in both if number_key(m) == number_key(n) and m + 7 <= n]
        row = number_value(changes[-1]) if changes else 0
        near = [m for m in changes if m + 7 >= n - 20]
        met |= {*near}
        for partition in PARTITIONS:
            order = f"dated/{partition} {number_sequence(n)}"
            found.append(f"row {order} {row if row % 5 else None}")
            found.append(f"sum {order} {sum(seen)} of {len(seen)}")
            partners = [f"numbers/{other} {number_sequence(m)}" for m in near for other in PARTITIONS]
            found += [f"pair {order} {partner}" for partner in partners or ["none"]]
    alone = [m for m in both if m not in met]
    return Counter(found) + Counter(f"pair none numbers/{other} {number_sequence(m)}" for m in alone for other in PARTITIONS)


def keys_of_states(world: World) -> dict[str, int]:
    """The number of keys of each step, which `headrace state show` prints."""
    command = [sys.executable, "-m", "headrace.cli", "state", "show", world.program, "--checkpoint", world.checkpoint, "--json"]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    return {step["step"]: step["keys"] for step in json.loads(said.stdout)["result"]["steps"]}


@pytest.mark.parametrize("mode", MODES)
def test_every_pair_and_every_row_is_there_once_though_every_process_is_killed_and_the_states_can_be_shown(
    made: Callable[[str | None, str], World], mode: str
) -> None:
    world = made(None, mode)
    world.start()
    for number, last in enumerate(OFFERED):
        before = world.lines().total()
        world.offer(last, ends=last == OFFERED[-1])
        if last < OFFERED[-1]:
            world.rig.wait_until(f"results {number} are visible", lambda least=before: world.lines().total() > least)  # type: ignore[misc]
            assert world.lines() <= expected(OFFERED[-1])
            world.kill()
            world.start()
    wanted = expected(OFFERED[-1])
    world.rig.wait_until("all results are visible", lambda: world.lines() >= wanted)
    assert world.lines() == wanted
    last_changes = {number_key(m): number_value(m) for m in range(1, OFFERED[-1] + 1)}
    there = sum(1 for value in last_changes.values() if value % 5)
    world.rig.wait_until(
        "the states of the end are committed",
        lambda: keys_of_states(world) == {"rows": there, "pairs": 0, "summed": 0, "summed-rows": there},
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_last_results_come_out_once_while_all_streams_are_quiet_also_after_a_kill(
    made: Callable[[str | None, str], World], mode: str
) -> None:
    world = made("10 seconds", mode)
    world.start()
    world.offer(LAST, ends=False)
    rows = Counter({line: count for line, count in expected(LAST).items() if line.startswith(("row ", "sum "))})
    world.rig.wait_until("the last rows and sums are visible", lambda: world.lines() >= rows)
    world.kill()
    world.start()
    world.rig.wait_until("the last pairs are visible", lambda: world.lines() >= expected(LAST))
    assert world.lines() == expected(LAST)
