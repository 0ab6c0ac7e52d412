"""A frame is charged what it cost, and gives back to the byte what it was charged; what can never be granted is refused."""

import asyncio
import gc
import struct
import tracemalloc
from collections.abc import Sequence

import grpc
import grpc.aio
import pytest
from tests.gateway.wire import DEADLINE_S, Connector, Engine, frame, numbered, serve

from headrace.gateway.config import Limits
from headrace.gateway.core.streams.frames import OVERHEAD_BYTES
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.frame_pb2 import Frame


def length(size: int) -> bytes:
    """A varint."""
    encoded = b""
    while size > 0x7F:
        encoded += bytes([size & 0x7F | 0x80])
        size >>= 7
    return encoded + bytes([size])


class RawConnector(Connector):
    """A connector whose frames are bytes of its own making; it keeps its own account of its credit."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.spent = 0
        raw = self._channel.stream_stream(
            "/headrace.protocol.v1.SourceService/Ingest", response_deserializer=source_pb2.IngestResponse.FromString
        )
        self.call.cancel()
        self.call = raw()

    async def send(self, **message: object) -> None:
        await self.call.write(source_pb2.IngestRequest(**message).SerializeToString())  # type: ignore[arg-type]

    async def send_frame(self, data: bytes) -> None:
        self.spent += len(data) + self.welcome.frame_overhead_bytes
        await self.call.write(b"\x1a" + length(len(data)) + data)

    async def granted_until(self, pipeline: Engine, account: int) -> None:
        """Takes grants until the gateway's account of the credit is as large as at first."""
        granted = self.welcome.credit.bytes
        async with asyncio.timeout(DEADLINE_S):
            while granted - self.spent < account:
                granted += (await self.expect_credit()).bytes
        assert granted - self.spent == account
        session = (await pipeline.status()).sessions[0]
        assert (session.outstanding_bytes, session.credit_bytes) == (0, account)


EXPLICITLY_EMPTY = b"\x22\x00" + b"\x2a\x00\x32\x00" + b"\x4a\x00"
UNKNOWN = b"\xba\x3e\x0ahello junk" + b"\xc0\x3e\x81\x80\x80\x00"
LONG_VARINT = b"\x08\x81\x80\x80\x80\x00"

ODD = {
    "empty fields are there": lambda data: data + EXPLICITLY_EMPTY,
    "unknown fields": lambda data: UNKNOWN + data + UNKNOWN,
    "numbers in many bytes": lambda data: data + LONG_VARINT,
    "a column twice": lambda data: b"\x3a\x05other" + data,
    "as it should be": lambda data: data,
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("again", [0, 3, 5], ids=["new", "partly seen", "wholly seen"])
async def test_a_frame_gives_back_what_its_connector_was_charged(what: str, again: int) -> None:
    # `again` messages have been received from an older session, so that the first frame of this one is trimmed or dropped.
    async with serve(Limits(session_messages=1000, buffer_bytes=2**20, max_frame_bytes=2**16)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(committed={"orders/0": again} if again else None)
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        last = 0
        for n in range(20):
            last = n * 5 + 5
            await source.send_frame(ODD[what](numbered(1, n * 5 + 1, 5).SerializeToString()))
        await pipeline.plan_until("orders/0", last)
        await pipeline.plan({"orders/0": last}, wait_ms=0)
        await source.granted_until(pipeline, source.welcome.credit.bytes)
        for client in (source, pipeline):
            await client.close()


async def test_frames_of_a_stream_that_was_rejected_and_of_a_batch_that_is_read_again_give_all_back() -> None:
    async with serve(Limits(session_messages=1000, buffer_bytes=2**20, max_frame_bytes=2**16)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 50})
        source = RawConnector(address)
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        for n in range(10):
            await source.send_frame(numbered(1, n * 5 + 1, 5).SerializeToString() + EXPLICITLY_EMPTY)
        await source.granted_until(pipeline, source.welcome.credit.bytes)
        await source.send(position_lost=source_pb2.PositionLost(stream_id=1))
        await source.expect("reject")
        for n in range(10, 20):
            await source.send_frame(numbered(1, n * 5 + 1, 5).SerializeToString() + UNKNOWN)
        granted = source.welcome.credit.bytes
        async with asyncio.timeout(DEADLINE_S):
            while (await pipeline.status()).sessions[0].credit_bytes < granted:
                pass
        for client in (source, pipeline):
            await client.close()


async def test_a_request_of_needlessly_many_fields_is_refused() -> None:
    async with serve() as (_, address):
        source = RawConnector(address)
        await source.hello()
        await source.call.write(b"\x1a\x00" * 100_000)
        code, details = await source.ended()
        assert (code, "fields" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        await source.close()


async def test_a_frame_takes_no_more_memory_than_it_is_charged() -> None:
    count = 3000
    async with serve(Limits(session_messages=10 * count)) as (gateway, address):
        pipeline, source = Engine(address), Connector(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 0, 1))
        await pipeline.plan_until("orders/0", 0)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            held = gateway.sessions[next(iter(gateway.sessions))].account.bytes_held
            for n in range(1, count + 1):
                await source.send(frame=frame(1, n * 1000, [b"v"], cursor=b"%d" % n))
            await pipeline.plan_until("orders/0", count * 1000)
            gc.collect()
            memory = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        charged = gateway.sessions[next(iter(gateway.sessions))].account.bytes_held - held
        assert charged >= count * OVERHEAD_BYTES
        assert memory < charged, f"{memory / count:.0f} bytes of memory for each frame, and {charged / count:.0f} charged"
        for client in (source, pipeline):
            await client.close()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bytes": 2**17, "messages": 1}, "max_frame_bytes is 65536"),
        ({"bytes": 2**63, "messages": 1}, "max_frame_bytes is 65536"),
        ({"bytes": 100, "messages": 801}, "max_frame_messages is 800"),
        ({"bytes": 100, "messages": 501}, "never has more than 500 outstanding"),
        ({"bytes": 100, "messages": 2**64 - 1}, "max_frame_messages is 800"),
    ],
)
async def test_credit_that_can_never_be_granted_is_refused_with_the_reason(asked: dict[str, int], words: str) -> None:
    limits = Limits(buffer_bytes=2**20, max_frame_bytes=2**16, max_frame_messages=800, session_messages=500)
    async with serve(limits) as (_, address):
        pipeline, source = Engine(address), Connector(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(credit_request=source_pb2.CreditRequest(stream_id=1, **asked))  # type: ignore[arg-type]
        code, details = await source.ended()
        assert (code, words in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True), details
        for client in (source, pipeline):
            await client.close()


async def test_the_largest_frame_is_granted_where_the_buffer_is_as_small_as_it_may_be() -> None:
    limits = Limits(buffer_bytes=2**20, max_frame_bytes=2**20 * 3 // 4 - OVERHEAD_BYTES, max_sessions=2000)
    async with serve(limits) as (_, address):
        pipeline, source = Engine(address), Connector(address)
        await pipeline.attach()
        credit = (await source.hello()).credit.bytes
        await source.open()
        await source.expect("stream_opened")
        large = frame(1, 1, [b"v" * (limits.max_frame_bytes - 20)])
        await source.send(credit_request=source_pb2.CreditRequest(bytes=large.ByteSize(), messages=1, stream_id=1))
        while credit < large.ByteSize() + OVERHEAD_BYTES:
            credit += (await source.expect_credit()).bytes
        await source.send(frame=large)
        await pipeline.plan_until("orders/0", 1)
        for client in (source, pipeline):
            await client.close()


def text_column(entries: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    lengths = [0xFFFFFFFF if entry is None else len(entry) for entry in entries]
    return b"".join(entry or b"" for entry in entries), struct.pack(f"<{len(entries)}I", *lengths)


TEXTS: dict[str, tuple[list[bytes | None], int | None]] = {
    "plain": ([b"a", b"", None, b"bc"], None),
    "of many languages": (["ä".encode(), None, "日本".encode(), "🙂".encode()], None),
    "latin": ([b"a", b"caf\xe9", b"c", None], 1),
    "torn between two": ([b"a", b"\xc3", b"\xa4", b"b"], 1),
    "torn after null": (["ä".encode(), b"\xe6\x97", None, b"\xa5"], 1),
    "a surrogate": ([b"a", b"b", b"c", b"\xed\xa0\x80"], 3),
    "begins within a character": ([b"a", b"\x80b", b"c", b"d"], 1),
    "unfinished": ([b"a", b"b", b"c", b"\xf0\x9f"], 3),
    "torn before it is broken": ([b"\xc3", b"\xa4\xff", b"c", b"d"], 0),
}


@pytest.mark.parametrize("column", ["message_ids", "header_names"])
@pytest.mark.parametrize("case", TEXTS)
async def test_text_that_is_not_utf8_is_refused_with_stream_sequence_and_column(case: str, column: str) -> None:
    entries, broken = TEXTS[case]
    if column == "header_names":
        entries = [entry or b"" for entry in entries]
    joined, lengths = text_column(entries)
    sent: Frame = frame(1, 100, [b"v"] * 4, step=3)
    if column == "message_ids":
        sent.message_ids, sent.message_id_lengths = joined, lengths
    else:
        sent.header_counts = struct.pack("<4I", 0, 3, 0, 1)
        sent.header_names, sent.header_name_lengths, sent.header_value_lengths = joined, lengths, b"\0" * 16
    async with serve() as (_, address):
        pipeline, source = Engine(address), Connector(address)
        await pipeline.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=sent)
        if broken is None:
            await pipeline.plan_until("orders/0", 109)
            [back] = await pipeline.fetch("orders/0", None, 109)
            assert (back.message_ids, back.header_names) == (sent.message_ids, sent.header_names)
        else:
            code, details = await source.ended()
            message = broken if column == "message_ids" else 1 if broken < 3 else 3
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "orders/0" in details
            assert column in details
            assert f"sequence {100 + 3 * message} is not UTF-8" in details
        for client in (source, pipeline):
            await client.close()
