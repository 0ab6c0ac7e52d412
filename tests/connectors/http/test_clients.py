"""What becomes of clients of the receiver that are slow, silent, half-closed, or too many."""

import asyncio
import ssl
from pathlib import Path

import pytest
from tests.connectors.http.raw import request
from tests.gateway.certificates import Authority
from tests.gateway.wire import DEADLINE_S

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def committed(http, count: int = 1) -> list[bytes | None]:
    values = await http.query.values("hooks/0", count)
    await http.query.commit()
    return values


def with_tls(folder: Path) -> tuple[dict[str, object], ssl.SSLContext]:
    """The parameters of a receiver with TLS, and the context of a client."""
    authority = Authority(folder, "authority")
    pair = authority.issue("server")
    return {"tls_certificate": pair.cert, "tls_key": pair.key}, ssl.create_default_context(cafile=authority.cert)


# A client that ends its sending side


@pytest.mark.behaviour("http", "a client that closes its sending side", "answers once its message is committed")
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(("answer", "status"), [("committed", b"204"), ("received", b"202")])
async def test_a_client_that_ends_its_sending_side_gets_its_answer(rig, tmp_path, encrypted, answer, status):
    parameters, tls = with_tls(tmp_path) if encrypted else ({}, None)
    http = await rig(answer=answer, **parameters)
    client = await http.raw(request(b"one"), tls)
    await client.end_sending()
    assert await committed(http) == [b"one"]
    assert (await client.received()).startswith(b"HTTP/1.1 " + status)


async def test_all_requests_before_the_end_of_sending_are_answered(rig):
    http = await rig(answer="received")
    client = await http.raw(request(b"one") + request(b"two") + request(b"three"))
    await client.end_sending()
    assert (await client.received()).count(b"HTTP/1.1 202 ") == 3
    assert await committed(http, 3) == [b"one", b"two", b"three"]


@pytest.mark.behaviour("http", "a client that closes its sending side within a request", "closes the connection")
@pytest.mark.parametrize("sent", [b"", HEAD, request(b"whole")[:-1], HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhal"])
async def test_a_request_that_can_no_longer_be_complete_ends_its_connection(rig, sent):
    http = await rig(answer="received", head_seconds=600, receive_seconds=600)
    client = await http.raw(sent)
    await client.end_sending()
    assert b" 20" not in await client.received()
    await http.comes_to(waiting_messages=0, waiting_bytes=0)


# Clients that are slow


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"X: " + b"y" * 7000])
async def test_a_head_that_does_not_end_ends_its_connection(rig, sent):
    http = await rig(answer="received", head_seconds=0.1)
    client = await http.raw(sent)
    found = await client.received()
    assert found.startswith(b"HTTP/1.1 408 ") if sent else found == b""
    assert await http.status(b"ordinary") == 202


async def test_a_head_that_comes_byte_by_byte_has_no_more_time(rig):
    http = await rig(answer="received", head_seconds=0.5)
    client = await http.raw(HEAD)

    async def drip() -> None:
        for _ in range(10_000):
            await client.send(b"X: y\r\n")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    assert (await client.received()).startswith(b"HTTP/1.1 408 ")
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)


async def test_a_next_head_has_its_time_too(rig):
    http = await rig(answer="received", head_seconds=0.5, idle_seconds=600)
    client = await http.raw(request(b"one"))
    assert (await client.received(12)) == b"HTTP/1.1 202"
    await client.send(HEAD)
    assert b"HTTP/1.1 408 " in await client.received()


async def test_a_connection_that_is_idle_after_an_answer_ends(rig):
    http = await rig(answer="received", head_seconds=600, idle_seconds=0.1)
    client = await http.raw(request(b"one"))
    assert (await client.received()).startswith(b"HTTP/1.1 202 ")


@pytest.mark.behaviour("http", "bodies that do not end, until no room is left", "answers the oldest 503, after a second at least")
@pytest.mark.parametrize(
    "declared", [b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", b"Content-Length: 1000\r\n\r\n" + b"a" * 999]
)
async def test_bodies_that_do_not_end_keep_nobody_away(rig, declared):
    http = await rig(answer="received", max_waiting_messages=8, max_waiting_bytes=8_000, receive_seconds=600)
    held = [await http.raw(HEAD + declared) for _ in range(8)]
    await http.comes_to(waiting_messages=8)
    async with asyncio.timeout(DEADLINE_S):
        # Until they have had a second.
        while await http.status(b"ordinary") != 202:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.05)
    assert (await held[0].received()).startswith(b"HTTP/1.1 503 ")
    assert b"ordinary" in await committed(http)


async def test_a_body_takes_the_room_that_has_arrived_of_it(rig):
    http = await rig(answer="received", max_waiting_bytes=1_000_000)
    client = await http.raw(HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 500)
    await http.comes_to(waiting_messages=1, waiting_bytes=500)
    client.reset()
    await http.comes_to(waiting_messages=0, waiting_bytes=0)


async def test_a_body_that_is_larger_than_the_room_is_accepted_alone(rig):
    http = await rig(answer="received", max_waiting_bytes=1000)
    assert await http.status(b"x" * 500_000) == 202
    assert await committed(http) == [b"x" * 500_000]


@pytest.mark.parametrize("body", [b"zz\r\nabc\r\n0\r\n\r\n", b"3\r\nabcdefg\r\n0\r\n\r\n"])
async def test_a_body_in_wrong_chunks_is_answered_as_such(rig, caplog, body):
    http = await rig(answer="received")
    client = await http.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert b" 400 " in (await client.received()).split(b"\r\n")[0]
    assert "Traceback" not in caplog.text
    assert await http.status(b"ordinary") == 202


# Clients that are many


async def test_the_connection_that_waits_longest_makes_room(rig):
    http = await rig(answer="received", max_connections=3, head_seconds=600)
    first, second = await http.raw(HEAD), await http.raw(HEAD)
    third = await http.raw(HEAD)
    client = await http.raw(request(b"one"))
    assert (await first.received()).startswith(b"HTTP/1.1 408 ")
    assert (await client.received(12)) == b"HTTP/1.1 202"
    for each in (second, third):
        each.close()


async def test_a_request_in_progress_makes_no_room(rig, caplog):
    http = await rig(max_connections=2)
    waiting = [await http.raw(request(b"%d" % number)) for number in range(2)]
    assert len(await http.query.values("hooks/0", 2)) == 2
    late = await http.raw(b"")
    assert await late.received() == b""
    assert "2 clients are already connected (max_connections)" in caplog.text
    await http.query.commit()
    for each in waiting:
        assert await each.received(12) == b"HTTP/1.1 204"


@pytest.mark.behaviour("http", "clients that do not begin TLS", "closes them after 10 s, or for another client")
async def test_clients_that_do_not_begin_tls_make_room(rig, tmp_path):
    parameters, tls = with_tls(tmp_path)
    http = await rig(answer="received", max_connections=2, **parameters)
    silent = [await http.raw(b"") for _ in range(2)]
    client = await http.raw(request(b"one"), tls)
    assert await client.received(12) == b"HTTP/1.1 202"
    assert await silent[0].received() == b""
