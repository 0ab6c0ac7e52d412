"""SIGTERM to a gateway or a driver, and a query's stop: nothing is left behind, and all continues afterwards."""

from collections.abc import Callable

import pytest
from tests.faults.processes import Process
from tests.faults.queries import Query
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, Queue, number_sequence

STREAM = "numbers/0"
OFFERED = 2000
LIMIT = {"maxMessagesPerTrigger": "100"}

pytestmark = pytest.mark.timeout(600)


def sequences(query: Query) -> list[int]:
    """The messages that a query has seen."""
    return [sequence for stream, sequence, _ in query.rows() if stream == STREAM]


def running(world: Rig) -> tuple[Numbers, Process, Query]:
    """A query that is in the middle of its work once it runs."""
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", OFFERED)
    connector = world.connector("numbers")
    world.gateway.start()
    connector.start()
    return source, connector, world.query("stops", "record", "numbers/*,queue/*", LIMIT)


def half_way(world: Rig, query: Query) -> None:
    """Waits until a part is committed."""
    world.wait_until("a part is committed", lambda: query.committed(STREAM) >= number_sequence(OFFERED // 4))
    assert query.committed(STREAM) < number_sequence(OFFERED)


def finish(world: Rig, source: Numbers, query: Query) -> None:
    """Waits for the rest; every message came once."""
    world.wait_until("all is acknowledged", lambda: source.acked("0") == OFFERED)
    assert sequences(query) == [number_sequence(n) for n in range(1, OFFERED + 1)]


def test_a_gateway_that_is_told_to_stop_drains_and_another_takes_its_place(rig: Callable[[str], Rig]) -> None:
    world = rig("[limits]\nsession_messages = 400\n")
    source, _, query = running(world)
    queue = Queue(world.source_folder("queue"))
    world.connector("queue").start()
    queue.put(OFFERED)
    world.run(query)
    half_way(world, query)
    world.gateway.terminate()
    assert world.gateway.wait() == 0
    world.gateway.start()
    finish(world, source, query)
    world.wait_until("the queue is empty", lambda: queue.unacked() == 0)
    # The gateway acknowledged all messages before it left, so a queue has no reason to give anything twice.
    assert [int(value) for stream, _, value in query.rows() if stream == "queue/0"] == list(range(1, OFFERED + 1))


def test_an_idle_gateway_stops_at_once(rig: Callable[[str], Rig]) -> None:
    world = rig("[limits]\ndrain_timeout_seconds = 3_600\n")
    source, _, query = running(world)
    world.run(query)
    finish(world, source, query)
    world.gateway.terminate()
    assert world.gateway.wait() == 0


def test_a_query_that_is_stopped_has_acknowledged_what_it_committed(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source, _, query = running(world)
    world.run(query)
    half_way(world, query)
    world.stop(query)
    assert query.outcome() == {"state": "stopped"}
    committed_is_acknowledged(world, source, query)
    world.run(query)
    finish(world, source, query)


def test_a_driver_that_is_told_to_stop_has_acknowledged_what_it_committed(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source, _, query = running(world)
    driver = world.driver()
    driver.run(query)
    driver.start()
    half_way(world, query)
    driver.terminate()
    assert driver.wait() == 0
    committed_is_acknowledged(world, source, query)
    driver.start()
    finish(world, source, query)


def committed_is_acknowledged(world: Rig, source: Numbers, query: Query) -> None:
    """The gateway acknowledges what the commit log proves, and nothing else."""

    def proven() -> bool:
        return number_sequence(source.acked("0")) == query.committed(STREAM)

    world.wait_until("what was committed is acknowledged", proven)
    assert world.holds(proven, 0.5)
    assert query.committed(STREAM) < number_sequence(OFFERED)
