"""For whom a request is meant and from where it comes: no Host and no Origin is taken for another one, and none is an error."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message
from tests.gateway.http_server import get, post, serve_http
from tests.gateway.test_rights import token

from headrace.gateway import Http, Limits
from headrace.gateway.core import Gateway
from headrace.gateway.http import new_app
from headrace.gateway.http.guard import host_of, is_own_name, is_same_origin
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.rules import CHANGES, EVENTS, ME, PATHS, SIGN_IN, SIGN_OUT

PAUSE = "/api/v1/pipelines/pause"
OWN = ["localhost", "LocalHost:7434", "127.0.0.1", "127.0.0.1:80", "127.255.0.9", "[::1]", "[::1]:7434"]
OTHER = ["rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example", "localhost.", "0.0.0.0", "[::]", "10.0.0.1"]
MALFORMED = [
    *(f"a{character}b.rebound.example" for character in "{}`\"'<>|^\\%,;!$&()*+=~@#?/ \t\x7f\xa0\xff"),
    *(
        "",
        ":",
        ":80",
        "localhost:",
        "localhost:x",
        "localhost:123456",
        "localhost:80:80",
        "user@localhost",
        "localhost/",
        "[",
        "]",
    ),
    *(
        "[::1",
        "::1",
        "[::1]x",
        "[localhost]",
        "..",
        ".localhost",
        "-a.example",
        "localhost,rebound.example",
        "l" * 64,
        "a." * 200,
    ),
]


@pytest.mark.parametrize("host", OWN)
def test_the_names_of_this_machine_are_its_own(host: str) -> None:
    found = host_of([host])
    assert found is not None
    assert is_own_name(found)


@pytest.mark.parametrize("host", OTHER)
def test_the_names_of_others_are_not(host: str) -> None:
    found = host_of([host])
    assert found is not None
    assert not is_own_name(found)


@pytest.mark.parametrize("host", MALFORMED)
def test_what_is_no_host_names_nobody(host: str) -> None:
    found = host_of([host])
    assert found is None or not is_own_name(found)
    assert host_of([host, "localhost"]) is None


@given(st.text(st.characters(max_codepoint=255), max_size=20), st.sampled_from(OWN), st.text(":@[]./\\ {}\x00", max_size=3))
def test_what_is_added_to_an_own_name_makes_another_one_or_none(more: str, own: str, joint: str) -> None:
    for host in (more + joint + own, own + joint + more):
        found = host_of([host])
        if found is not None and is_own_name(found):
            assert host.lower().split(":")[0] in ("localhost", "[") or host.startswith("127.") or host.startswith("[::")


def test_an_origin_is_the_same_if_it_names_the_host_whole() -> None:
    for origin in ("http://localhost:7434", "https://localhost:7434", "HTTP://LOCALHOST:7434"):
        assert is_same_origin(origin, ["localhost:7434"])
    for origin in (
        "null",
        "",
        "http://",
        "http://[",
        "http://localhost",
        "http://localhost:7434/",
        "http://x@localhost:7434",
        "ftp://localhost:7434",
    ):
        assert not is_same_origin(origin, ["localhost:7434"])
    assert not is_same_origin("http://{", ["{"])


@pytest.mark.parametrize("origin", ["http://[", "http://]:1", "http://[::1", "//", "http://\xff", "http://localhost:x", "null"])
async def test_a_malformed_origin_is_refused(origin: str) -> None:
    async with serve_http(Gateway(Limits()), [token("operator", admin=True)]) as address:
        for path in (PAUSE, SIGN_IN, SIGN_OUT):
            status, document = await post(address, path, {}, headers={"Origin": origin})
            assert (status, document["status"]) == (403, 403), path


@pytest.mark.parametrize("host", ["a{b}.rebound.example", 'a"b.rebound.example', "localhost@rebound.example", "a`b"])
async def test_a_host_that_a_browser_accepts_and_a_parser_does_not_is_refused(host: str) -> None:
    async with serve_http(Gateway(Limits())) as address:
        for path in ("/healthz", "/api/v1/status"):
            assert (await get(address, path, headers={"Host": host}))[0] == 400
        status, _ = await post(address, PAUSE, {"name": "p"}, headers={"Host": host, "Origin": f"http://{host}"})
        assert status == 400


# Every path

_PATHS = sorted({*PATHS, *CHANGES, EVENTS, ME, SIGN_IN, SIGN_OUT, "/", "/none", "//", "/%00"} - {EVENTS})
_NAMES = (
    "host",
    "origin",
    "authorization",
    "cookie",
    "content-type",
    "accept",
    "sec-fetch-site",
    "content-length",
    "if-none-match",
)
_ODD = (*OWN, *OTHER, *MALFORMED, "http://[", "null", "Bearer", "Bearer \xff", "application/json", "9" * 5_000)
_texts = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\x00"), max_size=40)
_headers = st.lists(st.tuples(st.sampled_from(_NAMES), st.one_of(_texts, st.sampled_from(_ODD))), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "OPTIONS"]),
    path=st.sampled_from(_PATHS),
    headers=_headers,
    body=st.binary(max_size=50),
    # h11 lets nothing else into a request's target.
    query=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20).map(str.encode),
)
def test_no_request_is_an_error_of_the_server(
    method: str, path: str, headers: list[tuple[str, str]], body: bytes, query: bytes
) -> None:
    status = asyncio.run(_answer(method, path, headers, body, query))
    assert status < 500 or (path == "/readyz" and status == 503), (method, path, headers)


async def _answer(method: str, path: str, headers: list[tuple[str, str]], body: bytes, query: bytes) -> int:
    """The status of the answer to a request, as uvicorn would hand it to the application."""
    registry = TokenRegistry([token("operator", admin=True, control=True)])
    app = new_app(Gateway(Limits()), registry, Http(), "127.0.0.1:7433", loopback=True)
    statuses = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7434),
        "state": {},
    }
    await app(scope, receive, send)
    (status,) = statuses
    return status
