"""SIGKILL of everything around an at-least-once sink, and of it: nothing is lost, and what was delivered again is there again."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.exactly_once.episodes import Faults
from tests.exactly_once.points import POINTS
from tests.faults.cases import Case, in_recovery, one
from tests.faults.processes import Process
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, Queue, number_sequence, number_value

PARTITIONS = ("0", "1")
OFFERED = 300
"""Messages that each partition, and the queue, offers during a case."""
BATCH = 150
DEADLINE_S = 300.0
"""Spark needs a minute to start on a machine that has much else to do."""

_LINE = re.compile(r"(\w+/\d+):(\d+):(\d+)")

pytestmark = pytest.mark.timeout(600)


class World:
    """Two sources, a gateway, a driver with one query, and a sink that prints what it is given."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults(folder / "faults")
        self.rig = rig = Rig(folder, "[limits]\nsession_messages = 400\n", environ=self.faults.environ)
        self.driver, self.sink = rig.driver(master="local[2,4]"), rig.stdout_sink("copy")
        self.parts: dict[str, list[Process]] = {
            "source": [rig.connector("numbers"), rig.connector("queue")],
            "gateway": [rig.gateway],
            "driver": [self.driver],
            "sink": [self.sink],
        }
        self.numbers, self.queue = Numbers(rig.source_folder("numbers")), Queue(rig.source_folder("queue"))
        self.query = rig.query("copy", "copy", "numbers/*,queue/*", {"maxMessagesPerTrigger": str(BATCH)})
        self.offered = 0

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        self.rig.wait_until(what, condition, DEADLINE_S)

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

    def die_at(self, name: str) -> None:
        """Waits until the gateway, or one of Spark's Python workers, has died at a point."""
        (point,) = (point for point in POINTS if point.name == name)
        self.rig.gateway.expected = point.role != "gateway"
        self.faults.arm(point)
        self.wait_until(f"{name} is reached", lambda: self.faults.victim(point) is not None)
        if point.role == "gateway":
            self.rig.gateway.wait()
            self.rig.gateway.start()

    def wait_until_back(self, part: str) -> None:
        """Waits until something more is printed, with much still to come."""
        printed = len(self._printed())
        self.wait_until(f"the {part} is back", lambda: len(self._printed()) > printed)

    def offer(self) -> None:
        """Has the sources offer more, and waits until a part of it is printed."""
        first = f"numbers/0:{number_sequence(self.offered + 1)}:{number_value(self.offered + 1)}"
        self.offered += OFFERED
        for partition in PARTITIONS:
            self.numbers.offer(partition, self.offered)
        self.queue.put(self.offered)
        self.wait_until("a part is printed", lambda: first in self._printed())

    def finish(self) -> None:
        """Waits until everything is acknowledged: only then must it be there."""
        for partition in PARTITIONS:
            self.wait_until(f"{partition} is acknowledged", partial(self.numbers.has_acked, partition, self.offered))
        self.wait_until("the queue is empty", lambda: self.queue.unacked() == 0)

    def check(self) -> None:
        """Nothing is lost, nothing is altered, and what comes again is what was there before."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for line in self._printed():
            stream, sequence, value = line.split(":")
            found[stream][int(sequence)].add(value)
        for partition in PARTITIONS:
            want = {number_sequence(n): {str(number_value(n))} for n in range(1, self.offered + 1)}
            assert found[f"numbers/{partition}"] == want
        queued = set[str]().union(*found["queue/0"].values())
        assert queued == {str(n) for n in range(1, self.offered + 1)}

    def _printed(self) -> set[str]:
        """Each line that the sink has printed whole. Its log entries, and what a kill has cut off, are none."""
        return {line for line in self.sink.log_file.read_text(errors="replace").splitlines() if _LINE.fullmatch(line)}


PARTS = ("source", "gateway", "driver", "sink")


def at(point: str) -> Case[World]:
    """A process dies at a point."""
    return lambda world: world.die_at(point)


CASES: dict[str, Case[World]] = {
    **{part: one(part) for part in PARTS},
    "gateway once all is written": at("gateway.vote.before"),
    "executor once all is written": at("executor.rows-delivered.after"),
    "gateway while sink recovers": in_recovery("sink", "gateway"),
    "sink while gateway recovers": in_recovery("gateway", "sink"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world that continues from case to case."""
    world = World(tmp_path_factory.mktemp("at-least-once"))
    try:
        world.start()
        yield world
    finally:
        world.rig.dispose()


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(world: World, name: str) -> None:
    world.offer()
    CASES[name](world)
    world.finish()
    world.check()
