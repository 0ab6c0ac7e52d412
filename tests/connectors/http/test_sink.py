"""The HTTP sink, with a real receiver."""

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from pydantic import ValidationError
from tests.connectors.http.receiver import Receiver, receiving
from tests.gateway.certificates import Authority
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

from headrace.connectors.http import HTTP_SINK, Denied, HttpSink, HttpSinkParameters, Unavailable
from headrace.connectors.http._sending import Sending, retry_after
from headrace.sdk import WRITTEN, InvalidSink, Message, Part, Refused, Rows, Transaction, serve

PART = Part(Transaction("totals", 7), 3, "a")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def sink(receiver: Receiver, **parameters: object) -> HttpSink:
    told = {"url": receiver.url, "sink": "alerts", "max_backoff_seconds": 0.05, **parameters}
    return HttpSink(HttpSinkParameters.model_validate(told))


def rows(*values: bytes | None, first: int = 0) -> Rows:
    return Rows.of(*(Message(value) for value in values), first=first, part=PART)


# What is sent


async def test_each_message_is_a_request_in_order(receiver):
    out = sink(receiver)
    assert await out.write(rows(b"one", b"", bytes(range(256)))) is None
    assert await out.write(rows(b"two", first=3)) is None
    assert receiver.bodies == [b"one", b"", bytes(range(256)), b"two"]
    assert receiver.keys() == ["totals/7/3/0", "totals/7/3/1", "totals/7/3/2", "totals/7/3/3"]
    assert {request.method for request in receiver.requests} == {"POST"}
    assert {request.headers["Content-Type"] for request in receiver.requests} == {"application/octet-stream"}


async def test_a_large_message_is_sent_whole(receiver):
    body = bytes(range(256)) * 8192
    await sink(receiver).write(rows(body))
    assert receiver.bodies == [body]


async def test_method_and_headers_are_as_told(receiver):
    out = sink(
        receiver,
        url=f"{receiver.url}?a=b",
        method="PUT",
        headers={"content-type": "text/plain", "X-One": "1"},
        secret_headers={"X-Api-Key": "k3y"},
        token="t0ken",
        idempotency_header="Request-Id",
    )
    await out.write(rows(b"one"))
    (request,) = receiver.requests
    assert (request.method, request.path) == ("PUT", "/in?a=b")
    expected = {"Content-Type": "text/plain", "X-One": "1", "X-Api-Key": "k3y", "Authorization": "Bearer t0ken"}
    assert {name: request.headers.getall(name) for name in expected} == {name: [value] for name, value in expected.items()}
    assert request.headers["Request-Id"] == "totals/7/3/0"
    assert "Idempotency-Key" not in request.headers


async def test_key_id_and_headers_of_a_message_can_be_carried(receiver):
    out = sink(receiver, key_header="X-Key", id_header="X-Id", carry_headers=["kind"])
    headers = [("kind", b"new"), ("other", b"x"), ("kind", "größer".encode()), ("kind", None)]
    await out.write(Rows.of(Message(b"v", "schlüssel".encode(), message_id="m1", headers=headers), Message(b"w")))
    first, second = receiver.requests
    assert (first.headers["X-Key"], first.headers["X-Id"]) == ("schlüssel", "m1")
    assert first.headers.getall("kind") == ["new", "größer"]
    assert not {"X-Key", "X-Id", "kind"} & set(second.headers)


async def test_many_values_are_a_json_array(receiver):
    out = sink(receiver, batch="json-array", batch_messages=3)
    outcomes = await out.write(rows(b'{"a":1}', b"2", None, b"not json", b'"x\\ny"', b"NaN"))
    assert [json.loads(body) for body in receiver.bodies] == [[{"a": 1}, 2, None], ["x\ny"]]
    assert receiver.keys() == ["totals/7/3/0-2", "totals/7/3/4-4"]
    assert {request.headers["Content-Type"] for request in receiver.requests} == {"application/json"}
    assert [index for index, outcome in enumerate(outcomes) if outcome != WRITTEN] == [3, 5]
    assert outcomes[3].reason.startswith("its value is not JSON: ")


async def test_many_values_are_lines_of_json(receiver):
    out = sink(receiver, batch="ndjson", batch_bytes=12)
    assert await out.write(rows(b'{"a":\n1}', b"2", b"3", b'"a value that is too long"', b"4")) is None
    assert [body.splitlines() for body in receiver.bodies] == [
        [b'{"a": 1}', b"2", b"3"],
        [b'"a value that is too long"'],
        [b"4"],
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(None), "it has no value"),
        (Message(b"v", b"\xff"), "its header X-Key would contain bytes"),
        (Message(b"v", b"a\r\nX-Evil: 1"), "its header X-Key would contain bytes"),
        (Message(b"v", message_id="a\n"), "its header X-Id would contain bytes"),
    ],
)
async def test_what_no_request_can_say_is_refused(receiver, message, reason):
    out = sink(receiver, key_header="X-Key", id_header="X-Id")
    outcomes = await out.write(Rows.of(Message(b"good"), message))
    assert outcomes[0] == WRITTEN
    assert outcomes[1].reason.startswith(reason)
    assert receiver.bodies == [b"good"]


# Order and concurrency


async def test_some_requests_at_a_time_keep_the_order_of_each_key(receiver):
    receiver.hold = asyncio.Event()
    out = sink(receiver, concurrency=4)
    keys = [b"a", b"b", b"c", b"d", b"e"]
    messages = [Message(b"%s%d" % (key, n), key) for n in range(5) for key in keys] + [Message(b"-")] * 5
    writing = asyncio.create_task(out.write(Rows.of(*messages)))
    async with asyncio.timeout(DEADLINE_S):
        while receiver.busy < 4:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.002)
    receiver.hold.set()
    await writing
    assert receiver.most_busy == 4
    for key in keys:
        assert [body for body in receiver.bodies if body.startswith(key)] == [b"%s%d" % (key, n) for n in range(5)]
    assert len(receiver.bodies) == 30


async def test_a_failure_of_one_stops_all(receiver):
    receiver.answer = lambda request: 401 if request.body == b"bad" else 204
    with pytest.raises(Denied):
        await sink(receiver, concurrency=8).write(Rows.of(*[Message(b"good"), Message(b"bad")] * 4))


# Answers


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 0])
async def test_what_may_pass_is_tried_again(receiver, status):
    receiver.answers(status, status)
    assert await sink(receiver).write(rows(b"one", b"two")) is None
    assert receiver.bodies == [b"one", b"one", b"one", b"two"]
    assert receiver.keys()[:3] == ["totals/7/3/0"] * 3


@pytest.mark.parametrize("status", [400, 409, 410, 413, 415, 422, 431])
async def test_what_will_never_be_taken_is_refused(receiver, status):
    receiver.answers(204, web.Response(status=status, text="no\n\x00 such " + "thing " * 100))
    outcomes = await sink(receiver).write(rows(b"one", b"two", b"three"))
    assert (outcomes[0], outcomes[2]) == (WRITTEN, WRITTEN)
    assert f"was answered {status} " in outcomes[1].reason
    assert ": no such thing" in outcomes[1].reason
    assert len(outcomes[1].reason) < 400


async def test_a_batch_that_is_refused_is_divided(receiver):
    receiver.answer = lambda request: 422 if b"6" in request.body or b"3" in request.body else 200
    out = sink(receiver, batch="json-array", batch_messages=8)
    outcomes = await out.write(rows(*(b"%d" % n for n in range(8))))
    assert [index for index, outcome in enumerate(outcomes) if isinstance(outcome, Refused)] == [3, 6]
    taken = [n for body in receiver.bodies if not {b"3"[0], b"6"[0]} & set(body) for n in json.loads(body)]
    assert taken == [0, 1, 2, 4, 5, 7]


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "set token"), (403, "token"), (404, "check url"), (405, "check url and method")]
)
async def test_what_is_wrong_with_every_request_is_an_error_that_says_what_to_do(receiver, status, advice):
    receiver.answer = lambda request: status
    with pytest.raises(Denied, match=f"POST {receiver.url} was answered {status} .*{advice}"):
        await sink(receiver, url=f"{receiver.url}?secret=x").write(rows(b"one"))
    assert len(receiver.requests) == 1


@pytest.mark.behaviour("http", "a redirection", "fails the batch, and names the target")
async def test_a_redirection_is_an_error_that_says_where_to(receiver):
    receiver.answers(web.Response(status=308, headers={"Location": "https://elsewhere/"}))
    with pytest.raises(Denied, match="308 Permanent Redirect; set url to https://elsewhere/"):
        await sink(receiver).write(rows(b"one"))


async def test_a_receiver_that_wants_time_is_given_it(receiver):
    receiver.answers(web.Response(status=503, headers={"Retry-After": "1"}))
    began = asyncio.get_running_loop().time()
    assert await sink(receiver).write(rows(b"one")) is None
    assert asyncio.get_running_loop().time() - began >= 1.0


async def test_one_that_wants_more_time_than_there_is_fails_at_once(receiver):
    receiver.answers(web.Response(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(
        Unavailable, match=r"429 Too Many Requests \(1 try\); gave up, since retry_seconds is [0-9.]+ s: raise it"
    ):
        await sink(receiver).write(rows(b"one"))


async def test_one_that_stays_away_is_an_error_in_the_end(receiver, network):
    net = network(int(receiver.url.rpartition(":")[2].partition("/")[0]))
    net.refuse()
    out = sink(receiver, url=f"http://{net.address}/in", retry_seconds=0.3)
    with pytest.raises(Unavailable, match=f"POST http://{net.address}/in: ClientConnectorError: .*gave up, since"):
        await out.write(rows(b"one"))
    net.restore()
    assert await out.write(rows(b"one")) is None


async def test_a_network_that_is_cut_is_waited_for(receiver, network, caplog):
    net = network(int(receiver.url.rpartition(":")[2].partition("/")[0]))
    out = sink(receiver, url=f"http://{net.address}/in", timeout_seconds=0.2)
    await out.write(rows(b"zero"))
    net.cut()
    writing = asyncio.create_task(out.write(rows(b"one")))
    async with asyncio.timeout(DEADLINE_S):
        while "no response in time; retrying" not in caplog.text:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)
    net.restore()
    assert await writing is None
    assert set(receiver.bodies) == {b"zero", b"one"}


def test_times_to_come_back_at():
    assert retry_after(None) is None
    assert retry_after(" 7 ") == 7.0
    assert retry_after("soon") is None
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 95 < (retry_after(later) or 0) <= 100
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


# With a gateway


async def test_a_query_writes_and_what_spark_delivers_again_has_the_same_ids(receiver):
    async with gateway() as (_, address):
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(sink(receiver, sink="out"), gateway=address, stop=stop))
        writer = Writer(address)
        await writer.report_commits()
        receiver.answers(204, 403)
        with pytest.raises(Exception, match=r"Denied: POST .* was answered 403 Forbidden"):
            await writer.deliver(0, [b"a", b"b"])
        await writer.deliver(0, [b"a", b"b"], attempt="again")
        await writer.vote(0, writer.part(0, attempt="again"))
        assert receiver.bodies == [b"a", b"b", b"a", b"b"]
        assert receiver.keys() == ["query/0/0/0", "query/0/0/1"] * 2
        receiver.answers(400)
        told = await writer.deliver(1, [b"bad", b"good"])
        assert [refused.sequence for refused in told.refused] == [0]
        await writer.close()
        stop.set()
        await serving


async def test_it_ends_in_good_order_when_it_is_told_to(receiver):
    async with gateway() as (_, address):
        arguments = ("--url", receiver.url, "--sink", "out", "--secret-headers", "X-Key=k3y", "--gateway", address)
        command = [sys.executable, "-m", "headrace.cli", "connector", "run", "http-sink", *arguments]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        writer = Writer(address)
        await writer.deliver(0, [b"a"])
        assert receiver.requests[0].headers["X-Key"] == "k3y"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            assert await process.communicate() == (None, b"")
        assert process.returncode == 0
        await writer.close()


# What it can be told


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"url": "ftp://host/"}, "write it as http://HOST/PATH"),
        ({"url": "http://user:secret@host/"}, "remove user and password, which would be shown"),
        ({"headers": {"X": "a\nb"}}, "the value of X contains a control character"),
        ({"token": "secret\n"}, "a secret contains a control character"),
        ({"batch": "ndjson", "key_header": "X"}, "require batch = message"),
        ({"headers": {"a b": "c"}}, "headers"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValidationError, match=message) as error:
        HttpSinkParameters.model_validate({"url": "http://host/", "sink": "alerts", **parameters})
    assert "secret\n" not in str(error.value)
    assert "user:secret" not in str(error.value)


async def test_check_asks_the_receiver(receiver):
    assert HTTP_SINK.check is not None

    def check(**parameters: object) -> str:
        told = {"url": receiver.url, "sink": "alerts", **parameters}
        return HTTP_SINK.check(HttpSinkParameters.model_validate(told))

    receiver.answers(405, 401)
    assert await asyncio.to_thread(check) == f"{receiver.url} answers (HEAD: 405 Method Not Allowed)"
    assert receiver.requests[0].method == "HEAD"
    with pytest.raises(Denied, match=r"HEAD .* was answered 401 Unauthorized; set token"):
        await asyncio.to_thread(check)
    with pytest.raises(Unavailable, match="ClientConnectorError"):
        await asyncio.to_thread(check, url="http://127.0.0.1:1/")


def test_certificates_that_cannot_be_read_are_told(tmp_path):
    parameters = HttpSinkParameters(url="https://host/", sink="alerts", tls_ca=tmp_path / "no.pem")
    with pytest.raises(InvalidSink, match=r"tls_ca: cannot use .*no\.pem"):
        HttpSink(parameters)


# Proxies


@pytest.fixture
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_requests_go_through_the_proxy_of_the_environment(receiver, no_proxies, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", receiver.url.removesuffix("/in"))
    out = HttpSink(HttpSinkParameters(url="http://service.invalid/in", sink="alerts"))
    assert await out.write(rows(b"one")) is None
    assert receiver.requests[0].headers["Host"] == "service.invalid"
    monkeypatch.setenv("NO_PROXY", "service.invalid")
    direct = HttpSink(HttpSinkParameters(url="http://service.invalid/in", sink="alerts", retry_seconds=0))
    with pytest.raises(Unavailable, match=r"service\.invalid"):
        await direct.write(rows(b"two"))
    assert receiver.bodies == [b"one"]


@pytest.mark.parametrize("proxy", [None, "none"])
async def test_loopback_addresses_and_none_go_through_no_proxy(receiver, no_proxies, monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await sink(receiver, proxy=proxy).write(rows(b"one")) is None
    assert receiver.bodies == [b"one"]


async def test_a_proxy_by_parameter_is_used_for_loopback_addresses_too(receiver, no_proxies):
    proxy = receiver.url.removesuffix("/in").replace("://", "://me:s3cret@")
    assert await sink(receiver, url="http://127.0.0.1:1/in", proxy=proxy).write(rows(b"one")) is None
    assert receiver.requests[0].headers["Proxy-Authorization"].startswith("Basic ")


@pytest.mark.parametrize("url", ["http://service.invalid/in", "https://service.invalid/in"])
async def test_errors_name_the_proxy_without_its_password(no_proxies, monkeypatch, url):
    monkeypatch.setenv("ALL_PROXY", "http://me:s3cret@127.0.0.1:1")
    out = HttpSink(HttpSinkParameters(url=url, sink="alerts", retry_seconds=0))
    with pytest.raises(Unavailable, match=r"through the proxy http://127.0.0.1:1 \(ALL_PROXY\)") as raised:
        await out.write(rows(b"one"))
    assert "s3cret" not in str(raised.value)


async def test_a_proxy_that_wants_a_password_is_named(receiver, no_proxies):
    receiver.answers(407)
    out = sink(receiver, url="http://service.invalid/in", proxy=receiver.url.removesuffix("/in"))
    with pytest.raises(Denied, match=r"through the proxy .* \(proxy\) was answered 407 .*set proxy to its URL with user"):
        await out.write(rows(b"one"))


@pytest.mark.parametrize("wrong", ["socks5://127.0.0.1:1", "http://", "http://host:port"])
def test_a_proxy_of_another_kind_is_refused(no_proxies, monkeypatch, wrong):
    monkeypatch.setenv("ALL_PROXY", wrong)
    parameters = HttpSinkParameters(url="http://service.invalid/in", sink="alerts")
    with pytest.raises(InvalidSink, match="ALL_PROXY names a proxy that http-sink cannot use: want http://HOST:PORT"):
        HttpSink(parameters)


# Certificates


@pytest.mark.behaviour("http", "a file of `tls_ca` that is replaced", "trusts it with new connections")
async def test_new_connections_trust_the_new_authorities(tmp_path):
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    servers = {authority: authority.issue(f"server-{authority.cert.stem}") for authority in (first, second)}
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(first.cert.read_bytes())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async def written_to(authority: Authority) -> bool:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(servers[authority].cert, servers[authority].key)
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            parameters = HttpSinkParameters(url=f"https://localhost:{port}/", sink="s", tls_ca=trusted, retry_seconds=0)
            shared._sending, shared._parameters = Sending(parameters, None), parameters
            try:
                return await shared.write(rows(b"one")) is None
            except Unavailable:
                return False

    shared = HttpSink(HttpSinkParameters(url="https://localhost:1/", sink="s", tls_ca=trusted, retry_seconds=0))
    assert (await written_to(first), await written_to(second)) == (True, False)
    trusted.write_bytes(second.cert.read_bytes())
    assert (await written_to(first), await written_to(second)) == (False, True)
