"""Acknowledgements need no further message, also where a source sends none without them."""

from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.rig import Rig
from tests.faults.sources import PREFETCH, Careful, Numbers, Queue


def test_a_source_that_waits_for_each_acknowledgement_gets_it_with_a_credit_of_one_message(rig: Callable[[str], Rig]) -> None:
    world = rig("[limits]\nsession_messages = 1\n")
    source = Careful(world.source_folder("careful"))
    world.gateway.start()
    world.connector("careful").start()
    world.run(world.query("careful", "record", "careful/*"))
    world.wait_until("ten messages are acknowledged", lambda: len(source.waits()) > 10)


@pytest.mark.parametrize("session_messages", [1, 4_000_000])
def test_the_last_message_of_an_idle_stream_is_acknowledged(rig: Callable[[str], Rig], session_messages: int) -> None:
    world = rig(f"[limits]\nsession_messages = {session_messages}\n")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 1)
    world.gateway.start()
    world.connector("numbers").start()
    world.run(world.query("idle", "record", "numbers/*"))
    world.wait_until("the first message is acknowledged", lambda: source.acked("0") == 1)
    for last in (2, 4, 5):
        source.offer("0", last)
        world.wait_until(f"message {last} is acknowledged", partial(source.has_acked, "0", last))


def test_a_queue_gets_its_last_acknowledgements(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Queue(world.source_folder("queue"))
    world.gateway.start()
    world.connector("queue").start()
    query = world.query("queue", "record", "queue/*")
    world.run(query)
    source.put(4 * PREFETCH + 1)
    world.wait_until("the queue is empty", lambda: source.unacked() == 0)
    assert [int(value) for _, _, value in query.rows()] == list(range(1, 4 * PREFETCH + 2))
    source.put(4 * PREFETCH + 2)
    world.wait_until("the queue is empty again", lambda: source.unacked() == 0)
