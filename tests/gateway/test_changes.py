"""Requests that change something, by HTTP: who may make them, from where, and how large they may be."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.gateway.http_server import get, post, serve_http, until_closed
from tests.gateway.test_rights import ALL_NAMES, token

from headrace.gateway import Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.http.changes import CHANGES_MADE
from headrace.gateway.http.guard import MAX_BODY_BYTES
from headrace.gateway.rules import CHANGES, Right

FORGET = "/api/v1/pipelines/forget"


@pytest.fixture
def gateway() -> Gateway:
    """A gateway that knows a pipeline `p`."""
    gateway = Gateway(Limits())
    gateway.pipelines["p"] = Pipeline("p")
    return gateway


@pytest.fixture
async def address(gateway: Gateway) -> AsyncIterator[str]:
    async with serve_http(gateway) as address:
        yield address


def body_for(path: str) -> dict[str, Any]:
    """A body that is valid for a path, and names nothing that exists."""
    required = CHANGES_MADE[path].request.model_json_schema().get("required", [])
    return dict.fromkeys(required, "none/such")


def test_every_change_has_a_rule_and_every_rule_a_change() -> None:
    assert set(CHANGES) == set(CHANGES_MADE)


async def test_each_change_needs_its_rights_and_no_others() -> None:
    without = {f"without-{right.value}": {k: v for k, v in ALL_NAMES.items() if k != right.value} for right in Right}
    only = {f"only-{right.value}": {right.value: ALL_NAMES[right.value]} for right in Right}
    sets: dict[str, dict[str, Any]] = {**without, **only, "nothing": {}}
    async with serve_http(Gateway(Limits()), [token(name, **rights) for name, rights in sets.items()]) as address:
        for path, needed in CHANGES.items():
            assert needed, path
            for unknown in (None, "unknown"):
                assert (await post(address, path, body_for(path), unknown))[0] == 401
            for caller, rights in sets.items():
                code, _ = await post(address, path, body_for(path), caller)
                assert (code == 403) == (not {right.value for right in needed} <= rights.keys()), (path, caller)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Origin": "http://{address}"}, 200),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://{address}", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example", "Authorization": "Basic x"}, 403),
        ({"Origin": "https://evil.example", "Authorization": "Bearer any"}, 200),
    ],
)
async def test_a_page_of_another_origin_changes_nothing(
    gateway: Gateway, address: str, headers: dict[str, str], code: int
) -> None:
    sent = {name: value.replace("{address}", address) for name, value in headers.items()}
    assert (await post(address, FORGET, {"name": "p"}, headers=sent))[0] == code
    assert ("p" in gateway.pipelines) == (code == 403)


async def test_a_bearer_token_from_another_origin_still_needs_the_right() -> None:
    async with serve_http(Gateway(Limits()), [token("reader", admin=True)]) as address:
        for headers in ({}, {"Origin": "https://evil.example"}):
            code, answer = await post(address, FORGET, {"name": "p"}, "reader", headers=headers)
            assert code == 403
            assert "it has no control" in answer["detail"]


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application"]
)
async def test_a_form_changes_nothing(gateway: Gateway, address: str, media_type: str) -> None:
    code, _ = await get(address, FORGET, method="POST", data=b'{"name": "p"}', headers={"Content-Type": media_type})
    assert code == 415
    assert "p" in gateway.pipelines


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"p"', b"{}", b'{"name": 1}', b'{"name": "p", "all": true}', b'{"name": "p", "force": "no"}'],
)
async def test_a_body_that_is_not_what_the_path_takes_changes_nothing(gateway: Gateway, address: str, body: bytes) -> None:
    code, answer = await get(address, FORGET, method="POST", data=body, headers={"Content-Type": "application/json"})
    assert code == 400
    assert answer["detail"].startswith("the body is not valid")
    assert "p" in gateway.pipelines


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (f"content-length: {MAX_BODY_BYTES + 1}", 413),
        (f"content-length: {'9' * 1000}", 413),
        ("transfer-encoding: chunked", 411),
    ],
)
async def test_a_body_that_is_too_large_is_not_read(address: str, header: str, code: int) -> None:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(f"POST {FORGET} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{header}\r\n\r\n".encode())
    answer = await until_closed(reader)
    writer.close()
    # A length that is no number at all is refused by the parser itself.
    assert answer.startswith((f"HTTP/1.1 {code} ".encode(), b"HTTP/1.1 400 ")), answer


async def test_changes_answer_as_the_openapi_document_says(address: str) -> None:
    _, document = await get(address, "/api/v1/openapi.json")
    for name, code in (("p", 200), ("p", 404), ("", 400), ("x" * 1000, 400)):
        got, answer = await post(address, FORGET, {"name": name})
        assert got == code, answer
        ((_, content),) = document["paths"][FORGET]["post"]["responses"][str(code)]["content"].items()
        Draft202012Validator({**content["schema"], "components": document["components"]}).validate(answer)
    request = document["paths"][FORGET]["post"]["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator({**request, "components": document["components"]}).validate({"name": "p"})


async def test_other_methods_are_refused(gateway: Gateway, address: str) -> None:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        for path in CHANGES:
            assert (await get(address, path, method=method))[0] == 405
    assert "p" in gateway.pipelines
