"""Peeks: what is shown of a stream's messages and how much, who may see it, and that nothing waits for a listener."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.captured_logs import capture_logs
from tests.gateway.http_server import get, serve_http
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import REDELIVERING, Connector, Engine, frame, numbered, serve
from tests.vectors.files import named, read

from headrace.contract.limits import MAX_NAME_BYTES, MAX_PEEK
from headrace.gateway import Limits, Peek, Token
from headrace.gateway.core import Gateway
from headrace.gateway.core.status.peeking import WINDOW_S
from headrace.gateway.core.streams.previews import (
    HEADER_BYTES,
    HIDDEN,
    KEY_BYTES,
    MAX_HEADERS,
    is_secret,
    previews,
    without_secrets,
)
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.rules import PEEK
from headrace.gateway_status import peek_document
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, frame_pb2

DEADLINE_S = 150.0
GENEROUS = Peek(enabled=True, messages_per_second=100, bytes_per_second=2**20)
FRAMES = named(read("frames.json")["valid"])


class Rig:
    """A gateway with a stream `orders/0`, which a connector sends and a pipeline reads."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self.gateway, self.address = gateway, address
        self.source, self.reader = Connector(address), Engine(address)
        self.channel = grpc.aio.insecure_channel(address, options=[("grpc.http2.bdp_probe", 0)])

    async def begin(self) -> None:
        await self.source.hello()
        await self.reader.attach()
        await self.source.open()
        await self.source.expect("stream_opened")

    async def send(self, sent: frame_pb2.Frame) -> None:
        """Sends a frame, and waits until the gateway holds it."""
        wanted = self.gateway.streams["orders/0"].received_messages + sent.count
        await self.source.send(frame=sent)
        await self.reader.status_once(lambda status: status.streams[0].received_messages >= wanted)

    def peek(self, stream: str = "orders/0", limit: int = 0, caller: str | None = None) -> Any:
        request = admin_pb2.PeekRequest(stream=stream, limit=limit)
        stub = admin_pb2_grpc.AdminServiceStub(self.channel)
        return stub.Peek(request, timeout=DEADLINE_S, metadata=bearer(caller) if caller else ())

    async def until_nobody_listens(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.gateway.listeners:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.source.close()
        await self.reader.close()
        await self.channel.close()


@asynccontextmanager
async def rigged(peek: Peek = GENEROUS, **limits: int) -> AsyncIterator[Rig]:
    async with serve(Limits(**limits)) as (gateway, address):
        gateway.peek = peek
        rig = Rig(gateway, address)
        await rig.begin()
        try:
            yield rig
        finally:
            await rig.close()


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in call:
            pass
    return refused.value.code(), refused.value.details() or ""


# What is shown


@pytest.mark.parametrize("name", FRAMES)
def test_a_message_is_shown_as_its_frame_has_it(name: str) -> None:
    columns, sent = FRAMES[name]["columns"], frame_pb2.Frame.FromString(bytes.fromhex(FRAMES[name]["hex"]))
    for first in range(min(sent.count, 4)):
        shown = list(previews(sent, 3, 2**20, first, 10))
        last = first + len(shown)
        assert len(shown) == min(10, sent.count - first)
        assert [str(each.sequence) for each in shown] == columns["sequences"][first:last]
        assert {each.epoch for each in shown} == {3}
        for field in ("key", "value"):
            found = [getattr(each, field).first.hex() if each.HasField(field) else None for each in shown]
            wanted = columns[f"{field}s"][first:last]
            assert [text and text[: 2 * KEY_BYTES] for text in found] == [text and text[: 2 * KEY_BYTES] for text in wanted]
        times = [str(each.event_time_us) if each.HasField("event_time_us") else None for each in shown]
        assert times == columns["event_times"][first:last]
        headers = [[[h.name, h.value.first.hex() if h.HasField("value") else None] for h in each.headers] for each in shown]
        assert headers == columns["headers"][first:last]


async def test_what_is_held_is_shown_and_then_what_arrives() -> None:
    async with rigged() as rig:
        await rig.send(numbered(1, 1, 3))
        call, shown = rig.peek(limit=5), []
        while len(shown) < 3:
            shown += (await anext(aiter(call))).messages
        await rig.send(numbered(1, 4, 2))
        samples = [sample async for sample in call]
        shown += [message for sample in samples for message in sample.messages]
        assert [(message.sequence, message.value.first) for message in shown] == [(n, b"%d" % n) for n in range(1, 6)]
        assert samples[-1].not_shown == 0


async def test_so_many_messages_are_shown_in_a_second_and_the_others_are_counted() -> None:
    async with rigged(Peek(enabled=True, messages_per_second=2)) as rig:
        await rig.send(numbered(1, 1, 1000))
        begun_at = asyncio.get_running_loop().time()
        call = rig.peek(limit=4)
        first = await anext(aiter(call))
        assert ([message.sequence for message in first.messages], first.not_shown) == ([1, 2], 998)
        await rig.send(numbered(1, 1001, 10))
        last = [sample async for sample in call][-1]
        assert ([message.sequence for message in last.messages], last.not_shown) == ([1001, 1002], 1006)
        assert asyncio.get_running_loop().time() - begun_at >= WINDOW_S


async def test_so_many_bytes_are_shown_in_a_second() -> None:
    async with rigged(Peek(enabled=True, messages_per_second=100, bytes_per_second=1024, preview_bytes=1000)) as rig:
        await rig.send(frame(1, 1, [b"x" * 5000] * 50))
        call = rig.peek()
        sample = await anext(aiter(call))
        assert [(len(message.value.first), message.value.size) for message in sample.messages] == [(1000, 5000)] * 2
        assert sample.not_shown == 48
        call.cancel()


def test_long_keys_values_and_headers_are_cut() -> None:
    names = ["n" * 400, *(f"h{n}" for n in range(MAX_HEADERS + 5))]
    joined = "".join(names).encode()
    sent = frame(1, 1, [b"v" * 1000])
    sent.keys, sent.key_lengths = b"k" * 1000, (1000).to_bytes(4, "little")
    sent.header_counts = len(names).to_bytes(4, "little")
    sent.header_names, sent.header_name_lengths = joined, b"".join(len(name).to_bytes(4, "little") for name in names)
    sent.header_values, sent.header_value_lengths = b"w" * 500 * len(names), (500).to_bytes(4, "little") * len(names)
    (shown,) = previews(sent, 0, 16, 0, 1)
    assert ((shown.key.size, len(shown.key.first)), (shown.value.size, shown.value.first)) == ((1000, 256), (1000, b"v" * 16))
    assert (len(shown.headers), shown.headers_in_all, len(shown.headers[0].name)) == (MAX_HEADERS, len(names), 256)
    assert all((header.value.size, len(header.value.first)) == (500, 256) for header in shown.headers)


async def test_messages_of_a_queue_that_delivers_again_are_shown_in_their_new_epoch() -> None:
    async with serve() as (gateway, address):
        gateway.peek = GENEROUS
        rig = Rig(gateway, address)
        await rig.reader.attach()
        call, epochs, shown = None, [], []
        for _ in range(2):
            source = Connector(address)
            await source.hello()
            await source.open(kind=REDELIVERING)
            epochs.append((await source.expect("stream_opened")).epoch)
            await source.send(frame=numbered(1, 1, 2))
            await rig.reader.status_once(lambda status: status.streams[0].received.sequence == 2)
            call = call or rig.peek(limit=4)
            while len(shown) < 2 * len(epochs):
                shown += [(message.epoch, message.sequence) for message in (await anext(aiter(call))).messages]
            await source.close()
            await rig.reader.status_once(lambda status: not status.sessions)
        assert shown == [(epoch, sequence) for epoch in epochs for sequence in (1, 2)]
        await rig.close()


# Secrets


@pytest.mark.parametrize(
    "name",
    ["Authorization", "X-Api-Key", "access_token", "db-password", "CLIENT_SECRET", "n" * 300 + "-token"],
)
async def test_a_header_with_the_name_of_a_secret_is_hidden(name: str) -> None:
    async with rigged() as rig:
        sent = frame(1, 1, [b"v"])
        sent.header_counts = (2).to_bytes(4, "little")
        sent.header_names, lengths = name.encode() + b"trace", (len(name), 5)
        sent.header_name_lengths = b"".join(each.to_bytes(4, "little") for each in lengths)
        sent.header_values, sent.header_value_lengths = b"opensesame0af7", b"".join(n.to_bytes(4, "little") for n in (10, 4))
        await rig.send(sent)
        (sample,) = [sample async for sample in rig.peek(limit=1)]
        (message,) = sample.messages
        assert [(header.name, header.value.first) for header in message.headers] == [
            (name[:HEADER_BYTES], HIDDEN),
            ("trace", b"0af7"),
        ]
        assert b"opensesame" not in sample.SerializeToString()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b'{"user": "ada", "password": "x\\"y", "n": 1}', b'{"user": "ada", "password": "(hidden)", "n": 1}'),
        (b'{"a": {"b": {"apiKey" : 17, "c": 2}}}', b'{"a": {"b": {"apiKey" : "(hidden)", "c": 2}}}'),
        (b'{"token": "cut off in the mid', b'{"token": "(hidden)"'),
        (b'{"token": "cut off in an escape \\', b'{"token": "(hidden)"\\'),
        (b'{"secret": {"of": "all", "kinds": 1}, "n": 1}', b'{"secret": "(hidden)"'),
        (b'{"secrets": ["a", "b"]}', b'{"secrets": "(hidden)"'),
        (b'[{"Authorization":null},{"x":"Token: none"}]', b'[{"Authorization":"(hidden)"},{"x":"Token: none"}]'),
        (b'{"password":', b'{"password":'),
        (b"password, token and secret are words", b"password, token and secret are words"),
        (b'\xff{"token": "\xfe"}', b'\xff{"token": "(hidden)"}'),
        (b'{"n": 1}', b'{"n": 1}'),
    ],
)
def test_members_of_json_with_the_name_of_a_secret_are_hidden(text: bytes, shown: bytes) -> None:
    assert without_secrets(text) == shown


def test_hiding_secrets_takes_linear_time() -> None:
    """With quadratic time, each of these would take minutes."""
    for text in (
        b'"token' * 10_000,
        b'"token":' * 10_000,
        b'"\\' * 30_000 + b"token",
        b"token" * 13_000,
        b'"token":"' + b"\\" * 60_000,
    ):
        without_secrets(text)
    assert not is_secret(b"trace-id")


# Callers


EVERYTHING_BUT = {"sources": ("*/*",), "pipelines": ("*",), "reads": ("*/*",), "admin": True, "control": True}
CALLERS: tuple[Token, ...] = (
    token("sees", peek=("orders/*",)),
    token("sees-others", peek=("payments/*", "orders")),
    token("everything-else", **EVERYTHING_BUT),
)


@pytest.mark.parametrize("caller", ["sees-others", "everything-else"])
async def test_only_a_token_with_the_right_for_the_stream_sees_its_messages(caller: str) -> None:
    async with serve(tokens=CALLERS) as (gateway, address), serve_http(gateway, CALLERS) as http:
        gateway.peek = GENEROUS
        gateway.stream("orders/0")
        rig = Rig(gateway, address)
        code, details = await refusal(rig.peek(caller=caller))
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert "peek" in details
        assert (await get(http, "/api/v1/streams/orders/0/peek", caller))[0] == 403
        code, details = await refusal(rig.peek("orders/1", caller="sees"))
        assert (code, "orders/0" in details) == (grpc.StatusCode.NOT_FOUND, True)
        code, details = await refusal(rig.peek("payments/1", caller="sees-others"))
        assert (code, "orders/0" in details) == (grpc.StatusCode.NOT_FOUND, False), "it names only what the caller may see"
        await rig.close()


@pytest.mark.parametrize(
    ("stream", "limit", "code", "http_code"),
    [
        ("", 0, grpc.StatusCode.INVALID_ARGUMENT, None),
        ("x" * (MAX_NAME_BYTES + 1), 0, grpc.StatusCode.INVALID_ARGUMENT, 400),
        ("orders/0", MAX_PEEK + 1, grpc.StatusCode.INVALID_ARGUMENT, 400),
        ("orders/9", 0, grpc.StatusCode.NOT_FOUND, 404),
    ],
    ids=["empty", "oversized-name", "oversized-limit", "unknown"],
)
async def test_a_request_that_is_not_valid_is_refused(
    stream: str, limit: int, code: grpc.StatusCode, http_code: int | None
) -> None:
    async with rigged() as rig, serve_http(rig.gateway) as http:
        assert (await refusal(rig.peek(stream, limit)))[0] is code
        if http_code:
            assert (await get(http, f"/api/v1/streams/{stream}/peek?limit={limit}"))[0] == http_code
        assert rig.gateway.listeners == 0


async def test_a_gateway_shows_nothing_unless_its_configuration_enables_it() -> None:
    assert not Peek().enabled
    async with rigged(Peek()) as rig, serve_http(rig.gateway) as http:
        code, details = await refusal(rig.peek())
        assert (code, "[peek]" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        assert (await get(http, "/api/v1/streams/orders/0/peek"))[0] == 409


async def test_so_many_listen_and_no_more() -> None:
    async with rigged(Peek(enabled=True, max_listeners=1)) as rig, serve_http(rig.gateway) as http:
        await rig.send(numbered(1, 1, 1))
        first = rig.peek()
        assert (await anext(aiter(first))).messages
        code, details = await refusal(rig.peek())
        assert (code, "peek.max_listeners" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert (await get(http, "/api/v1/streams/orders/0/peek"))[0] == 429
        first.cancel()
        await rig.until_nobody_listens()
        assert [len(sample.messages) async for sample in rig.peek(limit=1)] == [1]
        await rig.until_nobody_listens()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda gateway: gateway.end_revoked(TokenRegistry(CALLERS)), grpc.StatusCode.UNAUTHENTICATED),
        (lambda gateway: gateway.forget_stream(gateway.streams["orders/0"]), grpc.StatusCode.NOT_FOUND),
        (lambda gateway: setattr(gateway, "peek", Peek()), grpc.StatusCode.FAILED_PRECONDITION),
        (lambda gateway: gateway.close(), grpc.StatusCode.UNAVAILABLE),
    ],
    ids=["token", "stream", "configuration", "gateway"],
)
async def test_a_peek_ends_with_what_allows_it(end: Callable[[Gateway], object], code: grpc.StatusCode) -> None:
    async with rigged() as rig:
        await rig.send(numbered(1, 1, 1))
        calls = [rig.peek() for _ in range(2)]
        for call in calls:
            assert (await anext(aiter(call))).messages
        end(rig.gateway)
        for call in calls:
            assert (await refusal(call))[0] is code
        await rig.until_nobody_listens()


async def test_each_start_is_logged_with_who_and_what_and_no_payload_is() -> None:
    with capture_logs() as logs:
        async with rigged() as rig:
            await rig.send(frame(1, 1, [b"opensesame"]))
            assert [sample.messages[0].value.first async for sample in rig.peek(limit=1)] == [b"opensesame"]
            await refusal(rig.peek("orders/1"))
    told = [entry for entry in logs if entry["event"].startswith("peek")]
    assert [(entry["event"], entry["part"], entry["by"]) for entry in told] == [
        ("peek begun", "stream orders/0", "anybody"),
        ("peek refused", "stream orders/1", "anybody"),
    ]
    assert all(entry["peer"].startswith(("ipv4:127.0.0.1", "ipv6:")) for entry in told)
    assert "opensesame" not in str(logs)


# Slow listeners


async def test_nothing_waits_for_a_listener_that_does_not_read_and_it_is_dropped() -> None:
    greedy = Peek(enabled=True, messages_per_second=100, bytes_per_second=2**20, preview_bytes=2**16)
    async with rigged(greedy, write_timeout_seconds=3) as rig:
        call = rig.peek()
        assert await call.initial_metadata() is not None
        sent = 0
        async with asyncio.timeout(DEADLINE_S):
            # Until what it does not read fills the connection, for longer than it may.
            while sent == 0 or rig.gateway.listeners:
                await rig.send(frame(1, sent + 1, [b"x" * 2**16] * 20))
                sent += 20
                await rig.reader.plan_until("orders/0", sent)
                await rig.reader.plan({"orders/0": sent}, wait_ms=0)
                assert (await rig.source.expect("ack")).streams[0].position.sequence == sent
        assert (await refusal(call))[0] is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_that_nobody_peeks_at_wakes_nobody() -> None:
    async with rigged() as rig:
        await rig.send(numbered(1, 1, 3))
        assert [len(sample.messages) async for sample in rig.peek(limit=3)] == [3]
        await rig.until_nobody_listens()
        assert (rig.gateway.streams["orders/0"].news.waiters, len(rig.gateway.open_calls)) == (0, 1), (
            "only the session of the source is left"
        )


# HTTP


async def test_http_shows_what_the_admin_service_shows() -> None:
    async with rigged() as rig, serve_http(rig.gateway) as http:
        await rig.send(numbered(1, 1, 3))
        told = [peek_document(sample) async for sample in rig.peek(limit=3)]
        code, text = await get(http, f"{PEEK.replace('{name:path}', 'orders/0')}?limit=3")
        events = [dict(line.split(": ", 1) for line in event.splitlines()) for event in text.strip().split("\n\n")]
        assert code == 200
        assert [json.loads(event["data"]) for event in events if event["event"] == "sample"] == told
        assert (events[-1]["event"], json.loads(events[-1]["data"])) == ("end", {"reason": "3 messages were shown"})
        assert told[0]["messages"][0]["value"] == {"text": "1", "base64": "MQ==", "size": 1}
        await rig.until_nobody_listens()


async def test_http_says_why_it_ends() -> None:
    async with rigged(Peek(enabled=True, messages_per_second=1)) as rig, serve_http(rig.gateway) as http:
        await rig.send(numbered(1, 1, 3))
        reading = asyncio.create_task(get(http, "/api/v1/streams/orders/0/peek"))
        await rig.reader.status_once(lambda _: rig.gateway.listeners == 1)
        rig.gateway.peek = Peek()
        code, text = await reading
        assert code == 200
        assert "event: end" in text
        assert "[peek]" in text


@pytest.mark.parametrize(
    ("first", "size", "text"),
    [
        ("grün".encode(), 5, "grün"),
        ("grün".encode()[:3], 5, "gr"),
        ("grün".encode()[:3], 3, None),
        (b"\xff\x00", 2, None),
        (b"", 0, ""),
    ],
)
def test_a_preview_is_text_if_it_is_utf_8_and_may_be_cut_within_a_character(first: bytes, size: int, text: str | None) -> None:
    value = admin_pb2.BytesPreview(first=first, size=size)
    document = peek_document(admin_pb2.PeekResponse(messages=[admin_pb2.MessagePreview(value=value)]))
    assert document["messages"][0]["value"] is not None
    assert document["messages"][0]["value"]["text"] == text


def test_a_time_that_no_calendar_has_is_null() -> None:
    for at_us, text in ((0, "1970-01-01T00:00:00.000Z"), (2**62, None), (-(2**62), None)):
        message = admin_pb2.MessagePreview(event_time_us=at_us)
        assert peek_document(admin_pb2.PeekResponse(messages=[message]))["messages"][0]["event_time"] == text
