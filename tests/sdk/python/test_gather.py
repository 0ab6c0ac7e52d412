"""The buffer between a reader's thread and the sender: nothing is lost, and no wake-up is missed, however they interleave."""

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from headrace.sdk import FrameTarget, Message
from headrace.sdk.sources.gather import Gather
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
async def test_messages_that_are_taken_while_others_are_added_all_arrive_in_order(frame: FrameTarget) -> None:
    changed, taken = asyncio.Event(), 0
    gather = Gather(asyncio.get_running_loop(), changed.set, frame)

    def read() -> None:
        for number in range(MESSAGES):
            # Some have further attributes, or exceed a frame.
            value = b"m" * (600 if number % 1000 == 0 else number % 7)
            if gather.add(Message(value, b"k" if number % 3 else None, sequence=number, token=number if number % 5 else None)):
                with gather.condition:
                    assert gather.condition.wait_for(lambda: not gather.full, DEADLINE_S)

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
