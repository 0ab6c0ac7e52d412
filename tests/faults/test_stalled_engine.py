"""A query that stands still costs the gateway a bounded amount of memory, and nothing once it moves again."""

import time
from collections.abc import Callable

import psutil
from tests.faults.queries import Query
from tests.faults.rig import Rig

MEGABYTE = 2**20
RESIDENT_LIMIT = 300 * MEGABYTE
STALL_S = 8.0
MEASURED_S = 3.0


def test_a_stalled_query_leaves_the_gateway_within_its_memory_and_resumes_at_full_speed(rig: Callable[[str], Rig]) -> None:
    world = rig("[http]\nstuck_after_seconds = 2\n")
    query = world.query("stalled", "count", "flood/*")
    world.gateway.start()
    world.connector("flood").start()
    world.run(query)
    world.wait_until("the query is warm", lambda: query.commits > 5)
    before = messages_per_second(query)

    query.block()
    gateway = psutil.Process(world.gateway.pid)
    world.wait_until("the source is held back", lambda: is_held_back(world))
    world.names("batch-stuck", "pipeline stalled", waits="flood/0")
    resident: list[int] = []

    def sampled() -> bool:
        resident.append(gateway.memory_info().rss)
        return True

    assert world.holds(sampled, STALL_S)
    assert max(resident) <= RESIDENT_LIMIT
    assert max(resident) - resident[len(resident) // 4] <= 8 * MEGABYTE, "it grows while nothing moves"

    commits = query.commits
    query.unblock()
    world.wait_until("the query moves again", lambda: query.commits > commits + 2)
    world.clears("pipeline stalled", "stream flood/0")
    assert messages_per_second(query) >= 0.5 * before
    assert gateway.memory_info().rss <= RESIDENT_LIMIT


def is_held_back(world: Rig) -> bool:
    """Whether nothing new has come for a while."""
    status = world.gateway.stream("flood/0")
    return status is not None and status.lag_bytes > 0 and world.holds(lambda: received(world) == status.received_messages, 0.5)


def received(world: Rig) -> int:
    """How many messages the gateway has taken."""
    status = world.gateway.stream("flood/0")
    return status.received_messages if status is not None else 0


def messages_per_second(query: Query) -> float:
    """How fast the query commits."""
    began, first = time.monotonic(), query.committed("flood/0")
    while (passed := time.monotonic() - began) < MEASURED_S or query.committed("flood/0") == first:
        time.sleep(0.05)
    return (query.committed("flood/0") - first) / passed
