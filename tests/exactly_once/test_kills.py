"""SIGKILL of source, gateway, driver and sink, singly and in pairs: each message of a replayable source is visible once."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.exactly_once.output import by_stream, lines
from tests.faults.cases import Case, all_of, in_recovery, one
from tests.faults.processes import Process
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, Queue, number_sequence, number_value

PARTITIONS = ("0", "1")
OFFERED = 600
"""Messages that each partition, and the queue, offers during a case."""
BATCH = 150

pytestmark = pytest.mark.timeout(600)


class World:
    """Two sources, a gateway, a driver with one query, and a two-phase sink."""

    def __init__(self, folder: Path) -> None:
        self.rig = rig = Rig(folder, "[limits]\nsession_messages = 400\n")
        self.out = folder / "out"
        self.driver = rig.driver()
        self.parts: dict[str, list[Process]] = {
            "source": [rig.connector("numbers"), rig.connector("queue")],
            "gateway": [rig.gateway],
            "driver": [self.driver],
            "sink": [rig.file_sink("copy", self.out)],
        }
        self.numbers, self.queue = Numbers(rig.source_folder("numbers")), Queue(rig.source_folder("queue"))
        self.query = rig.query("copy", "copy", "numbers/*,queue/*", {"maxMessagesPerTrigger": str(BATCH)})
        self.offered = 0

    def start(self) -> None:
        self.driver.run(self.query)
        for part in ("gateway", "source", "sink", "driver"):
            self.restart(part)

    def kill(self, part: str) -> None:
        for process in self.parts[part]:
            process.kill()

    def restart(self, part: str) -> None:
        for process in self.parts[part]:
            process.start()

    def wait_until_back(self, part: str) -> None:
        """Waits until something becomes visible again, with much still to come."""
        visible = len(lines(self.out))
        self.rig.wait_until(f"the {part} is back", lambda: len(lines(self.out)) > visible)

    def offer(self) -> None:
        """Has the sources offer more, and waits until a part of it is visible."""
        before = self.offered
        self.offered += OFFERED
        for partition in PARTITIONS:
            self.numbers.offer(partition, self.offered)
        self.queue.put(self.offered)
        sequence = number_sequence(before + OFFERED // 4)
        self.rig.wait_until("a part is visible", lambda: self._visible("0") >= sequence)

    def finish(self) -> None:
        """Waits until everything is visible and acknowledged."""
        last = number_sequence(self.offered)
        for partition in PARTITIONS:
            self.rig.wait_until(f"all of {partition} is visible", lambda p=partition: self._visible(p) >= last)  # type: ignore[misc]
            self.rig.wait_until(f"{partition} is acknowledged", partial(self.numbers.has_acked, partition, self.offered))
        self.rig.wait_until("the queue is empty", lambda: self.queue.unacked() == 0)
        self.rig.wait_until("all of the queue is visible", lambda: self._queued() == set(range(1, self.offered + 1)))

    def check(self) -> None:
        """Compares what is visible with what was sent."""
        found = by_stream(self.out)
        for partition in PARTITIONS:
            want = [(number_sequence(n), str(number_value(n))) for n in range(1, self.offered + 1)]
            assert found[f"numbers/{partition}"] == want

    def _visible(self, partition: str) -> int:
        found = by_stream(self.out)[f"numbers/{partition}"]
        return found[-1][0] if found else 0

    def _queued(self) -> set[int]:
        return {int(value) for _, value in by_stream(self.out)["queue/0"]}


PARTS = ("source", "gateway", "driver", "sink")


def again_and_again(world: World) -> None:
    """All but the driver are killed at random moments, also before they are ready."""
    moments = random.Random("again and again")
    for _ in range(12):
        part = moments.choice(("source", "gateway", "sink"))
        world.kill(part)
        world.restart(part)
        world.rig.holds(lambda: True, moments.uniform(0, 1))


PAIRS = [(a, b) for a in PARTS for b in PARTS if "sink" in (a, b)]
CASES: dict[str, Case[World]] = {
    **{part: one(part) for part in PARTS},
    **{f"{b} while {a} recovers": in_recovery(a, b) for a, b in PAIRS},
    "everything at once": all_of(PARTS),
    "again and again": again_and_again,
}


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[World]]:
    """The world that goes on from case to case, if there is one."""
    worlds: list[World] = []
    yield worlds
    for world in worlds:
        world.rig.dispose()


@pytest.fixture
def world(worlds: list[World], tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world in which all is well."""
    if not worlds:
        worlds.append(World(tmp_path_factory.mktemp("exactly-once")))
        worlds[0].start()
    return worlds[0]


@pytest.mark.parametrize("name", CASES)
def test_each_message_is_visible_once(world: World, worlds: list[World], name: str) -> None:
    try:
        world.offer()
        world.rig.holds(lambda: True, random.Random(name).uniform(0, 0.4))
        CASES[name](world)
        world.finish()
        world.check()
    except BaseException:
        world.rig.dispose()
        worlds.clear()
        raise
