"""Calls that are refused are in the gateway's log: by whom, from where, and what they lack; never the token."""

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from tests.gateway.http_server import get, post
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.test_rights import Caller, bearer, who
from tests.gateway.wire import DEADLINE_S

from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, engine_pb2

ADMIN = "/headrace.protocol.v1.AdminService"
CALLS = 40


def configuration(folder: Path) -> Path:
    file = folder / "gateway.toml"
    digest = hashlib.sha256(b"payroll-secret").hexdigest()
    file.write_text(
        f'[[tokens]]\nname = "payroll"\nsha256 = "{digest}"\npipelines = ["payroll-*"]\nreads = ["payroll/*"]\n'
        '[http]\nlisten = "127.0.0.1:0"\n'
    )
    return file


def refused(gateway: GatewayProcess) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, gateway.log.splitlines()) if line["event"] == "call refused"]


def http_address(gateway: GatewayProcess) -> str:
    gateway.wait_for_log("gateway serves HTTP")
    lines = map(json.loads, gateway.log.splitlines())
    address: str = next(line["address"] for line in lines if line["event"] == "gateway serves HTTP")
    return address.removeprefix("http://")


async def status_code(address: str, token: str) -> grpc.StatusCode:
    """How a new connection's call with a token ends."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
            admin_pb2.GetStatusRequest(), metadata=bearer(token), timeout=DEADLINE_S
        )
        return await call.code()


async def call_unknown_methods(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        for number in range(CALLS):
            call = channel.unary_unary(f"/made.up.Service/{'x' * 1_000}{number}", bytes, bytes)
            assert await call(b"", timeout=DEADLINE_S).code() is grpc.StatusCode.UNAUTHENTICATED


async def test_each_refused_call_is_logged_once_in_a_while_and_never_with_its_token(tmp_path: Path) -> None:
    with gateway_process("--config", configuration(tmp_path), "--log-format", "json") as gateway:
        for _ in range(CALLS):
            assert await status_code(gateway.address, "wrong-secret") is grpc.StatusCode.UNAUTHENTICATED
        assert await status_code(gateway.address, "payroll-secret") is grpc.StatusCode.PERMISSION_DENIED
        await call_unknown_methods(gateway.address)
        async with grpc.aio.insecure_channel(gateway.address) as channel:
            attach = engine_pb2.AttachRequest(pipeline=who("orders-1"))
            assert (await Caller(channel, "payroll-secret").code("Attach", attach))[0] is grpc.StatusCode.PERMISSION_DENIED

        http = await asyncio.to_thread(http_address, gateway)
        for number in range(CALLS):
            assert (await get(http, f"/api/v1/streams/made-up-{number}?token=wrong-secret", "wrong-secret"))[0] == 401
        assert (await get(http, "/api/v1/status", "payroll-secret"))[0] == 403
        assert (await post(http, "/api/v1/pipelines/pause", {"name": "p"}, "payroll-secret"))[0] == 403
        for _ in range(CALLS):
            assert (await post(http, "/api/v1/sign-in", {"token": "wrong-secret"}))[0] == 401
        for number in range(CALLS):
            origin = {"Origin": f"https://evil-{number}.example"}
            assert (await post(http, "/api/v1/pipelines/forget", {"name": "p"}, headers=origin))[0] == 403
        assert (await post(http, "/api/v1/sign-out", {}, headers={"Sec-Fetch-Site": "cross-site"}))[0] == 403
        await asyncio.to_thread(gateway.wait_for_log, "/api/v1/sign-out")
        lines, log = refused(gateway), gateway.log

    assert {(line["call"], line.get("caller")) for line in lines} == {
        (f"{ADMIN}/GetStatus", None),
        (f"{ADMIN}/GetStatus", "payroll"),
        ("an unknown method", None),
        ("/headrace.protocol.v1.EngineService/Attach", "payroll"),
        ("/api/v1/streams/{name:path}", None),
        ("/api/v1/status", "payroll"),
        ("/api/v1/pipelines/pause", "payroll"),
        ("/api/v1/sign-in", None),
        ("/api/v1/pipelines/forget", None),
        ("/api/v1/sign-out", None),
    }
    # A kind is logged again after 5 s, which this test does not take on a machine that is not overloaded.
    assert max(Counter(line["call"] for line in lines).values()) < CALLS / 4
    assert all(line["level"] == "warning" and "127.0.0.1:" in line["peer"] for line in lines)
    lacks = {line["call"]: line["error"] for line in lines if "caller" in line}
    assert lacks["/api/v1/status"].endswith("it has no admin")
    assert "'orders-1'" in lacks["/headrace.protocol.v1.EngineService/Attach"]
    assert "evil" not in log
    assert "wrong-secret" not in log
    assert "payroll-secret" not in log
