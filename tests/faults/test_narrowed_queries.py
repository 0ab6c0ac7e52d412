"""A query that is started again with fewer streams than its checkpoint has."""

from collections.abc import Callable
from dataclasses import replace

from tests.faults.rig import Rig
from tests.faults.sources import Numbers


def test_a_query_whose_option_stream_was_narrowed_is_refused_and_goes_on_once_it_is_as_before(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    for partition in ("0", "1"):
        source.offer(partition, 100)
    query = world.query("narrowed", "count", "numbers/*")
    world.gateway.start()
    world.connector("numbers").start()
    world.run(query)
    world.wait_until("all is acknowledged", lambda: source.acked("0") == source.acked("1") == 100)
    world.stop(query)

    world.run(replace(query, streams="numbers/0"))
    error = world.failure(query)
    assert "numbers/1" in error
    assert "option stream" in error

    source.offer("1", 200)
    world.run(query)
    world.wait_until("the rest is acknowledged", lambda: source.acked("1") == 200)
