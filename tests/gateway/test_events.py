"""Server-sent events: what a client has after each is what the API says, whoever may listen, however slowly, and until when."""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.http_server import get, post, serve_http
from tests.gateway.test_rights import ALL_NAMES, token
from tests.gateway.wire import DEADLINE_S, REPLAYABLE, Connector, Engine, numbered, serve

from headrace.contract import clock
from headrace.gateway import Config, Http, Limits, observer
from headrace.gateway.core import Gateway, Problem
from headrace.gateway.core.status.problem import Kind
from headrace.gateway.http import events, http_server, new_app, server
from headrace.gateway.http.delta import GROWING, KEYS, delta, same_health
from headrace.gateway.http.status import Documents
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import listen_http
from headrace.gateway.observer import Observer
from headrace.gateway.rules import EVENTS
from headrace.protocol.v1 import source_pb2


def apply(document: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the status that a client knows after changes; rows are in the order in which they were first seen."""
    result = dict(document)
    for part in ("gateway", "health"):
        result[part] = changed.get(part, document[part])
    for part, key in KEYS.items():
        if part in changed:
            removed = set(changed[part]["removed"])
            rows = {row[key]: row for row in document[part] if row[key] not in removed}
            rows.update({row[key]: {**rows.get(row[key], {}), **row} for row in changed[part]["set"]})
            result[part] = list(rows.values())
    return result


class Listener:
    """A client that applies events to a status, as a page does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.document: dict[str, Any] = {}
        self.kinds: list[str] = []
        self.changed: dict[str, Any] = {}

    async def next(self) -> str:
        """Takes an event or a comment; returns its kind, and an empty text at the end of the stream."""
        lines: dict[str, str] = {}
        async with asyncio.timeout(DEADLINE_S):
            while line := (await self.response.content.readline()).decode():
                if line == "\n":
                    return self._take(lines)
                name, _, value = line.rstrip("\n").partition(": ")
                lines[name] = value
        return ""

    def _take(self, lines: dict[str, str]) -> str:
        kind = lines.get("event", "comment")
        if kind == "status":
            self.document = json.loads(lines["data"])
        elif kind == "changes":
            self.changed = json.loads(lines["data"])
            self.document = apply(self.document, self.changed)
        self.kinds.append(kind)
        return kind

    async def until(self, part: str, count: int) -> None:
        """Waits until a list has as many rows."""
        while len(self.document.get(part, ())) != count:
            assert await self.next()


@asynccontextmanager
async def listening(address: str, token: str | None = None, **more: Any) -> AsyncIterator[Listener]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout, read_bufsize=2**24) as session,
        session.get(f"http://{address}{EVENTS}", headers={**headers, **more.pop("headers", {})}, **more) as response,
    ):
        yield Listener(response)


def lasting(document: Any) -> Any:
    """A document without what grows with time, by itself."""
    if isinstance(document, dict):
        return {key: lasting(value) for key, value in document.items() if key not in {*GROWING, "at_ms", "since"}}
    return [lasting(value) for value in document] if isinstance(document, list) else document


async def test_a_client_has_the_status_and_follows_what_changes() -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http, listening(http) as listener:
        assert listener.response.headers["content-type"].startswith("text/event-stream")
        assert listener.response.headers["cache-control"] == "no-store"
        assert await listener.next() == "status"
        code, told = await get(http, "/api/v1/status")
        health = (await get(http, "/api/v1/problems"))[1]
        assert code == 200
        assert lasting(listener.document) == lasting({**told, "health": health})

        source, reader = Connector(address), Engine(address)
        await source.hello()
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        await listener.until("streams", 1)
        while listener.document["streams"][0]["received_messages"] != 3:
            await listener.next()
        assert [len(listener.document[part]) for part in ("sessions", "pipelines", "sinks")] == [1, 1, 0]
        await source.close()
        await listener.until("sessions", 0)
        assert listener.kinds.count("status") == 1
        async with listening(http) as second:
            assert await second.next() == "status"
            assert len(second.document["streams"]) == 1
        await reader.close()


async def test_health_is_sent_only_if_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    causes, off_ms, began = ["nobody reads it"], itertools.cycle([0, 999]), clock.monotonic()

    def found(*_: Any) -> list[Problem]:
        age_ms = int((clock.monotonic() - began) * 1000) + next(off_ms)
        return [Problem("stream orders/0", Kind.NOT_READ, causes[-1], age_ms, remedy="start a query")]

    monkeypatch.setattr(observer, "problems", found)
    monkeypatch.setattr(observer, "_fresh_s", lambda _: 0.0)
    async with serve() as (gateway, _), serve_http(gateway) as http, listening(http) as listener:
        assert await listener.next() == "status"
        assert len(listener.document["health"]["problems"]) == 1
        for number in range(4):
            gateway.sink(f"totals-{number}")
            await listener.until("sinks", number + 1)
            assert "health" not in listener.changed
        causes.append("its connector is away")
        while "health" not in listener.changed:
            assert await listener.next()
        assert listener.document["health"]["problems"][0]["cause"] == causes[-1]


NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
ages = st.integers(0, 5_000)


@given(st.lists(st.tuples(st.integers(0, 2), ages), min_size=1, max_size=20))
def test_what_clients_have_of_health_is_never_further_off_than_its_tolerance(looks: list[tuple[int, int]]) -> None:
    sent: dict[str, Any] = {}
    for cause, age_ms in looks:
        since = (NOW - timedelta(milliseconds=age_ms)).isoformat(timespec="seconds")
        problem = {"part": "stream orders/0", "kind": "not-sent", "cause": str(cause), "root": "x", "since": since, "remedy": ""}
        health = {"status": "degraded", "problems": [problem], "problems_in_all": 1}
        if not sent or not same_health(sent, health):
            sent = health
        (shown,) = sent["problems"]
        assert {**shown, "since": ""} == {**problem, "since": ""}
        assert abs(datetime.fromisoformat(shown["since"]) - datetime.fromisoformat(since)) <= timedelta(seconds=2)


async def test_the_first_clients_may_come_at_the_same_time() -> None:
    gateway = Gateway(Limits())
    async with serve_http(gateway) as http, AsyncExitStack() as clients:
        for number in range(200):
            gateway.stream(f"orders/{number}")
        listeners = await asyncio.gather(*(clients.enter_async_context(listening(http)) for _ in range(10)))
        for listener in listeners:
            await listener.until("streams", 200)
        assert len({json.dumps(lasting(listener.document), sort_keys=True) for listener in listeners}) == 1
        gateway.stream("payroll/0")
        for listener in listeners:
            await listener.until("streams", 201)
            assert listener.kinds == ["status", "changes"]


async def test_a_change_among_a_thousand_streams_reaches_ten_clients() -> None:
    async with serve() as (gateway, address), AsyncExitStack() as clients:
        source, reader = Connector(address), Engine(address)
        await source.hello()
        for n in range(1_000):
            opening = source_pb2.OpenStream(stream_id=n + 1, stream=f"orders/{n}", kind=REPLAYABLE)
            await source.send(open_stream=opening)
        await reader.status_once(lambda told: len(told.streams) == 1_000)
        http = await clients.enter_async_context(serve_http(gateway))
        listeners = [await clients.enter_async_context(listening(http)) for _ in range(10)]
        for listener in listeners:
            await listener.until("streams", 1_000)
        await reader.attach()
        await source.send(frame=numbered(500, 1, 3))
        for listener in listeners:
            while not any((row["stream"], row["received_messages"]) == ("orders/499", 3) for row in listener.document["streams"]):
                assert await listener.next()
            assert len(listener.document["streams"]) == 1_000
        await source.close()
        await reader.close()


async def test_while_nothing_changes_comments_show_that_the_connection_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_S", 0.05)
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.2)
    async with serve_http(Gateway(Limits())) as http, AsyncExitStack() as clients:
        kind = ""
        while kind != "status":
            # A machine that is held up lets the time of the request pass before its stream begins.
            with suppress(aiohttp.ClientError):
                listener = await clients.enter_async_context(listening(http))
                kind = await listener.next()
        for _ in range(20):
            assert await listener.next() == "comment", "the time of a response is not limited here"


async def test_only_who_may_see_the_status_listens() -> None:
    others = {key: value for key, value in ALL_NAMES.items() if key != "admin"}
    tokens = [token("seer", admin=True), token("other", **others)]
    async with serve_http(Gateway(Limits()), tokens) as http:
        for caller, expected in ((None, 401), ("unknown", 401), ("other", 403), ("seer", 200)):
            async with listening(http, caller) as listener:
                assert listener.response.status == expected
        assert (await get(http, f"{EVENTS}?token=seer"))[0] == 401


@asynccontextmanager
async def revocable() -> AsyncIterator[tuple[str, TokenRegistry]]:
    """An HTTP server and its tokens."""
    registry = TokenRegistry([token("seer", admin=True), token("other", admin=True)])
    app = new_app(Gateway(Limits()), registry, Http(), "127.0.0.1:7433", loopback=True)
    (listener,) = listen_http(Config(http=Http(listen="127.0.0.1:0")))
    host, port = listener.getsockname()
    async with http_server(app, [listener]):
        yield f"{host}:{port}", registry


@pytest.mark.parametrize("by", ["token", "cookie"])
async def test_the_stream_of_a_token_that_is_revoked_ends(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_S", 0.05)
    async with revocable() as (http, registry):
        headers = {"Authorization": "Bearer seer"}
        if by == "cookie":
            url, body = f"http://{http}/api/v1/sign-in", {"token": "seer"}
            async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
                assert response.status == 204
                headers = {"Cookie": response.headers["set-cookie"].partition(";")[0]}
        async with listening(http, headers=headers) as listener, listening(http, "other") as stays:
            assert await listener.next() == "status"
            assert await stays.next() == "status"
            registry.replace([token("other", admin=True)])
            while await listener.next():
                pass
            assert await stays.next() == "comment"


async def test_so_many_clients_listen_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_LISTENERS", 2)
    async with serve_http(Gateway(Limits())) as http:
        async with listening(http) as first, listening(http) as second:
            for listener in (first, second):
                assert await listener.next() == "status"
            async with listening(http) as third:
                assert third.response.status == 503
                assert third.response.headers["retry-after"] == "5"
        async with asyncio.timeout(DEADLINE_S):
            status = 503
            while status == 503:
                async with listening(http) as again:
                    status = again.response.status
        assert status == 200


async def test_a_client_that_does_not_read_is_dropped_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "READ_TIMEOUT_S", 600.0)
    monkeypatch.setattr(events, "KEEPALIVE_S", 0.01)
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 600.0)
    large = b'event: status\nid: 1\ndata: {"gateway": {}, "health": {}}\n\n: ' + b"x" * 2**24 + b"\n\n"

    serving = set[events.Events]()

    async def text(self: events.Events) -> bytes:
        serving.add(self)
        return large

    monkeypatch.setattr(events.Events, "_whole_text", text)
    async with serve_http(Gateway(Limits())) as http, listening(http) as other:
        assert await other.next() == "status"
        (published,) = serving
        # Of a client that comes from now on. The other one may be as slow as a busy machine makes it.
        monkeypatch.setattr(events, "READ_TIMEOUT_S", 1.0)
        monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 1.0)
        host, port = http.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**10)
        writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: {http}\r\n\r\n".encode())
        await writer.drain()
        # After some seconds there are changes, too: nothing is connected to the gateway.
        for _ in range(100):
            assert await other.next() in ("comment", "changes")
        while published.listeners > 1:
            assert await other.next() in ("comment", "changes")
        # The server gives up what the client has not read after another REQUEST_TIMEOUT_S at most.
        for _ in range(150):
            assert await other.next() in ("comment", "changes")
        async with asyncio.timeout(DEADLINE_S):
            read = 0
            while data := await reader.read(2**20):
                read += len(data)
        assert read < len(large)
        writer.close()


async def test_a_server_that_stops_ends_the_streams_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as clients:
        async with serve_http(Gateway(Limits())) as http:
            listeners = [await clients.enter_async_context(listening(http)) for _ in range(3)]
            for listener in listeners:
                assert await listener.next() == "status"
        for listener in listeners:
            with suppress(aiohttp.ClientError):
                while await listener.next():
                    pass
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_who_listens_while_the_last_one_leaves_gets_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PERIOD_S", 0.01)
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    gateway = Gateway(Limits())
    published = events.Events(Documents(Observer(gateway, Http()), "127.0.0.1:7433"))
    first = published.listen()
    assert b"event: status" in await anext(first)
    second = published.listen()

    async def begin() -> bytes:
        return await anext(second)

    # The first one leaves, and waits; the second one comes before that is over.
    _, text = await asyncio.gather(first.aclose(), begin())  # type: ignore[attr-defined]  # it is a generator
    assert b"event: status" in text
    gateway.stream("orders/0")
    async with asyncio.timeout(DEADLINE_S):
        while b"orders/0" not in await anext(second):
            pass
    await second.aclose()  # type: ignore[attr-defined]


ROWS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from("abcd"), "value": st.integers(0, 2), "age_ms": st.integers(0, 9)}),
    unique_by=lambda row: row["key"],
)


@st.composite
def statuses(draw: st.DrawFn) -> dict[str, Any]:
    parts = {
        part: [{key: row["key"], "value": row["value"], "age_ms": row["age_ms"]} for row in draw(ROWS)]
        for part, key in KEYS.items()
    }
    return {"gateway": {"draining": draw(st.booleans())}, "health": {"problems_in_all": draw(st.integers(0, 2))}, **parts}


@given(statuses(), statuses())
def test_changes_make_the_next_status_of_the_last(before: dict[str, Any], after: dict[str, Any]) -> None:
    def sets(document: dict[str, Any]) -> Any:
        return {
            part: {row[KEYS[part]]: lasting(row) for row in value} if part in KEYS else value for part, value in document.items()
        }

    changed = delta(before, after)
    assert sets(apply(before, changed)) == sets(after)
    assert (changed == {}) == (sets(before) == sets(after))


async def test_a_page_of_this_server_signs_in_with_post_only() -> None:
    async with serve_http(Gateway(Limits()), [token("seer", admin=True)]) as http:
        assert (await get(http, "/api/v1/sign-in"))[0] == 405
        assert (await post(http, EVENTS, {}, "seer"))[0] == 405


@given(st.floats(0, 1e4))
def test_listeners_take_a_small_share_of_a_gateway_and_see_what_is_new_in_two_seconds(took_s: float) -> None:
    period = events.period_s(took_s)
    assert events.PERIOD_S <= period <= events.MAX_PERIOD_S
    assert period in (events.PERIOD_S, events.MAX_PERIOD_S) or took_s / period <= 0.031
