"""The buffer between a reader's thread and the sender: nothing is lost, and no wake-up is missed, however they interleave."""

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from headrace.sdk import Batch, FrameTarget, Message
from headrace.sdk.sources.gather import ADDED, ENDED, Gather
from headrace.sdk.wire import pack

MESSAGES = 10_000
DEADLINE_S = 150.0
"""For one step, however many there are."""


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Python switches between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("frame", [FrameTarget(messages=2), FrameTarget(bytes=500), FrameTarget()])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
async def test_messages_that_are_taken_while_others_are_added_all_arrive_in_order(frame: FrameTarget, at_once: bool) -> None:
    changed, taken = asyncio.Event(), 0
    gather = Gather(asyncio.get_running_loop(), changed.set, frame)

    def messages() -> Iterator[Message]:
        for number in range(MESSAGES):
            # Some have further attributes, or exceed a frame.
            value = b"m" * (600 if number % 1000 == 0 else number % 7)
            key, token = b"k" if number % 3 else None, number if number % 5 == 0 or number > MESSAGES // 2 else None
            yield Message(value, key, sequence=number, token=token)

    def wait_for_room() -> None:
        with gather.condition:
            assert gather.condition.wait_for(lambda: not gather.full, DEADLINE_S)

    def read() -> None:
        items = messages()
        while at_once and (item := gather.add_plain(items)) is not ENDED:
            if item is ADDED or gather.add(item):
                wait_for_room()
        for item in items:
            if gather.add(item):
                wait_for_room()

    reader = threading.Thread(target=read)
    reader.start()
    while taken < MESSAGES:
        await asyncio.wait_for(changed.wait(), DEADLINE_S)
        changed.clear()
        while items := gather.take():
            columns = pack(items, 0, None)
            assert columns is not None
            assert columns.first == taken
            taken = columns.last + 1
            assert columns.count == columns.last - columns.first + 1
    reader.join()
    assert (gather.messages, gather.bytes, gather.full) == (0, 0, False)


@pytest.mark.parametrize("frame", [FrameTarget(messages=1), FrameTarget()])
async def test_a_cursor_replaces_the_one_before_it_while_there_is_no_credit(frame: FrameTarget) -> None:
    gather = Gather(asyncio.get_running_loop(), lambda: None, frame)
    gather.add(Message(b"m", sequence=1))
    for number in range(10_000):
        gather.add(Batch([], cursor=b"%d" % number))
    _, cursor = gather.take()
    assert isinstance(cursor, Batch)
    assert cursor.cursor == b"9999"
    assert gather.take() == []
