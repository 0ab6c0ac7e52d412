"""How much is in a request is known before it is parsed, whatever its method."""

import random
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from tests.gateway.test_rights import METHODS
from tests.gateway.wire import DEADLINE_S, serve

from headrace.gateway.core.base.errors import ListTooLong, MalformedMessage, ProtocolError
from headrace.gateway.health import Health
from headrace.gateway.services import entries
from headrace.gateway.services.entries import MAX_ENTRIES, MAX_FIELDS, SMALL_BYTES, check_entries

KINDS = {method.input_type.full_name: method.input_type for method in METHODS.values()}
Path = tuple[FieldDescriptor, ...]
MANY = 1_000_000


def lists(kind: Descriptor, path: Path = ()) -> Iterator[Path]:
    """The ways to all lists in a kind of message."""
    for field in kind.fields:
        if field.is_repeated:
            yield (*path, field)
        if field.message_type is not None:
            yield from lists(field.message_type, (*path, field))


LISTS = {f"{kind.name}.{'.'.join(field.name for field in path)}": (kind, path) for kind in KINDS.values() for path in lists(kind)}


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def is_packed(field: FieldDescriptor) -> bool:
    return bool(field.is_packed)


def filled(path: Path, count: int) -> bytes:
    """A message with `count` entries of a list, each as small as can be."""
    field, inner = path[-1], b"\0" * count
    if not is_packed(field):
        data = (varint(field.number << 3 | 2) + b"\0") * count
    else:
        data = varint(field.number << 3 | 2) + varint(count) + inner
    for outer in reversed(path[:-1]):
        data = varint(outer.number << 3 | 2) + varint(len(data)) + data
    return data


PADDING = varint(999 << 3 | 2) + varint(SMALL_BYTES) + b"\0" * SMALL_BYTES
"""A field that nobody knows, which makes a message large."""


class Looked(bytes):
    """Bytes that count how many of them are looked at."""

    def __new__(cls, data: bytes) -> "Looked":
        made = super().__new__(cls, data)
        made.count = 0
        return made

    count: int

    def __getitem__(self, at: Any) -> Any:
        self.count += 1
        return super().__getitem__(at)


def limit(path: Path) -> int:
    return MAX_ENTRIES[f"{path[-1].containing_type.name}.{path[-1].name}"]


def test_every_list_of_every_request_has_a_limit() -> None:
    named = {f"{path[-1].containing_type.name}.{path[-1].name}" for _, path in LISTS.values()}
    assert named == set(MAX_ENTRIES)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_too_long_is_refused_once_that_is_known(name: str) -> None:
    kind, path = LISTS[name]
    data = Looked(PADDING + filled(path, MANY))
    with pytest.raises(ListTooLong, match=path[-1].name):
        check_entries(data, kind)
    assert data.count < 4 * limit(path) + 100


@pytest.mark.parametrize("name", LISTS)
def test_as_many_entries_as_are_allowed_pass(name: str) -> None:
    kind, path = LISTS[name]
    check_entries(PADDING + filled(path, limit(path)), kind)
    if not is_packed(path[-1]):
        with pytest.raises(ListTooLong):
            check_entries(PADDING + filled(path, limit(path) + 2), kind)


@pytest.mark.parametrize("name", LISTS)
def test_the_entries_of_lists_that_are_merged_are_counted_together(name: str) -> None:
    kind, path = LISTS[name]
    part = filled(path, limit(path) // 2 + 2) if not is_packed(path[-1]) else filled(path, 10 * limit(path))
    with pytest.raises(ListTooLong):
        check_entries(PADDING + part * 3, kind)


@pytest.mark.parametrize("kind", [*KINDS.values(), health_pb2.HealthCheckRequest.DESCRIPTOR], ids=lambda kind: kind.name)
def test_a_field_that_is_sent_again_and_again_is_refused(kind: Descriptor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_FIELDS", 1_000)
    for again in (b"\x98\x3f\x00", b"\x9b\x3f\x9c\x3f", b"\x9a\x3f\x00"):
        data = Looked(again * (2**20 // len(again)))
        with pytest.raises(MalformedMessage):
            check_entries(data, kind)
        assert data.count < 10_000


def test_fields_within_a_field_without_lists_are_counted() -> None:
    for name, path in {name: path for name, (_, path) in LISTS.items() if len(path) == 1 and path[-1].message_type}.items():
        kind, data = LISTS[name][0], b"\xa0\x3f\x00" * (2**20)
        tag = varint(path[-1].number << 3 | 2)
        with pytest.raises(MalformedMessage):
            check_entries(tag + varint(len(data)) + data, kind)


def fill(message: Message, drawn: random.Random, most: int) -> None:
    """Sets fields of a message at random, with lists of at most `most` entries."""
    for field in message.DESCRIPTOR.fields:
        if drawn.random() < 0.3:
            continue
        if field.message_type is not None:
            if field.is_repeated:
                for _ in range(min(drawn.randrange(most), limit((field,)) // 20)):
                    fill(getattr(message, field.name).add(), drawn, 5)
            else:
                fill(getattr(message, field.name), drawn, most)
        elif field.is_repeated and field.type == FieldDescriptor.TYPE_STRING:
            getattr(message, field.name).extend("n" * drawn.randrange(100) for _ in range(min(most, limit((field,))) // 4))
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, "n" * drawn.randrange(400))
        elif field.type == FieldDescriptor.TYPE_BYTES:
            setattr(message, field.name, drawn.randbytes(drawn.randrange(100_000)))
        elif field.cpp_type in (FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_INT64) and not field.is_repeated:
            setattr(message, field.name, drawn.getrandbits(62))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_whatever_is_within_the_limits_passes_and_garbage_is_left_to_the_parser(kind: Descriptor) -> None:
    made, large = message_factory.GetMessageClass(kind), 0
    for seed in range(10):
        drawn = random.Random(seed)
        message = made()
        fill(message, drawn, 400)
        data = message.SerializeToString() + PADDING
        large += len(data) > SMALL_BYTES
        check_entries(data, kind)
        check_entries(data[: drawn.randrange(len(data))], kind)
        torn = bytearray(data)
        for _ in range(20):
            torn[drawn.randrange(len(torn) - len(PADDING) + 1)] = drawn.randrange(256)
        try:
            check_entries(bytes(torn), kind)
        except ProtocolError:
            continue
        try:
            made.FromString(bytes(torn))
        except DecodeError:
            continue
    assert large


@pytest.mark.parametrize("path", METHODS)
async def test_every_method_refuses_such_a_request(path: str, caplog: pytest.LogCaptureFixture) -> None:
    kind = METHODS[path].input_type
    found = next((way for of_kind, way in LISTS.values() if of_kind is kind), None)
    data = filled(found, MANY) if found is not None else b"\x98\x3f\x00" * (2 * MAX_FIELDS)
    wanted = grpc.StatusCode.RESOURCE_EXHAUSTED if found is not None else grpc.StatusCode.INVALID_ARGUMENT
    assert await answered(path, data) is wanted
    assert [line for line in caplog.messages if "raised by servicer" in line] == []


async def test_reflection_and_health_refuse_such_a_request() -> None:
    data = b"\x0a\x00" * (2 * MAX_FIELDS)
    assert await answered("/grpc.health.v1.Health/Check", data) is grpc.StatusCode.INVALID_ARGUMENT
    check = reflection_pb2.ServerReflectionRequest.DESCRIPTOR
    with pytest.raises(MalformedMessage):
        check_entries(data, check)


async def answered(path: str, data: bytes) -> grpc.StatusCode:
    async with serve(more=lambda server: health_pb2_grpc.add_HealthServicer_to_server(Health(), server)) as (_, address):
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            call = channel.stream_stream(path, request_serializer=bytes, response_deserializer=bytes)(timeout=DEADLINE_S)
            await call.write(data)
            code = await call.code()
            assert "more than" in (await call.details() or ""), await call.details()
            return code
