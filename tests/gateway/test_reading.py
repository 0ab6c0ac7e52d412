"""A range is served whole, whatever arrives while its frames are being sent."""

import asyncio
import time

from headrace.gateway.core._frames import HeldFrame
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING, Position
from headrace.gateway.core._reading import ReadRange, read
from headrace.gateway.core._stream import Stream


def _frame(first: int, last: int) -> HeldFrame:
    return HeldFrame(first, last, last - first + 1, 100, b"", None, time.monotonic(), None)


async def test_what_arrives_while_a_frame_is_sent_is_served_too() -> None:
    # As after a restart of the gateway in mid-batch: the source sends the range again while it is already being read.
    stream = Stream("orders/0")
    stream.append(_frame(1, 10))
    end = Position(0, 15)
    frames = read(Pipeline("totals"), stream, ReadRange("orders/0", BEGINNING, BEGINNING, end, end))
    served = [await anext(frames)]
    stream.append(_frame(11, 20))
    stream.tell_readers()
    async with asyncio.timeout(5):
        served += [frame async for frame in frames]
    assert [(frame.first, frame.last) for frame in served] == [(1, 10), (11, 20)]


async def test_a_notice_that_comes_while_a_frame_is_sent_is_not_missed() -> None:
    stream = Stream("orders/0")
    stream.append(_frame(1, 10))
    end = Position(0, 25)
    frames = read(Pipeline("totals"), stream, ReadRange("orders/0", BEGINNING, BEGINNING, end, end))
    await anext(frames)
    stream.append(_frame(11, 20))
    stream.tell_readers()
    async with asyncio.timeout(5):
        assert (await anext(frames)).last == 20
