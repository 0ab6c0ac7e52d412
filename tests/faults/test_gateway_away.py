"""A gateway that is away is waited for, up to the limit that the user sets."""

import time
from collections.abc import Callable

from tests.faults.queries import Query
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence


def running(rig: Callable[[str], Rig], timeout: str) -> tuple[Rig, Numbers, Query]:
    """A query that has committed something."""
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 100)
    query = world.query("away", "record", "numbers/*", {"gatewayTimeout": timeout, "inlineBytes": "0"})
    world.gateway.start()
    world.connector("numbers").start()
    world.run(query)
    world.wait_until("all is acknowledged", lambda: source.acked("0") == 100)
    return world, source, query


def test_a_gateway_that_is_away_for_too_long_fails_the_query(rig: Callable[[str], Rig]) -> None:
    world, _, query = running(rig, "2s")
    world.gateway.kill()
    killed_at = time.monotonic()
    error = world.failure(query, 20)
    assert time.monotonic() - killed_at >= 2
    assert world.gateway.address in error
    assert "gatewayTimeout" in error


def test_a_gateway_that_is_away_in_a_batch_for_too_long_fails_the_query(rig: Callable[[str], Rig]) -> None:
    world, source, query = running(rig, "2s")
    query.block()
    plans = query.plans
    source.offer("0", 200)
    world.wait_until("a batch is planned", lambda: query.plans > plans)
    world.gateway.kill()
    query.unblock()
    error = world.failure(query, 40)
    assert world.gateway.address in error
    assert "gatewayTimeout" in error


def test_a_gateway_that_comes_back_in_time_is_waited_for(rig: Callable[[str], Rig]) -> None:
    world, source, query = running(rig, "30s")
    world.gateway.kill()
    source.offer("0", 200)
    assert world.holds(lambda: query.outcome() is None, 4)
    world.gateway.start()
    world.wait_until("the query continues", lambda: source.acked("0") == 200)
    world.clears("pipeline away", "stream numbers/0", "connector numbers")
    assert [sequence for _, sequence, _ in query.rows()] == [number_sequence(n) for n in range(1, 201)]


def test_a_query_may_start_before_its_gateway(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 100)
    query = world.query("early", "record", "numbers/*")
    world.run(query)
    world.connector("numbers").start()
    assert world.holds(lambda: query.outcome() is None, 2)
    world.gateway.start()
    world.wait_until("all is acknowledged", lambda: source.acked("0") == 100)
