"""Deliveries and their headers, from the bytes of AMQP: no broker."""

import struct

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import frame, spec
from pika.exceptions import InvalidFrameError

from headrace.connectors.rabbitmq.columns import Columns
from headrace.connectors.rabbitmq.deliveries import CONSUMER_TAG, Arrived, Deliveries
from headrace.connectors.rabbitmq.fields import read_properties, take_offset

HEARTBEAT = frame.Heartbeat().marshal()


def delivery(tag: int, value: bytes, piece: int = 100, **properties: object) -> list[bytes]:
    """The frames of a delivery, whose body comes in pieces."""
    deliver = spec.Basic.Deliver(CONSUMER_TAG, tag, tag % 2 == 1, "e", f"k{tag}")
    pieces = [value[at : at + piece] for at in range(0, len(value), piece)]
    header = frame.Header(1, len(value), pika.BasicProperties(**properties))
    return [frame.Method(1, deliver).marshal(), header.marshal(), *(frame.Body(1, part).marshal() for part in pieces)]


@given(values=st.lists(st.binary(max_size=250), max_size=6), cuts=st.lists(st.integers(1, 40), max_size=60), noise=st.booleans())
def test_bytes_that_are_split_anywhere_give_the_same_deliveries(values, cuts, noise):
    frames = [one for tag, value in enumerate(values, 1) for one in delivery(tag, value)]
    qos = frame.Method(1, spec.Basic.QosOk()).marshal()
    others = HEARTBEAT * len(frames) + qos if noise else qos
    data = b"".join(one + (HEARTBEAT if noise else b"") for one in frames) + qos
    deliveries, rest, at = Deliveries(), b"", 0
    for cut in [*cuts, len(data)]:
        rest += deliveries.feed(data[at : at + cut])
        at += cut
    arrived = deliveries.take()
    assert arrived.values == values
    assert arrived.tags == list(range(1, len(values) + 1))
    assert arrived.bytes == sum(map(len, values))
    assert rest == others
    assert not deliveries.take()


def test_other_messages_on_the_channel_are_pikas():
    returned = frame.Method(1, spec.Basic.Return(312, "NO_ROUTE", "", "k")).marshal()
    content = returned + b"".join(delivery(1, b"back")[1:])
    deliveries = Deliveries()
    assert deliveries.feed(content) == content
    assert not deliveries.arrived


def test_what_is_no_amqp_is_noticed():
    with pytest.raises(InvalidFrameError, match="a frame of 2 bytes"):
        Deliveries().feed(b"\x01\x00\x01\x00\x00\x00\x02abX")


def table(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return struct.pack(">I", len(body)) + body


def field(name: str, kind: bytes, data: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + kind + data


def long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


FIELDS = [
    ("truth", b"t", b"\x01", b"true"),
    ("untruth", b"t", b"\x00", b"false"),
    ("byte", b"b", b"\xff", b"-1"),
    ("unsigned byte", b"B", b"\xff", b"255"),
    ("short", b"s", b"\xff\xfe", b"-2"),
    ("unsigned short", b"u", b"\xff\xfe", b"65534"),
    ("int", b"I", struct.pack(">i", -3), b"-3"),
    ("unsigned int", b"i", struct.pack(">I", 2**32 - 1), b"4294967295"),
    ("long", b"l", struct.pack(">q", -(2**63)), b"-9223372036854775808"),
    ("float", b"f", struct.pack(">f", 1.5), b"1.5"),
    ("double", b"d", struct.pack(">d", 0.1), b"0.1"),
    ("decimal", b"D", struct.pack(">Bi", 2, -12345), b"-123.45"),
    ("text", b"S", long("é".encode()), "é".encode()),
    ("text that is none", b"S", long(b"\xff"), b"\xff"),
    ("bytes", b"x", long(b"\x00\xff"), b"\x00\xff"),
    ("time", b"T", struct.pack(">Q", 1_700_000_000), b"2023-11-14T22:13:20Z"),
    ("time without a year", b"T", struct.pack(">Q", 2**60), b"1152921504606846976"),
    ("nothing", b"V", b"", None),
    ("list", b"A", long(b"t\x01" + b"S" + long(b"a") + b"x" + long(b"\xff") + b"V"), b'[true,"a","/w==",null]'),
    ("table", b"F", table(field("a", b"l", struct.pack(">q", 1))), b'{"a":1}'),
    ("table of tables", b"F", table(field("a", b"F", table(field("b", b"d", struct.pack(">d", 2.5))))), b'{"a":{"b":2.5}}'),
]
"""Every type of field that RabbitMQ has, as it stands in a table, and as the value of a header."""


def test_headers_of_every_type_become_bytes():
    raw = struct.pack(">H", 1 << 13) + table(*(field(name, kind, data) for name, kind, data, _ in FIELDS))
    assert read_properties(raw).headers == [(name, value) for name, _, _, value in FIELDS]


def test_properties_are_read_as_pika_writes_them():
    everything = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"h": "v"},
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    found = read_properties(b"".join(everything.encode()))
    assert found.headers == [("h", b"v")]
    assert found.timestamp == 1_700_000_000
    assert found.texts == {
        "content-type": b"text/plain",
        "content-encoding": b"gzip",
        "priority": b"7",
        "correlation-id": b"c",
        "reply-to": b"r",
        "expiration": b"60000",
        "message-id": b"m",
        "type": b"t",
        "user-id": b"guest",
        "app-id": b"a",
    }
    assert read_properties(b"\x00\x00").texts == {}


def test_properties_that_end_too_soon_are_told():
    with pytest.raises(ValueError, match="cannot be parsed"):
        read_properties(struct.pack(">HI", 1 << 13, 30) + b"\x01a")


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_the_offset_of_a_stream_is_taken_out_of_the_headers(last, content_type):
    headers = {"x-stream-offset": pika.compat.long(2**40), "a": True, "t": {"x": 1}}
    if last:
        headers = dict(reversed(headers.items()))
    offset, rest = take_offset(b"".join(pika.BasicProperties(content_type=content_type, headers=headers).encode()))
    assert offset == 2**40
    found = read_properties(rest)
    assert dict(found.headers) == {"a": b"true", "t": b'{"x":1}'}
    assert found.texts == ({"content-type": b"text/plain"} if content_type else {})


@pytest.mark.parametrize("headers", [None, {}, {"a": "x-stream-offset"}, {"x-stream-offset": "5"}])
def test_a_message_without_an_offset(headers):
    assert take_offset(b"".join(pika.BasicProperties(headers=headers).encode())) is None


def batch_of(key: str, *frames: bytes):
    deliveries = Deliveries()
    deliveries.feed(b"".join(frames))
    return Columns(key).batch(deliveries.take())


def test_what_a_message_carries_is_in_its_columns():
    properties = {"headers": {"h": 1}, "message_id": "m", "timestamp": 1_700_000_000, "type": "t", "delivery_mode": 2}
    batch = batch_of("routing-key", *delivery(1, b"a", **properties), *delivery(2, b""))
    assert batch.values == [b"a", b""]
    assert batch.keys == [b"k1", b"k2"]
    assert batch.message_ids == ["m", None]
    assert batch.event_times == [1_700_000_000_000_000, None]
    assert batch.headers == [
        [("h", b"1"), ("amqp-type", b"t"), ("amqp-redelivered", b"true"), ("amqp-exchange", b"e")],
        [("amqp-exchange", b"e")],
    ]


@pytest.mark.parametrize(("key", "keys"), [("none", None), ("header:h", [b"1", None])])
def test_the_key_may_be_something_else(key, keys):
    batch = batch_of(key, *delivery(1, b"a", headers={"h": 1}), *delivery(2, b"b"))
    assert batch.keys == keys
    assert ("amqp-routing-key", b"k2") in batch.headers[1]


@pytest.mark.parametrize(
    ("properties", "event_time"),
    [
        ({"timestamp": 5, "headers": {"timestamp_in_ms": 5123}}, 5_123_000),
        ({"timestamp": 5, "headers": {"timestamp_in_ms": "soon"}}, 5_000_000),
        ({"headers": {"timestamp_in_ms": 2**62}}, None),
        ({"timestamp": 2**63}, None),
        ({"timestamp": 1_700_000_000_123}, 1_700_000_000_123_000),
        ({"timestamp": 253_402_300_799}, 253_402_300_799_000_000),
        ({"timestamp": 253_402_300_800}, 253_402_300_800_000),
        ({"timestamp": 253_402_300_799_999}, 253_402_300_799_999_000),
        ({"timestamp": 253_402_300_800_000}, None),
        ({"timestamp": 1_700_000_000_123_456}, None),
        ({"timestamp": 5, "headers": {"timestamp_in_ms": 253_402_300_800_000}}, 5_000_000),
        ({"timestamp": 5, "headers": {"timestamp_in_ms": "9" * 5000}}, 5_000_000),
    ],
)
def test_event_times(properties, event_time):
    batch = batch_of("none", *delivery(1, b"a", **properties))
    assert batch.event_times == (None if event_time is None else [event_time])
    timestamp = properties.get("timestamp", 0)
    as_it_was = ("amqp-timestamp", b"%d" % timestamp)
    assert (as_it_was in ((batch.headers or [None])[0] or ())) == (timestamp >= 253_402_300_800)


def test_a_message_whose_properties_cannot_be_read_is_taken_with_them_as_they_came():
    whole = Arrived([1, 2], [b"\x00\x00\x01k"] * 2, [b"\x00\x00", b"\x00\x40"], [b"a", b"b"])
    batch = Columns("routing-key").batch(whole)
    assert (batch.values, batch.keys) == ([b"a", b"b"], [b"k", b"k"])
    assert batch.headers[0] is None
    assert dict(batch.headers[1])["amqp-properties"] == b"\x00\x40"
    assert b"cannot be parsed" in dict(batch.headers[1])["amqp-unreadable"]


def test_some_of_what_has_arrived():
    arrived = Arrived([1, 2], [b"r", b"s"], [b"p", b"q"], [b"v", b"w"], 2)
    kept = arrived.only([False, True])
    assert (kept.tags, kept.routes, kept.properties, kept.values) == ([2], [b"s"], [b"q"], [b"w"])
