"""The API: who may ask for what, that it says what AdminService says, and that its OpenAPI document is true."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import sink_and_source, stage_and_vote
from tests.gateway.test_rights import ALL_NAMES, token
from tests.gateway.wire import Connector, Engine, numbered, serve

from headrace.contract.limits import MAX_SEQUENCE
from headrace.gateway import Limits, observer
from headrace.gateway.core import Gateway
from headrace.gateway.rules import CHANGES, DEAD_LETTERS, EVENTS, ME, PATHS, PEEK, SIGN_IN, SIGN_OUT, Right
from headrace.gateway_status import status_document

OTHERS: dict[str, set[Right]] = {PEEK: {Right.PEEK}, DEAD_LETTERS: {Right.PEEK}, "/api/v1/openapi.json": set()}
"""The paths of the API that do not need the right `admin`, and what they need."""
READ_AT_ONCE = [path for path in PATHS if path not in (EVENTS, PEEK)]
"""The paths whose answers end; `test_events.py` and `test_peeking.py` have the others."""
ADMIN_PATHS = [path for path in PATHS if path == "/metrics" or (path.startswith("/api/") and path not in OTHERS)]
LISTS = {
    "streams": "streams",
    "sessions": "sessions",
    "pipelines": "pipelines",
    "sinks": "sinks",
    "sink-sessions": "sink_sessions",
}


def named(path: str) -> str:
    """The path of a part that does not exist, or the path itself."""
    query = {"/api/v1/unacknowledged": "?stream=none/such&sequence=1"}
    return path.replace("{name:path}", "none/such") + query.get(path, "")


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Engine]]:
    """A gateway that has one of everything, and the client of its AdminService."""
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with (
        serve() as (gateway, address),
        serve_http(gateway) as http,
        sink_and_source(address) as (sink, writer, source, reader),
    ):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        await stage_and_vote(sink, writer, 0)
        yield http, reader


async def test_each_path_needs_its_rights_and_no_others() -> None:
    without = {f"without-{right.value}": {k: v for k, v in ALL_NAMES.items() if k != right.value} for right in Right}
    only = {f"only-{right.value}": {right.value: ALL_NAMES[right.value]} for right in Right}
    sets: dict[str, dict[str, Any]] = {**without, **only, "nothing": {}, "everything": ALL_NAMES}
    tokens = [token(name, **rights) for name, rights in sets.items()]
    async with serve_http(Gateway(Limits()), tokens) as address:
        for path, needed in PATHS.items():
            if path == EVENTS:
                continue
            assert needed == ({Right.ADMINISTER} if path in ADMIN_PATHS else OTHERS.get(path, set())), path
            lacking = f"does not allow {path}: it has no {' '.join(right.value for right in needed)}"
            for caller in (None, "unknown"):
                code, answer = await get(address, named(path), caller)
                assert (code == 401) == bool(needed), path
                assert code != 401 or "token" in answer["detail"]
            for caller, rights in sets.items():
                code, answer = await get(address, named(path), caller)
                assert (code == 403) == (not {right.value for right in needed} <= rights.keys()), (path, caller)
                assert code != 403 or f"the token of '{caller}' {lacking}" in answer["detail"]


async def test_a_gateway_without_tokens_answers_everybody() -> None:
    async with serve_http(Gateway(Limits())) as address:
        for path in READ_AT_ONCE:
            assert (await get(address, named(path)))[0] in (200, 404)


async def test_a_token_that_was_sent_in_another_way_is_none() -> None:
    async with serve_http(Gateway(Limits()), [token("operator", admin=True)]) as address:
        for header in ("operator", "Basic operator", "Bearer", "Bearer operator extra", "Bearer " + "x" * 10_000):
            code, _ = await get(address, "/api/v1/status", headers={"Authorization": header})
            assert code == 401, header
        assert (await get(address, "/api/v1/status?token=operator"))[0] == 401


def without_times(document: Any) -> Any:
    """A document without what changes from one moment to the next."""
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if not key.endswith("_ms")}
    return [without_times(value) for value in document] if isinstance(document, list) else document


async def test_the_api_says_what_the_admin_service_says(http: tuple[str, Engine]) -> None:
    address, engine = http
    told = without_times(status_document("127.0.0.1:7433", await engine.status()))
    code, document = await get(address, "/api/v1/status")
    assert (code, without_times(document)) == (200, told)
    assert without_times((await get(address, "/api/v1/gateway"))[1]) == told["gateway"]
    for path, field in LISTS.items():
        code, document = await get(address, f"/api/v1/{path}")
        assert (code, without_times(document)) == (200, {field: told[field]})
        assert len(document[field]) == 1


@pytest.mark.parametrize("sequence", [2**53 + 1, MAX_SEQUENCE - 1])
async def test_a_sequence_that_a_double_does_not_hold_is_written_exactly(sequence: int) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        source, engine = Connector(address), Engine(address)
        await source.hello()
        await engine.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, sequence, 1))
        await engine.status_once(lambda status: status.streams[0].received.sequence == sequence)
        for path in ("/api/v1/status", "/api/v1/streams"):
            _, document = await get(http, path)
            assert document["streams"][0]["received"]["sequence"] == sequence
        await source.close()
        await engine.close()


async def test_one_part_is_found_by_its_name(http: tuple[str, Engine]) -> None:
    address, _ = http
    for kind, name in (("stream", "orders/0"), ("pipeline", "p"), ("sink", "out")):
        code, document = await get(address, f"/api/v1/{kind}s/{name}")
        assert (code, document[kind]) == (200, name)
        code, document = await get(address, f"/api/v1/{kind}s/other")
        assert code == 404
        assert document["detail"] == f"there is no {kind} 'other'; /api/v1/{kind}s lists all"


async def test_nothing_can_be_changed_where_it_is_read(http: tuple[str, Engine]) -> None:
    address, _ = http
    for path in PATHS:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert (await get(address, named(path), method=method))[0] == 405, (method, path)


# The OpenAPI document


def references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (value for key, value in document.items() if key == "$ref")
        for value in document.values():
            yield from references(value)
    elif isinstance(document, list):
        for value in document:
            yield from references(value)


async def test_the_openapi_document_names_every_path_and_defines_every_schema(http: tuple[str, Engine]) -> None:
    address, _ = http
    code, document = await get(address, "/api/v1/openapi.json")
    assert (code, document["openapi"]) == (200, "3.1.0")
    assert set(document["paths"]) == {path.replace(":path", "") for path in PATHS} | set(CHANGES) | {ME, SIGN_IN, SIGN_OUT}
    defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) == defined
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)


async def test_answers_are_as_the_openapi_document_says(http: tuple[str, Engine]) -> None:
    address, _ = http
    _, document = await get(address, "/api/v1/openapi.json")
    names = {"streams": "orders/0", "pipelines": "p", "sinks": "out"}
    checked = 0
    for path, operations in document["paths"].items():
        if "get" not in operations or path.replace("{name}", "{name:path}") in (EVENTS, PEEK):
            continue
        for name in (names.get(path.split("/")[3], "") if "{name}" in path else "", "none"):
            code, answer = await get(address, path.replace("{name}", name))
            response = operations["get"]["responses"][str(code)]
            ((media_type, content),) = response["content"].items()
            if media_type != "text/plain":
                schema = {**content["schema"], "components": document["components"]}
                Draft202012Validator(schema).validate(answer)
                checked += 1
    assert checked >= len(READ_AT_ONCE)
