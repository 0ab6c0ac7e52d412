"""SIGKILL of connectors, gateway and driver, in pairs and together: state ends as if nothing had happened.

All cases continue where the one before left off, in one run whose replayable source forgets what was acknowledged: what one
case lost or doubled, all later ones would show. A case that fails gives the next ones a new run.
"""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.faults.cases import Case, all_of, in_recovery
from tests.faults.expected import assert_each_came_once, assert_none_is_missing, changed_batches, expected_state
from tests.faults.processes import Process
from tests.faults.rig import Driver, Rig
from tests.faults.sources import Numbers, Queue, number_sequence

PARTITIONS = ("0", "1")
OFFERED = 600
"""Messages that each partition, and the queue, offers during a case."""
BATCH = 150
CONFIG = """
[limits]
session_messages = 400    # so that sources always have something left to send

[[streams]]
pattern = "numbers/*"
pipelines = ["record", "state"]

[[streams]]
pattern = "queue/*"
pipelines = ["record"]
"""

pytestmark = pytest.mark.timeout(600)


class World:
    """Two sources, a gateway, a driver with two queries: what is killed, and what must come out."""

    def __init__(self, folder: Path) -> None:
        self.rig = Rig(folder, CONFIG)
        self.gateway = self.rig.gateway
        self.driver: Driver = self.rig.driver()
        self.connectors = [self.rig.connector("numbers"), self.rig.connector("queue")]
        self.numbers, self.queue = Numbers(self.rig.source_folder("numbers")), Queue(self.rig.source_folder("queue"))
        limit = {"maxMessagesPerTrigger": str(BATCH)}
        self.record = self.rig.query("record", "record", "numbers/*,queue/*", limit)
        # Small batches are read by the planner where that is not forbidden; executors are to be killed at it, too.
        self.state = self.rig.query("state", "state", "numbers/*", {**limit, "inlineBytes": "0"})
        self.offered = 0
        self._runs: dict[str, int] = {}
        self._sessions: set[str] = set()

    def start(self) -> None:
        self.driver.run(self.record)
        self.driver.run(self.state)
        self.gateway.start()
        for process in (*self.connectors, self.driver):
            process.start()

    def parts(self, part: str) -> Sequence[Process]:
        parts: dict[str, Sequence[Process]] = {"connector": self.connectors, "gateway": [self.gateway], "driver": [self.driver]}
        return parts[part]

    def kill(self, part: str) -> None:
        self._note()
        for process in self.parts(part):
            process.kill()

    def restart(self, part: str) -> None:
        for process in self.parts(part):
            process.start()

    def wait_until_back(self, part: str) -> None:
        """Waits until the others see that it has been started again. The messages that it missed are still to come."""
        seen = {"connector": self._new_sessions, "gateway": self._answers, "driver": self._new_run}[part]
        self.rig.wait_until(f"{part} is back", seen)

    def _note(self) -> None:
        status = self.gateway.status() if self.gateway.alive else None
        if status is not None:
            self._runs = {p.pipeline: p.run for p in status.pipelines}
            self._sessions = {s.session for s in status.sessions}

    def _answers(self) -> bool:
        return self.gateway.status() is not None

    def _new_run(self) -> bool:
        pipeline = self.gateway.pipeline("record")
        return pipeline is not None and pipeline.attached and pipeline.run > self._runs.get("record", 0)

    def _new_sessions(self) -> bool:
        status = self.gateway.status()
        return status is not None and len({s.session for s in status.sessions} - self._sessions) == len(self.connectors)

    def offer(self) -> None:
        """Has the sources offer more, and waits until a part of it is committed."""
        before = self.offered
        self.offered += OFFERED
        for partition in PARTITIONS:
            self.numbers.offer(partition, self.offered)
        self.queue.put(self.offered)
        self.reach(before + OFFERED // 4)

    def reach(self, message: int) -> None:
        """Waits until both queries have committed the first partition up to a message."""
        sequence = number_sequence(message)
        for query in (self.record, self.state):
            self.rig.wait_until(f"{query.name} commits message {message}", partial(query.has_committed, "numbers/0", sequence))

    def finish(self) -> None:
        """Waits until everything is committed and acknowledged."""
        streams = [f"numbers/{partition}" for partition in PARTITIONS]
        for query in (self.record, self.state):
            for stream in streams:
                committed = partial(query.has_committed, stream, number_sequence(self.offered))
                self.rig.wait_until(f"{query.name} commits all of {stream}", committed)
        for partition in PARTITIONS:
            self.rig.wait_until(f"{partition} is acknowledged", partial(self.numbers.has_acked, partition, self.offered))
        self.rig.wait_until("the queue is empty", lambda: self.queue.unacked() == 0)

    def check(self) -> None:
        """Compares what the queries have with what a run without faults has."""
        for partition in PARTITIONS:
            assert_each_came_once(self.record, partition, self.offered)
        assert_none_is_missing(self.record, self.offered)
        assert not changed_batches(self.record)
        assert not changed_batches(self.state)
        found = {(stream, key): tuple(row) for stream, key, *row in self.state.rows()}
        assert found == expected_state(PARTITIONS, self.offered)
        status = self.gateway.status()
        assert status is not None
        assert not any(stream.losses for stream in status.streams)


# The cases

PARTS = ("connector", "gateway", "driver")


def driver_alone(world: World) -> None:
    """The driver's children are not killed with it, as where somebody kills a process by its number."""
    world.driver.kill_alone()
    world.restart("driver")


def during(first: str, second: str) -> str:
    """The case in which a part is killed while another one recovers."""
    return f"{second} while {first} recovers"


CASES: dict[str, Case[World]] = {
    **{during(a, b): in_recovery(a, b) for a in PARTS for b in PARTS},
    "driver without its children": driver_alone,
    "everything at once": all_of(PARTS),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Of the kills during a recovery, a sample by `--kill-seed` has each part first and second; `--every-pair` has all."""
    if "name" not in metafunc.fixturenames:
        return
    config = metafunc.config
    seconds = random.Random(str(config.getoption("kill_seed"))).sample(PARTS, len(PARTS))
    left_out = {during(a, b) for a in PARTS for b in PARTS} - {during(a, b) for a, b in zip(PARTS, seconds, strict=True)}
    whole = bool(config.getoption("every_pair"))
    metafunc.parametrize("name", [name for name in CASES if whole or name not in left_out])


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[World]]:
    """The world that continues from case to case, if there is one."""
    worlds: list[World] = []
    yield worlds
    for world in worlds:
        world.rig.dispose()


@pytest.fixture
def world(worlds: list[World], tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world in which all is well."""
    if not worlds:
        worlds.append(World(tmp_path_factory.mktemp("kills")))
        worlds[0].start()
    return worlds[0]


def test_state_ends_as_without_the_fault_and_nothing_is_lost(world: World, worlds: list[World], name: str) -> None:
    try:
        world.offer()
        # Somewhere within a batch, at the same moment in every run as far as a test can say.
        world.rig.holds(lambda: True, random.Random(name).uniform(0, 0.4))
        CASES[name](world)
        world.finish()
        world.check()
    except BaseException:
        world.rig.dispose()
        worlds.clear()
        raise
