"""Several pipelines on one stream, partitions that appear, and runs that end when they have caught up."""

from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.queries import Query
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence

TWO_PIPELINES = """
[[streams]]
pattern = "numbers/*"
pipelines = ["first", "second"]
"""

pytestmark = pytest.mark.timeout(600)


def sequences(query: Query, stream: str = "numbers/0") -> list[int]:
    """The messages of a stream that a query has seen."""
    return [sequence for name, sequence, _ in query.rows() if name == stream]


def up_to(last: int) -> list[int]:
    """The sequences of the first messages."""
    return [number_sequence(n) for n in range(1, last + 1)]


def test_a_stream_is_acknowledged_when_both_pipelines_have_committed_it(rig: Callable[[str], Rig]) -> None:
    world = rig(TWO_PIPELINES)
    source = Numbers(world.source_folder("numbers"))
    first, second = world.query("first", "record", "numbers/*"), world.query("second", "record", "numbers/*")
    source.offer("0", 100)
    world.gateway.start()
    world.connector("numbers").start()
    world.run(first)
    world.wait_until("the first commits", lambda: first.committed("numbers/0") == number_sequence(100))
    assert world.holds(lambda: source.acked("0") == 0, 0.5), "acknowledged although a declared pipeline never ran"
    other = world.driver()
    other.run(second)
    other.start()
    world.wait_until("both have committed", lambda: source.acked("0") == 100)

    other.kill()
    source.offer("0", 300)
    world.wait_until("the first commits more", lambda: first.committed("numbers/0") == number_sequence(300))
    assert world.holds(lambda: source.acked("0") == 100, 0.5), "acknowledged although a killed pipeline has not read it"
    other.start()
    world.wait_until("both have committed all", lambda: source.acked("0") == 300)
    assert sequences(first) == sequences(second) == up_to(300)


def test_a_partition_that_appears_is_read_by_the_running_query(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 100)
    query = world.query("partitions", "record", "numbers/*")
    world.gateway.start()
    world.connector("numbers").start()
    world.run(query)
    world.wait_until("the first partition is read", lambda: source.acked("0") == 100)
    source.offer("1", 50)
    world.wait_until("the second partition is read", lambda: source.acked("1") == 50)
    source.offer("0", 150)
    source.offer("2", 10)
    world.wait_until("all partitions are read", lambda: (source.acked("0"), source.acked("2")) == (150, 10))
    assert [sequences(query, f"numbers/{partition}") for partition in "012"] == [up_to(150), up_to(50), up_to(10)]


def test_a_run_with_available_now_ends_when_it_has_read_what_there_was(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    for partition in "01":
        source.offer(partition, 500)
    query = world.query("now", "record", "numbers/*", {"maxMessagesPerTrigger": "200"}, available_now=True)
    world.gateway.start()
    world.connector("numbers").start()
    for last in (500, 700):
        for partition in "01":
            source.offer(partition, last)
        world.run(query)
        assert world.wait_for("the run ends", query.outcome) == {"state": "stopped"}
        for partition in "01":
            assert sequences(query, f"numbers/{partition}") == up_to(last)
            world.wait_until("all is acknowledged", partial(source.has_acked, partition, last))
