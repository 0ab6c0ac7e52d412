"""Async calls and joins in windows on real Spark, in micro-batches and in real time: SIGKILL of every process."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.sources import number_key, number_sequence
from tests.faults.world import MODES, PARTITIONS, World

pytestmark = pytest.mark.timeout(900)
OFFERED = (150, 300, 450)
"""The last message of each partition, before each kill and after the last one."""
APPLICATION = """
import asyncio
import os

from headrace.pipelines import PerProcess, Pipeline, tumbling


def note(file, line):
    with open(f"FOLDER/{file}", "a") as log:
        log.write(f"{line}\\n")


model = PerProcess(lambda: note("log", f"made {os.getpid()}"), teardown=lambda _: note("log", f"gone {os.getpid()}"))


async def client():
    note("log", f"opened {os.getpid()}")
    return 7


async def close(client):
    await asyncio.sleep(0)
    note("log", f"closed {os.getpid()}")


async def looked_up(order, call):
    await asyncio.sleep(0.001)
    note(f"calls-{os.getpid()}", f"{order.stream} {order.sequence} {call.id}")
    return f"call {name_of(order)} {call.client}"


async def of_key(order, call):
    await asyncio.sleep(0)
    return order.key.decode()


def with_model(text):
    model()
    return text


def name_of(message):
    return "none" if message is None else f"{message.stream} {message.sequence}"


app = Pipeline("calls")
orders = app.source("dated/*", name="orders")
changes = app.source("numbers/*", name="changes").event_time(lambda message: (message.sequence // 2 + 7) * 1_000_000)
calls = orders.map_async(looked_up, setup=client, teardown=close, concurrency=20).map(with_model)
keys = orders.map_async(of_key, cache_by=lambda order: order.key).map(lambda key: f"key {key}", name="key-text")
pairs = orders.key_by(name="by-order").window(tumbling("10 s")).join(changes.key_by(name="by-change"), how="full", name="pairs")
texts = pairs.map(lambda pair: f"pair {name_of(pair[0])} {name_of(pair[1])}", name="pair-text").map(with_model, name="again")
calls.merge(keys, texts).sink("out")
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], World]]:
    worlds = list[World]()

    def make(mode: str) -> World:
        worlds.append(World(tmp_path, APPLICATION.replace("FOLDER", str(tmp_path)), mode))
        return worlds[-1]

    yield make
    for world in worlds:
        world.rig.dispose()


def expected(last: int) -> Counter[str]:
    """The results, by a loop over all messages."""
    both, met, found = range(1, last + 1), set[int](), list[str]()
    by_window = defaultdict[tuple[bytes, int], list[int]](list)
    for m in both:
        by_window[number_key(m), (m + 7) // 10].append(m)
    for n in both:
        near = by_window[number_key(n), n // 10]
        met |= {*near}
        for partition in PARTITIONS:
            order = f"dated/{partition} {number_sequence(n)}"
            partners = [f"numbers/{other} {number_sequence(m)}" for m in near for other in PARTITIONS]
            found += [f"call {order} 7", f"key {number_key(n).decode()}"]
            found += [f"pair {order} {partner}" for partner in partners or ["none"]]
    alone = [m for m in both if m not in met]
    return Counter(found) + Counter(f"pair none numbers/{other} {number_sequence(m)}" for m in alone for other in PARTITIONS)


def noted(folder: Path) -> list[list[str]]:
    log = folder / "log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def lives(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("mode", MODES)
def test_every_result_is_there_once_with_one_id_of_its_calls_and_what_was_made_is_torn_down_in_the_end(
    made: Callable[[str], World], mode: str, tmp_path: Path
) -> None:
    world = made(mode)
    world.start()
    for number, last in enumerate(OFFERED):
        before = world.lines().total()
        world.offer(last, ends=last == OFFERED[-1])
        if last < OFFERED[-1]:
            world.rig.wait_until(f"results {number} are visible", lambda least=before: world.lines().total() > least)  # type: ignore[misc]
            world.kill()
            world.start()
    wanted = expected(OFFERED[-1])
    world.rig.wait_until("all results are visible", lambda: world.lines() >= wanted)
    assert world.lines() == wanted
    ids = defaultdict[str, set[str]](set)
    for file in tmp_path.glob("calls-*"):
        for line in file.read_text().splitlines():
            order, _, id_ = line.rpartition(" ")
            ids[order].add(id_)
    assert set(map(len, ids.values())) == {1}, "a call that is repeated has the same id"
    assert len(set.union(*ids.values())) == len(ids), "different calls have different ones"
    alive = {(did, process) for did, process in noted(tmp_path) if did in ("made", "opened") and lives(process)}
    assert {did for did, _ in alive} == {"made", "opened"}
    ends = {("gone" if did == "made" else "closed", process) for did, process in alive}
    world.processes[-1].terminate()
    world.rig.wait_until("what was made is torn down", lambda: {(did, process) for did, process in noted(tmp_path)} >= ends)
    assert max(Counter(map(tuple, noted(tmp_path))).values()) == 1, "each process makes one, and tears it down once"
