"""Signing in with a browser: what the cookie is, what it allows and until when, and that other sites cannot use it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.requests import Request
from tests.gateway.http_server import get, post, serve_http
from tests.gateway.test_rights import token
from tests.gateway.wire import DEADLINE_S
from yarl import URL

from headrace.gateway import Limits
from headrace.gateway.core import Gateway
from headrace.gateway.http import callers as known
from headrace.gateway.http import console
from headrace.gateway.http.callers import COOKIE, Callers
from headrace.gateway.identity import TokenRegistry, Unauthenticated

TOKENS = (token("seer", admin=True), token("operator", admin=True, control=True))
PAUSE = "/api/v1/pipelines/pause"

LINKS = {"links": {"prometheus": None, "spark": None}}


@asynccontextmanager
async def browser(address: str) -> AsyncIterator["Browser"]:
    """A client that keeps cookies, as browsers do also of addresses, and states where its requests come from."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as session:
        yield Browser(session, address)


class Browser:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.session, self._address = session, address

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(f"http://{self._address}{path}") as response:
            return response.status, await response.json(content_type=None)

    async def post(self, path: str, body: Any, site: str | None = "same-origin", **headers: str) -> tuple[int, str]:
        stated = {"Sec-Fetch-Site": site} if site else {}
        url = f"http://{self._address}{path}"
        async with self.session.post(url, json=body, headers={**stated, **headers}) as response:
            self.set_cookie = response.headers.get("set-cookie", "")
            return response.status, await response.text()


async def test_who_signs_in_has_the_rights_of_the_token_until_signing_out() -> None:
    async with serve_http(Gateway(Limits()), TOKENS) as address, browser(address) as page:
        assert await page.get("/api/v1/me") == (200, {"name": None, "rights": [], "tokens_needed": True})
        assert (await page.get("/api/v1/status"))[0] == 401
        assert (await page.post("/api/v1/sign-in", {"token": "seer"}))[0] == 204
        assert all(part in page.set_cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
        assert "seer" not in page.set_cookie
        assert await page.get("/api/v1/me") == (200, {"name": "seer", "rights": ["admin"], "tokens_needed": True, **LINKS})
        assert (await page.get("/api/v1/status"))[0] == 200
        assert (await page.post(PAUSE, {"name": "p"}))[0] == 403, "it has no right to change anything"
        assert (await page.post("/api/v1/sign-out", {}))[0] == 204
        assert (await page.get("/api/v1/status"))[0] == 401
        assert (await page.post("/api/v1/sign-out", {}))[0] == 204, "a second time changes nothing"


async def test_a_cookie_that_is_stale_made_up_or_signed_out_is_none() -> None:
    async with serve_http(Gateway(Limits()), TOKENS) as address, browser(address) as page:
        assert (await page.post("/api/v1/sign-in", {"token": "operator"}))[0] == 204
        first = page.set_cookie.partition(";")[0]
        assert (await page.post("/api/v1/sign-in", {"token": "operator"}))[0] == 204
        second = page.set_cookie.partition(";")[0]
        assert first != second
        for cookie in (first, second):
            assert (await get(address, "/api/v1/status", headers={"Cookie": cookie}))[0] == 200
        await page.post("/api/v1/sign-out", {})
        expected = {first: 200, second: 401, f"{COOKIE}=operator": 401, f"{COOKIE}=": 401, f"{COOKIE}={'x' * 4_000}": 401}
        for cookie, code in expected.items():
            assert (await get(address, "/api/v1/status", headers={"Cookie": cookie}))[0] == code, cookie[:80]
        # A bearer token goes before the cookie, so that a wrong one is not hidden.
        assert (await get(address, "/api/v1/status", "unknown", headers={"Cookie": first}))[0] == 401


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
async def test_a_page_of_another_site_changes_nothing_with_the_cookie(stated: dict[str, str], code: int) -> None:
    async with serve_http(Gateway(Limits()), TOKENS) as address, browser(address) as page:
        assert (await page.post("/api/v1/sign-in", {"token": "operator"}))[0] == 204
        assert (await page.post(PAUSE, {"name": "none"}, site=None, **stated))[0] == code
        assert (await page.post(PAUSE, {"name": "none"}, site=None, Origin=f"http://{address}"))[0] == 404
        if code == 403 and stated:
            for path, body in (("/api/v1/sign-in", {"token": "operator"}), ("/api/v1/sign-out", {})):
                if stated != {"Sec-Fetch-Site": "none"}:
                    assert (await page.post(path, body, site=None, **stated))[0] == 403
        assert (await page.get("/api/v1/status"))[0] == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"token": "unknown"}, 401),
        ({"token": ""}, 400),
        ({"token": "x" * 1_001}, 400),
        ({"token": "x" * 20_000}, 413),
        ({"token": 7}, 400),
        ({}, 400),
        ({"token": "seer", "more": 1}, 400),
        ([], 400),
    ],
)
async def test_what_is_no_token_signs_nobody_in(body: Any, code: int) -> None:
    async with serve_http(Gateway(Limits()), TOKENS) as address, browser(address) as page:
        status, text = await page.post("/api/v1/sign-in", body)
        assert (status, page.set_cookie) == (code, "")
        assert "unknown" not in text


async def test_without_tokens_everybody_has_all_rights_and_gets_no_cookie() -> None:
    async with serve_http(Gateway(Limits())) as address, browser(address) as page:
        everything = {"name": "anybody", "rights": ["admin", "control", "peek"], "tokens_needed": False, **LINKS}
        assert await page.get("/api/v1/me") == (200, everything)
        assert (await page.post("/api/v1/sign-in", {"token": "any"}))[0] == 204
        assert page.set_cookie == ""
        assert (await post(address, PAUSE, {"name": "none"}))[0] == 404, "a program needs no proof of where it comes from"


def request(cookie: str) -> Request:
    return Request({"type": "http", "headers": [(b"cookie", f"{COOKIE}={cookie}".encode())]})


def test_a_cookie_ends_after_its_time_and_with_its_token() -> None:
    now = [0.0]
    registry = TokenRegistry(TOKENS)
    callers = Callers(registry, lambda: now[0])
    early = callers.sign_in("seer")
    now[0] = known.SIGNED_IN_S - 1
    late = callers.sign_in("operator")
    assert callers.authenticate(request(early)).name == "seer"
    now[0] = known.SIGNED_IN_S + 1
    with pytest.raises(Unauthenticated, match="expired"):
        callers.authenticate(request(early))
    assert callers.authenticate(request(late)).control
    registry.replace([token("operator", admin=True)])
    with pytest.raises(Unauthenticated, match="revoked"):
        callers.authenticate(request(late))


def test_a_token_signs_in_a_limited_number_of_browsers_and_signs_out_none_of_another_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "MAX_SIGNED_IN", 2)
    callers = Callers(TokenRegistry(TOKENS))
    operator = callers.sign_in("operator")
    first, second, third = (callers.sign_in("seer") for _ in range(3))
    assert callers.authenticate(request(operator)).name == "operator"
    with pytest.raises(Unauthenticated):
        callers.authenticate(request(first))
    for cookie in (second, third):
        assert callers.authenticate(request(cookie)).name == "seer"


async def test_the_files_of_the_console_need_no_token_and_run_no_foreign_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "main-1f2e.js").write_text("1")
    (tmp_path / "secret").write_text("2")
    monkeypatch.setattr(console, "FILES", tmp_path)
    async with serve_http(Gateway(Limits()), TOKENS) as address, aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/") as page:
            assert (page.status, page.headers["cache-control"]) == (200, "no-cache")
            assert page.headers["content-security-policy"] == console.POLICY
            assert "unsafe" not in console.POLICY
        async with session.get(f"http://{address}/assets/main-1f2e.js") as asset:
            assert (asset.status, asset.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
            assert "javascript" in asset.headers["content-type"]
        for accepted, coding in {"gzip, br": "gzip", "identity": None, "gzip;q=0": None, "": None}.items():
            asking = {"accept-encoding": accepted}
            async with session.get(f"http://{address}/assets/main-1f2e.js", headers=asking) as asset:
                assert (asset.headers.get("content-encoding"), await asset.text()) == (coding, "1"), accepted
                assert asset.headers["vary"] == "accept-encoding"
        for path in ("/assets/none.js", "/assets/%2e%2e%2fsecret", "/assets/..%2fsecret", "/assets/"):
            async with session.get(URL(f"http://{address}{path}", encoded=True)) as missing:
                assert missing.status == 404, path
        assert (await get(address, "/", method="POST"))[0] == 405


async def test_the_page_has_the_browser_request_the_status_that_its_caller_may_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(console, "FILES", tmp_path)
    tokens = (*TOKENS, token("looker", peek=("*/*",)))
    wanted = "</api/v1/status>; rel=preload; as=fetch; crossorigin=anonymous"
    async with serve_http(Gateway(Limits()), tokens) as address:
        for name, link in {"seer": wanted, "looker": None, "wrong": None, "": None}.items():
            async with browser(address) as page:
                await page.post("/api/v1/sign-in", {"token": name or "none"})
                async with page.session.get(f"http://{address}/") as found:
                    assert (found.status, found.headers.get("link")) == (200, link), name
    # No tokens are needed.
    async with serve_http(Gateway(Limits())) as address, aiohttp.request("GET", f"http://{address}/") as found:
        assert found.headers["link"] == wanted


async def test_an_installation_without_a_console_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FILES", tmp_path / "none")
    async with serve_http(Gateway(Limits())) as address:
        code, answer = await get(address, "/")
        assert (code, "no console" in answer["detail"]) == (404, True)
        assert "make console" in answer["detail"]
