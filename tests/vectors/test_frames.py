"""Frames of the vectors: what they hold, what packs and unpacks them, and what the gateway does with them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pyarrow as pa
import pytest
from tests.docs.pages import blocks
from tests.gateway.wire import Connector, Engine, serve
from tests.vectors.ends import end_of
from tests.vectors.files import named, read
from tests.vectors.packing import pack, unpack

from headrace.contract.limits import MAX_SEQUENCE
from headrace.engine.codec import columns, cut, record_batches
from headrace.gateway.config import Limits
from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk import Batch, decode_frame
from headrace.sdk.wire import fill_frame
from headrace.sdk.wire import pack as pack_batches

VALID = named(read("frames.json")["valid"])
INVALID = named(read("frames.json")["invalid"])
SENT = {name: case for name, case in VALID.items() if case["message"] == "Frame"}


def frame_of(case: dict[str, Any]) -> Frame:
    """The frame of a valid case, parsed."""
    data = bytes.fromhex(case["hex"])
    return Frame.FromString(data) if case["message"] == "Frame" else sink_pb2.PartFrame.FromString(data).frame


def whole(case: dict[str, Any], frame: Frame) -> bytes:
    """The message that holds a frame, serialized."""
    message = frame if case["message"] == "Frame" else sink_pb2.PartFrame(id=int(case["id"]), frame=frame)
    return message.SerializeToString()


# What the files hold


@pytest.mark.parametrize("name", VALID)
def test_the_bytes_of_a_frame_hold_its_columns(name: str) -> None:
    case = VALID[name]
    assert len(bytes.fromhex(case["hex"])) == case["size"]
    assert unpack(frame_of(case)) == case["columns"]


@pytest.mark.parametrize("name", [name for name, case in VALID.items() if not case["decode_only"]])
def test_the_columns_of_a_frame_make_its_bytes(name: str) -> None:
    case = VALID[name]
    assert whole(case, pack(case["columns"])).hex() == case["hex"]


def test_the_first_frame_is_that_of_the_page() -> None:
    (example,) = blocks("docs/reference/protocol.md", "hex")
    written = "".join(line[:50] for line in example.text.splitlines())
    assert next(iter(VALID.values()))["hex"] == bytes.fromhex(written).hex()


def test_every_rule_of_frames_that_can_be_broken_is_broken() -> None:
    # FRM-8 permits, and FRM-14 and FRM-15 are the gateway's.
    broken = {case["rule"] for case in INVALID.values()}
    assert {f"FRM-{number}" for number in range(1, 17)} - {"FRM-8", "FRM-14", "FRM-15"} <= broken


# The SDK


@pytest.mark.parametrize("name", VALID)
def test_the_sdk_decodes_a_frame(name: str) -> None:
    case = VALID[name]
    expected, messages = case["columns"], decode_frame(frame_of(case))
    assert [str(message.sequence) for message in messages] == expected["sequences"]
    assert [message.value for message in messages] == [plain(value) for value in expected["values"]]
    assert [message.key for message in messages] == [plain(key) for key in expected["keys"]]
    assert [message.event_time for message in messages] == [time and int(time) for time in expected["event_times"]]
    assert [message.message_id for message in messages] == expected["message_ids"]
    assert [list(message.headers or ()) for message in messages] == headers_of(expected)
    assert messages[-1].cursor == plain(expected["cursor"])


@pytest.mark.parametrize("name", [name for name, case in VALID.items() if not case["decode_only"]])
def test_the_sdk_packs_a_frame(name: str) -> None:
    case = VALID[name]
    given = case["columns"]
    batch = Batch(
        values=[plain(value) for value in given["values"]],
        keys=[plain(key) for key in given["keys"]] if any(key is not None for key in given["keys"]) else None,
        event_times=[time and int(time) for time in given["event_times"]] if any(given["event_times"]) else None,
        message_ids=given["message_ids"] if any(each is not None for each in given["message_ids"]) else None,
        headers=headers_of(given) if any(given["headers"]) else None,
        sequences=[int(sequence) for sequence in given["sequences"]],
        cursor=plain(given["cursor"]),
    )
    packed, frame = pack_batches([batch], int(given["sequences"][0]), None), Frame()
    assert packed is not None
    fill_frame(frame, packed, given["stream_id"], 0, packed.count)
    assert whole(case, frame).hex() == case["hex"]


def headers_of(decoded: dict[str, Any]) -> list[list[tuple[str, bytes | None]]]:
    return [[(name, plain(value)) for name, value in headers] for headers in decoded["headers"]]


def plain(entry: str | None) -> bytes | None:
    return None if entry is None else bytes.fromhex(entry)


# The engine


@pytest.mark.parametrize("name", VALID)
def test_the_engine_decodes_a_frame(name: str) -> None:
    case = VALID[name]
    part = cut(columns("orders/0", frame_of(case)), -1, MAX_SEQUENCE)
    assert part is not None
    (rows,) = record_batches([part])
    expected = case["columns"]
    assert rows["sequence"].to_pylist() == [int(sequence) for sequence in expected["sequences"]]
    assert rows["value"].to_pylist() == [plain(value) for value in expected["values"]]
    assert rows["key"].to_pylist() == [plain(key) for key in expected["keys"]]
    assert rows["event_time"].cast(pa.int64()).to_pylist() == [time and int(time) for time in expected["event_times"]]
    assert rows["message_id"].to_pylist() == expected["message_ids"]
    headers = [[(header["name"], header["value"]) for header in each] for each in rows["headers"].to_pylist()]
    assert headers == headers_of(expected)


# The gateway


@asynccontextmanager
async def source_of(address: str, stream: str, stream_id: int = 1, kind: str = "replayable") -> AsyncIterator["ByteConnector"]:
    """A connector whose stream is open."""
    source = ByteConnector(address)
    await source.hello(instance=stream)
    await source.open(stream, stream_id, source_pb2.SourceKind.Value(f"SOURCE_KIND_{kind.upper()}"))
    await source.expect("stream_opened")
    yield source
    await source.close()


async def test_the_gateway_takes_every_frame_and_hands_it_on_as_it_is() -> None:
    async with serve() as (_, address):
        query = Engine(address)
        await query.attach()
        for number, case in enumerate(SENT.values()):
            frame = frame_of(case)
            async with source_of(address, f"orders/{number}", frame.stream_id) as source:
                await source.send(frame=frame)
                last = int(case["columns"]["sequences"][-1])
                await query.plan_until(f"orders/{number}", last)
                (fetched,) = await query.fetch(f"orders/{number}", None, last)
                assert fetched.SerializeToString() == frame.SerializeToString(), case["name"]
        await query.close()


@pytest.mark.parametrize("name", INVALID)
async def test_the_gateway_refuses_a_frame_that_breaks_a_rule(name: str) -> None:
    case = INVALID[name]
    async with serve(Limits(**case.get("limits", {}))) as (_, address):
        query = Engine(address)
        await query.attach()
        async with source_of(address, "orders/0", kind=case.get("kind", "replayable")) as source:
            if "after" in case:
                await source.send(frame=pack({"stream_id": 1, "sequences": [case["after"]], "values": ["76"]}))
            await source.send_frame(bytes.fromhex(case["hex"]))
            end = await end_of(source.call)
        assert (end.status, end.reason) == (case["status"], case["reason"]), end.text
        if case["rule"].startswith("FRM"):
            assert "orders/0" in end.text
        await query.close()


class ByteConnector(Connector):
    """A connector that can send any bytes as a frame: a library would not write what is wrong with some of them."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self.call = self._channel.stream_stream(
            "/headrace.protocol.v1.SourceService/Ingest",
            request_serializer=lambda request: request if isinstance(request, bytes) else request.SerializeToString(),
            response_deserializer=source_pb2.IngestResponse.FromString,
        )()

    async def send_frame(self, frame: bytes) -> None:
        tag = source_pb2.IngestRequest.FRAME_FIELD_NUMBER << 3 | 2
        await self.call.write(bytes([tag]) + varint(len(frame)) + frame)


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)
