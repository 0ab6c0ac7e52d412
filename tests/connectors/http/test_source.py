"""The webhook receiver, with a gateway in this process and real requests."""

import asyncio
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import ValidationError
from tests.connectors.http.raw import request
from tests.connectors.programs import free_port
from tests.connectors.query import querying
from tests.gateway.certificates import Authority
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

from headrace.connectors.http import HTTP, HttpParameters, HttpSource
from headrace.sdk import InvalidSource

# What becomes of a request


async def test_a_request_is_answered_once_it_is_in_the_checkpoint(rig):
    http = await rig()
    requests = [http.post(b"one"), http.post(b""), http.post(bytes(range(256)))]
    messages = await http.query.batch("hooks/0", 3)
    assert {message.value for message in messages} == {b"one", b"", bytes(range(256))}
    assert all(message.key is None and message.message_id is None and message.event_time for message in messages)
    assert not any(request.done() for request in requests)
    await http.query.commit()
    assert [(await request).status for request in requests] == [204, 204, 204]
    assert (await http.health())[1]["waiting_bytes"] == 0


async def test_a_request_is_answered_at_once_where_that_is_asked_for(rig):
    http = await rig(answer="received")
    assert await http.status(b"one") == 202
    assert await http.query.values("hooks/0", 1) == [b"one"]
    assert (await http.health())[1]["waiting_messages"] == 1
    await http.query.commit()
    await http.comes_to(waiting_messages=0)


async def test_a_mebibyte_arrives_and_more_is_refused(rig):
    http = await rig()
    body = bytes(range(256)) * 4096
    request = http.post(body)
    assert await http.query.values("hooks/0", 1) == [body]
    await http.query.commit()
    assert (await request).status == 204
    assert await http.status(body + b"x") == 413

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield bytes(65536)

    async with http.client.post(http.url(), data=pieces()) as response:
        assert (response.status, await response.text()) == (413, "a body may have at most 1048576 bytes")


async def test_headers_become_id_key_and_headers(rig):
    http = await rig(id_header="Idempotency-Key", key_header="X-Customer", headers=["X-Kind", ":path"], paths=["/a/b"])
    headers = [("Idempotency-Key", "id 1"), ("x-customer", "Zoë"), ("x-kind", "new"), ("x-kind", "big"), ("x-other", "no")]
    request = asyncio.create_task(http.client.post(http.url("/a/b"), data=b"v", headers=headers))
    (message,) = await http.query.batch("hooks/a.b", 1)
    assert (message.message_id, message.key) == ("id 1", "Zoë".encode())
    assert message.headers == [("X-Kind", b"new"), ("X-Kind", b"big"), (":path", b"/a/b")]
    await http.query.commit()
    await request
    async with http.client.post(http.url("/a/b"), data=b"v") as response:
        assert (response.status, await response.text()) == (400, "the header Idempotency-Key must contain the id of the message")


async def test_lines_become_messages_and_are_answered_together(rig):
    http = await rig(body="lines", id_header="Id", key_header="Key")
    request = http.post(b"one\r\n\ntwo\n three", Id="7", Key="k")
    messages = await http.query.batch("hooks/0", 3)
    found = [(message.value, message.message_id, message.key) for message in messages]
    assert found == [(b"one", "7/0", b"k"), (b"two", "7/1", b"k"), (b" three", "7/2", b"k")]
    assert not request.done()
    await http.query.commit()
    assert (await request).status == 204
    assert await http.status(b"\n", Id="8") == 204


async def test_paths_are_streams(rig):
    http = await rig(paths=["/orders", "/payments/eu"])
    requests = [http.post(b"order", "/orders"), http.post(b"payment", "/payments/eu")]
    assert await http.query.values("hooks/orders", 1) == [b"order"]
    assert await http.query.values("hooks/payments.eu", 1) == [b"payment"]
    await http.query.commit()
    assert [(await request).status for request in requests] == [204, 204]
    assert await http.status(b"", "/other") == 404
    async with http.client.get(http.url("/orders")) as response:
        assert response.status == 405


async def test_paths_may_share_a_stream(rig):
    http = await rig(paths=["/orders", "/payments"], streams="one", headers=[":path"])
    for path in ("/orders", "/payments"):
        request = http.post(b"v", path)
        (message,) = await http.query.batch("hooks/0", 1)
        assert message.headers == [(":path", path.encode())]
        await http.query.commit()
        await request


# Faults


async def test_what_a_lost_session_was_given_comes_again_while_its_client_waits(rig):
    http = await rig(id_header="Id")
    request = http.post(b"one", Id="1")
    assert await http.query.values("hooks/0", 1) == [b"one"]
    http.network.reset()
    http.network.refuse()
    later = http.post(b"two", Id="2")
    http.network.restore()
    again = await http.query.batch("hooks/0", 2)
    assert [(message.value, message.message_id) for message in again] == [(b"one", "1"), (b"two", "2")]
    assert not request.done()
    await http.query.commit()
    assert ((await request).status, (await later).status) == (204, 204)


async def test_a_client_that_has_gone_is_forgotten_unless_a_query_has_its_message(rig):
    http = await rig()
    gone = await http.raw(request(b"gone"))
    assert await http.query.values("hooks/0", 1) == [b"gone"]
    gone.reset()
    http.network.refuse()
    await http.comes_to(status="not read")
    left = await http.raw(request(b"left"))
    await http.comes_to(waiting_messages=2)
    left.reset()
    await http.comes_to(waiting_messages=1)
    stays = http.post(b"stays")
    http.network.restore()
    assert await http.query.values("hooks/0", 1) == [b"stays"]
    await http.query.commit()
    assert (await stays).status == 204
    assert (await http.health())[1]["waiting_messages"] == 0


async def test_too_many_that_wait_are_told_to_come_later(rig):
    http = await rig(max_waiting_messages=2, retry_after_seconds=7)
    requests = [http.post(b"one"), http.post(b"two")]
    assert len(await http.query.values("hooks/0", 2)) == 2
    async with http.client.post(http.url(), data=b"three") as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert (await http.health())[0] == 503
    await http.query.commit()
    assert [(await request).status for request in requests] == [204, 204]


async def test_too_many_bytes_that_wait_are_told_to_come_later(rig):
    http = await rig(max_waiting_bytes=1000)
    request = http.post(bytes(1000))
    await http.query.values("hooks/0", 1)
    assert await http.status(b"x") == 503
    await http.query.commit()
    await request


async def test_a_checkpoint_that_does_not_come_is_told(rig):
    http = await rig(answer_seconds=0.05)
    async with http.client.post(http.url(), data=b"one") as response:
        assert (response.status, await response.text()) == (503, "not in the checkpoint after 0.05 s")


async def test_health_tells_whether_queries_read_all_streams(rig):
    http = await rig(paths=["/a", "/b"], read="hooks/a")
    await http.comes_to(streams={"hooks/a": "read", "hooks/b": "not read"}, status="not read")
    assert (await http.health())[0] == 503


async def test_a_body_that_does_not_come_is_given_up(rig):
    http = await rig(receive_seconds=0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", http.source.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
    async with asyncio.timeout(DEADLINE_S):
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        assert (await reader.read()).endswith(b"the body took longer than 0.05 s")
    writer.close()


@pytest.mark.behaviour("http", "bytes that are no HTTP request", "answers 400, and ends that connection only")
@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"GET " + b"x" * 100_000]
)
async def test_what_is_no_request_ends_its_connection_only(rig, request_):
    http = await rig(answer="received")
    reader, writer = await asyncio.open_connection("127.0.0.1", http.source.port)
    writer.write(request_ + b"\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
    writer.close()
    assert await http.status(b"one") == 202


# Who may send


async def test_a_token_is_demanded(rig, caplog):
    http = await rig(token="s3cret", answer="received")
    assert await http.status(b"x") == 401
    assert await http.status(b"x", Authorization="Bearer wrong") == 401
    assert await http.status(b"x", Authorization="Basic s3cret") == 401
    assert await http.status(b"x", Authorization="Bearer s3cret") == 202
    await http.comes_to(status="ok")
    assert "s3cret" not in caplog.text


async def test_tls_with_certificates_of_clients(rig, tmp_path: Path):
    authority = Authority(tmp_path, "authority")
    server, client = authority.issue("server"), authority.issue("client")
    http = await rig(answer="received", tls_certificate=server.cert, tls_key=server.key, tls_client_ca=authority.cert)
    context = ssl.create_default_context(cafile=authority.cert)
    url = http.url().replace("http:", "https:").replace("127.0.0.1", "localhost")
    with pytest.raises(aiohttp.ClientError):
        await http.client.post(url, data=b"x", ssl=context)
    context.load_cert_chain(client.cert, client.key)
    async with http.client.post(url, data=b"x", ssl=context) as response:
        assert response.status == 202


# As a process


async def test_a_receiver_that_is_killed_loses_nothing_that_it_has_answered(tmp_path: Path):
    port = free_port()
    url = f"http://127.0.0.1:{port}/"

    async with gateway() as (_, address), querying(address, "hooks/*") as query, aiohttp.ClientSession() as client:

        async def start() -> asyncio.subprocess.Process:
            arguments = ("--listen", f"127.0.0.1:{port}", "--source", "hooks", "--id-header", "Id", "--gateway", address)
            command = [sys.executable, "-m", "headrace.cli", "connector", "run", "http", *arguments]
            return await asyncio.create_subprocess_exec(*command)

        async def send(number: int) -> None:
            """Sends until there is a 2xx answer, as a client does that wants to be sure."""
            while True:
                try:
                    async with client.post(url, data=b"%d" % number, headers={"Id": str(number)}) as response:
                        if response.ok:
                            return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)

        process = await start()
        senders = [asyncio.create_task(send(number)) for number in range(3)]
        first = await query.values("hooks/0", 3)
        process.kill()
        await process.wait()
        await query.until_alone()
        process = await start()
        again = await query.batch("hooks/0", 3)
        assert sorted(message.message_id or "" for message in again) == ["0", "1", "2"]
        assert not any(sender.done() for sender in senders)
        await query.commit()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*senders)
        assert sorted(first) == [b"0", b"1", b"2"]

        last = asyncio.create_task(send(3))
        assert await query.values("hooks/0", 1) == [b"3"]
        process.send_signal(signal.SIGTERM)
        await query.commit()
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
        await last


# What it can be told


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"listen": "8080"}, "write it as HOST:PORT"),
        ({"paths": ["orders"]}, "paths"),
        ({"paths": ["/a/b", "/a.b"]}, "/a/b and /a.b would be the same stream"),
        ({"paths": ["/a%20b"]}, "becomes the name of a stream"),
        ({"paths": ["/health"]}, "health_path is one of the paths"),
        ({"id_header": "no colon:"}, "id_header"),
        ({"tls_key": "k.pem"}, "tls_certificate and tls_key go together"),
        ({"tls_client_ca": "k.pem"}, "tls_client_ca needs"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValidationError, match=message):
        HttpParameters(source="hooks", **parameters)


async def test_a_port_that_is_taken_is_told(rig):
    http = await rig()
    parameters = HttpParameters(source="more", listen=f"127.0.0.1:{http.source.port}")
    with pytest.raises(InvalidSource, match=f"cannot listen on 127.0.0.1:{http.source.port}: Address already in use"):
        await HttpSource(parameters).partitions()
    assert HTTP.check is not None
    with pytest.raises(InvalidSource, match="set listen to another address"):
        HTTP.check(parameters)
    assert HTTP.check(HttpParameters(source="more", listen="127.0.0.1:0")) == "127.0.0.1:0 is free to listen on"


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path):
    parameters = HttpParameters(source="hooks", tls_certificate=tmp_path / "no.pem", tls_key=tmp_path / "no.key")
    with pytest.raises(InvalidSource, match=r"cannot use .*no\.pem"):
        parameters.tls()
