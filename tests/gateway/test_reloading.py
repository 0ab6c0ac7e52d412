"""Reloads of the configuration and drains on request, at gateways that are processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.cli.json_shape import document_of
from tests.gateway.http_server import post, serve_http
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.gateway import Limits
from headrace.gateway.core import Gateway
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import admin_pb2_grpc

FILE = """
[limits]
drain_timeout_seconds = {drain}
[http]
listen = "{http}"
[paused]
pipelines = {paused}
{more}
"""


def write(path: Path, *, drain: int = 2, http: str = "off", paused: str = "[]", more: str = "") -> None:
    path.write_text(FILE.format(drain=drain, http=http, paused=paused, more=more))


def headrace(gateway: GatewayProcess, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a command, and what it prints with --json."""
    command = [sys.executable, "-m", "headrace.cli", *words, "--json", "--gateway", gateway.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.returncode, document_of(done.stdout)


def test_a_reload_applies_what_has_changed_and_says_what_that_is(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    write(config)
    with gateway_process("--config", config) as gateway:
        write(config, drain=3, paused='["totals"]', more='[[streams]]\npattern = "orders/*"\npipelines = ["totals"]')
        code, told = headrace(gateway, "gateway", "reload")
        assert (code, told["ok"]) == (0, True)
        changes = told["result"]["changes"]
        assert changes[0] == "limits.drain_timeout_seconds: 2.0 -> 3.0"
        assert [change.partition(":")[0] for change in changes] == ["limits.drain_timeout_seconds", "paused.pipelines", "streams"]
        code, status = headrace(gateway, "status")
        (pipeline,) = status["result"]["pipelines"]
        assert (pipeline["pipeline"], pipeline["paused"]["by"]) == ("totals", "the configuration")
        assert headrace(gateway, "resume", "pipeline", "totals")[0] == 1
        write(config, drain=3)
        os.kill(gateway.process.pid, signal.SIGHUP)
        gateway.wait_for_log("paused.pipelines: ['totals'] -> []")
        assert headrace(gateway, "status")[1]["result"]["pipelines"] == []
        assert headrace(gateway, "gateway", "reload")[1]["summary"] == "nothing has changed"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"http": "127.0.0.1:0"}, "http.listen"),
        ({"more": "[log]\nlevel = 'loud'"}, "log.level"),
        ({"more": "[nonsense]\na = 1"}, "nonsense"),
    ],
)
def test_a_reload_that_is_not_possible_changes_nothing(tmp_path: Path, change: dict[str, str], named: str) -> None:
    config = tmp_path / "gateway.toml"
    write(config)
    with gateway_process("--config", config) as gateway:
        write(config, drain=3, paused='["totals"]', **change)
        code, told = headrace(gateway, "gateway", "reload")
        assert (code, told["ok"]) == (1, False)
        assert named in str(told["error"])
        os.kill(gateway.process.pid, signal.SIGHUP)
        gateway.wait_for_log("SIGHUP")
        write(config, drain=3)
        changes = headrace(gateway, "gateway", "reload")[1]["result"]["changes"]
        assert changes == ["limits.drain_timeout_seconds: 2.0 -> 3.0"]


def test_a_gateway_is_drained_by_a_command_and_goes_on_without_sessions(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    write(config)
    with gateway_process("--config", config) as gateway:
        code, told = headrace(gateway, "drain")
        assert (code, told["summary"]) == (0, "the gateway is drained")
        assert headrace(gateway, "drain")[0] == 0
        assert headrace(gateway, "status")[1]["result"]["gateway"]["draining"]


async def test_a_drain_ends_when_everything_is_acknowledged_and_is_joined_by_a_second_caller() -> None:
    async with serve(Limits(drain_timeout_seconds=30)) as (_, address):
        source, engine, late = Connector(address), Engine(address), Connector(address)
        await source.hello()
        await engine.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        planned = await engine.plan_until("orders/0", 3)
        first = engine.admin.Drain(pb.DrainRequest(), timeout=DEADLINE_S)
        second = engine.admin.Drain(pb.DrainRequest(timeout_ms=1), timeout=DEADLINE_S)
        for call in (first, second):
            left = await call.read()
            assert (left.sessions, left.unacknowledged_messages, left.done) == (1, 3, False)
        await source.expect("drain")
        with pytest.raises((AssertionError, grpc.aio.AioRpcError), match="UNAVAILABLE"):
            await late.hello()
        await engine.plan({"orders/0": planned.end}, wait_ms=50)
        await source.expect("ack")
        await source.call.done_writing()
        for call in (first, second):
            while not (last := await call.read()).done:
                pass
            assert (last.sessions, last.unacknowledged_messages) == (0, 0)
        for client in (source, engine, late):
            await client.close()


async def test_a_drain_says_what_is_left_when_its_time_is_over_and_goes_on_without_its_caller() -> None:
    async with serve(Limits(drain_timeout_seconds=30)) as (gateway, address):
        source, engine = Connector(address), Engine(address)
        await source.hello()
        gone = engine.admin.Drain(pb.DrainRequest(timeout_ms=300), timeout=DEADLINE_S)
        await gone.read()
        gone.cancel()
        await source.expect("drain")
        assert gateway.drain_task is not None
        last = [response async for response in engine.admin.Drain(pb.DrainRequest(), timeout=DEADLINE_S)][-1]
        assert (last.sessions, last.done) == (1, True)
        await source.close()
        await engine.close()


async def test_a_drain_whose_time_is_not_valid_does_not_begin() -> None:
    async with serve() as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Drain(pb.DrainRequest(timeout_ms=2**63), timeout=DEADLINE_S).read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not gateway.draining


async def test_changes_of_the_gateway_are_posted() -> None:
    gateway = Gateway(Limits())
    async with serve_http(gateway) as address:
        code, answer = await post(address, "/api/v1/gateway/reload", {})
        assert code == 409
        assert "--config" in answer["detail"]
        assert (await post(address, "/api/v1/gateway/drain", {"timeout_ms": -1}))[0] == 400
        assert not gateway.draining
        code, answer = await post(address, "/api/v1/gateway/drain", {})
        assert code == 200
        assert gateway.draining
        assert gateway.drain_task is not None
        await gateway.drain_task
        assert (await post(address, "/api/v1/gateway/drain", {}))[1]["done"]
