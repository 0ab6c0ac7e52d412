"""A range is served whole, whatever arrives while its frames are being sent."""

import asyncio
import time

from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.batches.reading import ReadRange, read
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.core.streams.frames import HeldFrame
from headrace.gateway.core.streams.stream import Stream


def _frame(first: int, last: int) -> HeldFrame:
    return HeldFrame(first, last, last - first + 1, 100, b"", None, time.monotonic(), None)


async def test_what_arrives_while_a_frame_is_sent_is_served_too() -> None:
    # As after a restart of the gateway in mid-batch: the source sends the range again while it is already being read.
    stream = Stream("orders/0")
    stream.append(_frame(1, 10))
    end = Position(0, 15)
    frames = read(Pipeline("totals"), stream, ReadRange("orders/0", BEGINNING, BEGINNING, end, end))
    served = await anext(frames)
    stream.append(_frame(11, 20))
    stream.tell_readers()
    async with asyncio.timeout(60):
        served += [frame async for more in frames for frame in more]
    assert [(frame.first, frame.last) for frame in served] == [(1, 10), (11, 20)]


async def test_a_notice_that_comes_while_a_frame_is_sent_is_not_missed() -> None:
    stream = Stream("orders/0")
    stream.append(_frame(1, 10))
    end = Position(0, 25)
    frames = read(Pipeline("totals"), stream, ReadRange("orders/0", BEGINNING, BEGINNING, end, end))
    await anext(frames)
    stream.append(_frame(11, 20))
    stream.tell_readers()
    async with asyncio.timeout(60):
        assert [frame.last for frame in await anext(frames)] == [20]
