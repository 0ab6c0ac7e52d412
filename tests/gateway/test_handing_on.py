"""A frame goes through the gateway as the bytes that came: whatever is odd about them, it means the same on either side."""

import random

import grpc
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st
from tests.gateway.fuzz import mutated
from tests.gateway.odd_frames import BYTES, bytes_field, nested_groups, odd_frames, tag, varint
from tests.gateway.sink_wire import SinkClient, Writer
from tests.gateway.test_charging import RawConnector
from tests.gateway.wire import Engine, frame, numbered, serve

from headrace.gateway.core.base.envelopes import part_frame, range_frame_head, size_of_only_field
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.services.received import delivered, received
from headrace.protocol.v1 import engine_pb2, sink_pb2, source_pb2
from headrace.protocol.v1.frame_pb2 import Frame

FRAME = source_pb2.IngestRequest.FRAME_FIELD_NUMBER
DELIVERED_FRAME = engine_pb2.DeliverRequest.FRAME_FIELD_NUMBER
DEEPEST_GROUPS = 99
"""So deep a parser of protobuf reads groups in a frame in an IngestRequest, but not in a FetchResponse."""

GOOD = [numbered(1, 0, 3), frame(1, 7, [b"a" * 200, b""], step=3), Frame(), Frame(stream_id=2, count=1, cursor=b"")]
FRAMES = st.one_of(st.sampled_from([frame.SerializeToString() for frame in GOOD]), odd_frames(GOOD, groups=True))


def parses(data: bytes) -> bool:
    try:
        Frame.FromString(data)
    except DecodeError:
        return False
    return True


def wire_form(message: object) -> bytes:
    """What tells two messages apart, also where they differ in fields that are not known."""
    return message.SerializeToString(deterministic=True)  # type: ignore[attr-defined, no-any-return]


# Reading


@given(FRAMES.filter(parses))
def test_the_bytes_of_a_frame_are_those_in_its_request(data: bytes) -> None:
    got = received(bytes_field(FRAME, data))
    assert (got.frame, got.frame_bytes) == (data, len(data))
    assert wire_form(got.request.frame) == wire_form(Frame.FromString(data))
    assert delivered(bytes_field(DELIVERED_FRAME, data)).frame == data


@given(st.lists(FRAMES.filter(parses), min_size=2, max_size=4), st.integers(0, 3))
def test_a_frame_that_comes_in_several_fields_is_their_sum(pieces: list[bytes], longer_by: int) -> None:
    got = received(b"".join(bytes_field(FRAME, piece, longer_by) for piece in pieces))
    assert wire_form(Frame.FromString(got.frame)) == wire_form(got.request.frame)
    assert got.frame_bytes == sum(map(len, pieces))
    summed = delivered(b"".join(bytes_field(DELIVERED_FRAME, piece, longer_by) for piece in pieces))
    assert wire_form(Frame.FromString(summed.frame)) == wire_form(got.request.frame)


@given(FRAMES, st.randoms(use_true_random=False))
@example(b"", random.Random(0))
def test_of_bytes_that_are_anything_either_no_frame_is_read_or_the_one_that_protobuf_reads(
    data: bytes, rng: random.Random
) -> None:
    wire = mutated(rng, bytes_field(FRAME, data))
    try:
        whole = source_pb2.IngestRequest.FromString(wire)
    except DecodeError:
        with pytest.raises(MalformedMessage, match="not an IngestRequest"):
            received(wire)
        return
    try:
        got = received(wire)
    except MalformedMessage:
        return  # It has more fields than any request, or a group.
    assert wire_form(got.request) == wire_form(whole)
    assert wire_form(Frame.FromString(got.frame)) == wire_form(whole.frame)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1a",
        b"\x1a\x80",
        b"\x1a\x05four",
        b"\x1a\x03four",
        b"\x1a\x84\x00four",
        b"\x1a" + b"\xff" * 9 + b"\x01",
        b"\x12\x04four",
        b"\x9a\x00\x04four",
        b"\x1a\x04four\x1a\x00",
    ],
)
def test_what_is_more_or_less_than_one_field_in_its_shortest_form_is_left_to_the_parser(data: bytes) -> None:
    assert size_of_only_field(data, FRAME) is None


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21])
def test_a_field_of_any_size_is_found(size: int) -> None:
    assert size_of_only_field(bytes_field(FRAME, b"x" * size), FRAME) == size


# Writing


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), FRAMES.filter(parses)), max_size=5))
@example([(0, b""), (127, b""), (128, b"")])
def test_a_response_made_around_frames_is_the_one_that_protobuf_makes_of_them(frames: list[tuple[int, bytes]]) -> None:
    made = b"".join(range_frame_head(index, len(data)) + data for index, data in frames)
    response = engine_pb2.FetchResponse()
    for index, data in frames:
        response.frames.add(range=index).frame.MergeFromString(data)
    assert wire_form(engine_pb2.FetchResponse.FromString(made)) == wire_form(response)


@given(st.integers(0, 2**64 - 1), FRAMES.filter(parses))
def test_a_sinks_message_made_around_a_frame_is_the_one_that_protobuf_makes_of_it(part: int, data: bytes) -> None:
    message = sink_pb2.SinkServiceAttachResponse()
    message.frame.id = part
    message.frame.frame.MergeFromString(data)
    assert wire_form(sink_pb2.SinkServiceAttachResponse.FromString(part_frame(part, memoryview(data)))) == wire_form(message)


@pytest.mark.parametrize("index", [0, 1, 300])
@pytest.mark.parametrize("size", [0, 5, 100, 200, 70_000])
def test_around_a_frame_in_its_shortest_form_are_the_very_bytes_that_protobuf_writes(index: int, size: int) -> None:
    data = frame(1, 5, [b"x" * size]).SerializeToString()
    response = engine_pb2.FetchResponse()
    response.frames.add(range=index).frame.MergeFromString(data)
    assert range_frame_head(index, len(data)) + data == response.SerializeToString()


# Over the wire

ODD = {
    "unknown fields": lambda data: bytes_field(1000, b"later") + data + tag(2000, 0) + varint(7),
    "a column twice": lambda data: bytes_field(Frame.VALUES_FIELD_NUMBER, b"another") + data,
    "a number twice": lambda data: tag(Frame.COUNT_FIELD_NUMBER, 0) + varint(2**31) + data,
    "a column that is no column": lambda data: data + tag(Frame.KEYS_FIELD_NUMBER, 0) + varint(5),
    "a number that is no number": lambda data: data + tag(Frame.COUNT_FIELD_NUMBER, BYTES) + b"\x01x",
    "numbers in many bytes": lambda data: data + tag(Frame.STREAM_ID_FIELD_NUMBER, 0) + varint(1, 3),
    "empty fields": lambda data: bytes_field(Frame.KEYS_FIELD_NUMBER, b"") + data,
    "as it should be": lambda data: data,
}


@pytest.mark.parametrize("what", ODD)
async def test_an_odd_frame_reaches_a_pipeline_as_it_was_sent(what: str) -> None:
    async with serve() as (gateway, address):
        source, pipeline = RawConnector(address), Engine(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        sent = [ODD[what](numbered(1, first, 5).SerializeToString()) for first in (0, 5)]
        for data in sent:
            await source.send_frame(data)
        planned = await pipeline.plan_until("orders/0", 9)
        assert gateway.streams["orders/0"].held_bytes == sum(map(len, sent))
        got = await pipeline.fetch("orders/0", None, planned.end)
        assert [wire_form(each) for each in got] == [wire_form(Frame.FromString(data)) for data in sent]
        for client in (source, pipeline):
            await client.close()


@pytest.mark.parametrize("what", ODD)
async def test_an_odd_frame_reaches_a_sink_as_it_was_sent(what: str) -> None:
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello()
        await writer.report_commits()
        data = ODD[what](frame(0, 0, [b"ab", b"c"]).SerializeToString())
        call = channel.stream_unary("/headrace.protocol.v1.EngineService/Deliver")()
        await call.write(engine_pb2.DeliverRequest(start=writer.start(0)).SerializeToString())
        await call.write(bytes_field(DELIVERED_FRAME, data))
        opened = await sink.expect("start_part")
        got = await sink.expect("frame")
        assert got.id == opened.id
        assert wire_form(got.frame) == wire_form(Frame.FromString(data))
        for client in (sink, writer):
            await client.close()


async def test_a_frame_in_two_fields_reaches_a_pipeline_as_one() -> None:
    async with serve() as (_, address):
        source, pipeline = RawConnector(address), Engine(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        whole = numbered(1, 0, 5)
        half = Frame(stream_id=1, count=5, values=whole.values, cursor=b"replaced")
        rest = Frame(value_lengths=whole.value_lengths, cursor=b"5")
        await source.call.write(bytes_field(FRAME, half.SerializeToString()) + bytes_field(FRAME, rest.SerializeToString()))
        planned = await pipeline.plan_until("orders/0", 4)
        assert await pipeline.fetch("orders/0", None, planned.end) == [whole]
        for client in (source, pipeline):
            await client.close()


async def test_a_frame_that_its_reader_could_not_parse_is_refused() -> None:
    poison = numbered(1, 0, 5).SerializeToString() + nested_groups(1000, DEEPEST_GROUPS)
    source_pb2.IngestRequest.FromString(bytes_field(FRAME, poison))
    with pytest.raises(DecodeError):
        engine_pb2.FetchResponse.FromString(range_frame_head(0, len(poison)) + poison)
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        source, pipeline, sink, writer = RawConnector(address), Engine(address), SinkClient(address), Writer(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send_frame(poison)
        code, details = await source.ended()
        assert (code, "group" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        await sink.hello()
        await writer.report_commits()
        call = channel.stream_unary("/headrace.protocol.v1.EngineService/Deliver")()
        await call.write(engine_pb2.DeliverRequest(start=writer.start(0)).SerializeToString())
        await call.write(bytes_field(DELIVERED_FRAME, frame(0, 0, [b"v"]).SerializeToString() + nested_groups(1000, 1)))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        for client in (source, pipeline, sink, writer):
            await client.close()
