"""Several frames in one message of a source: each is taken as if it had come in a message of its own (FRM-17)."""

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.odd_frames import bytes_field, odd_frames, tag, varint
from tests.gateway.test_charging import EXPLICITLY_EMPTY, UNKNOWN, RawConnector
from tests.gateway.test_handing_on import GOOD, parses
from tests.gateway.wire import Engine, frame, numbered, serve, values_of

from headrace.contract.limits import MAX_FRAMES
from headrace.gateway.config import Limits
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.services.entries import SMALL_BYTES
from headrace.gateway.services.received import received
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.frame_pb2 import Frame

SEVERAL = source_pb2.IngestRequest.FRAMES_FIELD_NUMBER
ONE_OF = source_pb2.Frames.FRAMES_FIELD_NUMBER
FRAMES = st.one_of(st.sampled_from([frame.SerializeToString() for frame in GOOD]), odd_frames(GOOD, groups=False))
JUNK = tag(3, 0) + varint(7) + bytes_field(9, b"later")


def together(*frames: bytes, junk: bytes = b"") -> bytes:
    """An IngestRequest of several frames."""
    return bytes_field(SEVERAL, b"".join(bytes_field(ONE_OF, data) + junk for data in frames))


@given(st.lists(FRAMES.filter(parses), min_size=1, max_size=6), st.booleans())
def test_each_frame_keeps_its_bytes(frames: list[bytes], later_fields: bool) -> None:
    got = received(together(*frames, junk=JUNK if later_fields else b""))
    assert [bytes(one.serialized) for one in got.several] == frames
    assert [one.frame for one in got.several] == [Frame.FromString(data) for data in frames]


def test_frames_are_alone_in_their_message_and_not_too_many() -> None:
    one = GOOD[0].SerializeToString()
    goodbye = source_pb2.IngestRequest(goodbye=source_pb2.Goodbye()).SerializeToString()
    assert len(received(together(*[one] * MAX_FRAMES)).several) == MAX_FRAMES
    for wrong in (
        together(),
        together(*[one] * (MAX_FRAMES + 1)),
        together(one) + together(one),
        goodbye + together(one),
        together(one) + JUNK,
        together(one, junk=JUNK * MAX_FRAMES),
    ):
        with pytest.raises(MalformedMessage):
            received(wrong)
    # The last field of a oneof counts.
    assert received(together(one) + goodbye).several == ()


@pytest.mark.parametrize("odd", [b"", EXPLICITLY_EMPTY, UNKNOWN], ids=["plain", "empty fields", "unknown fields"])
async def test_frames_of_several_streams_are_taken_in_order_and_give_back_their_credit(odd: bytes) -> None:
    async with serve(Limits(session_messages=1000, buffer_bytes=2**20, max_frame_bytes=2**16)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        source = RawConnector(address)
        await source.hello()
        for stream_id, name in enumerate(["orders/0", "orders/1"], 1):
            await source.open(name, stream_id=stream_id)
            await source.expect("stream_opened")
        assert source_pb2.CAPABILITY_FRAMES in source.welcome.capabilities
        frames = [numbered(i, n * 5 + 1, 5).SerializeToString() + odd for n in range(10) for i in (1, 2)]
        source.spent += sum(len(data) + source.welcome.frame_overhead_bytes for data in frames)
        await source.call.write(together(*frames))
        await pipeline.plan_until("orders/0", 50)
        await pipeline.plan_until("orders/1", 50)
        for name in ("orders/0", "orders/1"):
            assert values_of(await pipeline.fetch(name, None, 50)) == [b"%d" % n for n in range(1, 51)]
        await pipeline.plan({"orders/0": 50, "orders/1": 50}, wait_ms=0)
        await source.granted_until(pipeline, source.welcome.credit.bytes)
        for client in (source, pipeline):
            await client.close()


async def test_a_broken_frame_ends_the_session_after_those_before_it_were_taken() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        broken = Frame(stream_id=1, first_sequence=6, count=2).SerializeToString()
        await source.call.write(together(numbered(1, 1, 5).SerializeToString(), broken, numbered(1, 8, 5).SerializeToString()))
        status, text = await source.ended()
        assert status is grpc.StatusCode.INVALID_ARGUMENT
        assert "orders/0, sequence 6" in text
        await pipeline.plan_until("orders/0", 5)
        assert values_of(await pipeline.fetch("orders/0", None, 5)) == [b"%d" % n for n in range(1, 6)]
        for client in (source, pipeline):
            await client.close()


async def test_a_message_may_have_as_many_frames_as_are_allowed_and_be_large() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        frames = [frame(1, n, [b"m" * 1000]).SerializeToString() for n in range(1, MAX_FRAMES + 1)]
        assert len(together(*frames)) > SMALL_BYTES
        await source.call.write(together(*frames))
        await pipeline.plan_until("orders/0", MAX_FRAMES)
        for client in (source, pipeline):
            await client.close()


@pytest.mark.parametrize(
    ("second", "status", "text"),
    [
        (numbered(2, 6, 5), grpc.StatusCode.NOT_FOUND, "stream id 2 was never opened"),
        (numbered(1, 1, 5), grpc.StatusCode.OUT_OF_RANGE, "already sent"),
        (numbered(1, 6, 2000), grpc.StatusCode.RESOURCE_EXHAUSTED, "credit overrun"),
    ],
    ids=["of a stream that is not open", "sent twice", "beyond the credit"],
)
async def test_a_frame_that_no_message_may_have_is_refused_beside_others(
    second: Frame, status: grpc.StatusCode, text: str
) -> None:
    async with serve(Limits(session_messages=1000)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.call.write(together(numbered(1, 1, 5).SerializeToString(), second.SerializeToString()))
        found, details = await source.ended()
        assert found is status
        assert text in details
        await pipeline.plan_until("orders/0", 5)
        for client in (source, pipeline):
            await client.close()


async def test_frames_that_come_after_the_end_of_their_stream_are_refused() -> None:
    async with serve() as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
        await source.call.write(together(numbered(1, 1, 5).SerializeToString()))
        status, text = await source.ended()
        assert status is grpc.StatusCode.FAILED_PRECONDITION
        assert "after CloseStream" in text
        for client in (source, pipeline):
            await client.close()


async def test_frames_that_are_too_large_as_a_whole_are_refused() -> None:
    async with serve(Limits(max_frame_bytes=2000)) as (_, address):
        source = RawConnector(address)
        await source.hello()
        await source.open()
        half = frame(1, 1, [b"m" * 1000]).SerializeToString()
        await source.call.write(together(half, half))
        status, text = await source.ended()
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "send fewer in each message" in text
        await source.close()
