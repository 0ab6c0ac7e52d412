"""The assembled gateway: what it says of itself, and what signals and taken ports do to it."""

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.gateway.certificates import Authority
from tests.gateway.processes import GatewayProcess, gateway_process, headrace

from headrace import gateway as package
from headrace.gateway import Config, Tls, Token
from headrace.gateway.listen import exposure
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub

DEADLINE_S = 150.0
Session: TypeAlias = Any  # a gRPC call and an iterator over what the gateway says, which no public type of grpc is
SERVICES = ["AdminService", "EngineService", "SinkService", "SourceService"]


def health(channel: grpc.Channel, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    status: int = health_pb2_grpc.HealthStub(channel).Check(request, timeout=DEADLINE_S).status
    return status


def open_session(channel: grpc.Channel) -> Session:
    """A session that says Hello and then nothing; it is welcomed already."""
    waiting = socket.socketpair()

    def requests() -> Iterator[source_pb2.IngestRequest]:
        yield source_pb2.IngestRequest(hello=source_pb2.Hello(protocol_version=1, connector="test", instance="test-0"))
        waiting[0].recv(1)

    call: Session = SourceServiceStub(channel).Ingest(requests(), timeout=DEADLINE_S)
    call.add_callback(waiting[1].close)
    assert next(call).HasField("welcome")
    return call


def signal_twice(gateway: GatewayProcess, number: signal.Signals) -> int:
    """Its exit code after one signal, which drains, and another while it still does."""
    with grpc.insecure_channel(gateway.address) as channel:
        call = open_session(channel)
        gateway.process.send_signal(number)
        gateway.wait_for_log("gateway drains")
        gateway.process.send_signal(number)
        code = gateway.wait()
        call.cancel()
    return code


async def test_a_program_of_ones_own_serves_with_what_the_package_promises() -> None:
    listens: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(package.serve(Config(listen="127.0.0.1:0"), ready=listens.set_result))
    try:
        async with asyncio.timeout(DEADLINE_S):
            address = await listens
        with grpc.insecure_channel(address) as channel:
            assert await asyncio.to_thread(health, channel) == health_pb2.HealthCheckResponse.SERVING
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from headrace.gateway import nothing  # noqa: F401


def test_health_and_reflection_know_every_service() -> None:
    with gateway_process() as gateway, grpc.insecure_channel(gateway.address) as channel:
        for service in ["", *(f"headrace.protocol.v1.{name}" for name in SERVICES)]:
            assert health(channel, service) == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]), timeout=DEADLINE_S)
        names = {service.name for service in next(answers).list_services_response.service}
        assert names == {
            *(f"headrace.protocol.v1.{name}" for name in SERVICES),
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }


def test_sigterm_drains_sessions_says_so_and_exits_with_0() -> None:
    with gateway_process("--drain-timeout-seconds", "5") as gateway, grpc.insecure_channel(gateway.address) as channel:
        call = open_session(channel)
        gateway.process.send_signal(signal.SIGTERM)

        answers = [response.WhichOneof("message") for response in iter_until_end(call)]

        assert "drain" in answers
        assert gateway.wait() == 0
        events = [json.loads(line)["event"] for line in gateway.log.splitlines()]
        assert events[0] == "gateway listens"
        assert events[-1] == "gateway stopped"


def iter_until_end(call: Session) -> list[source_pb2.IngestResponse]:
    """Everything that the gateway still says; ends the session once it is asked to drain."""
    found = []
    try:
        for response in call:
            found.append(response)
            if response.HasField("drain"):
                call.cancel()
    except grpc.RpcError:
        pass
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_it_at_once(number: signal.Signals, code: int) -> None:
    with gateway_process("--drain-timeout-seconds", "60") as gateway:
        assert signal_twice(gateway, number) == code


def test_health_says_not_serving_while_it_drains() -> None:
    with gateway_process("--drain-timeout-seconds", "60") as gateway, grpc.insecure_channel(gateway.address) as channel:
        call = open_session(channel)
        gateway.process.send_signal(signal.SIGTERM)
        assert next(response for response in call if response.HasField("drain"))
        for service in ("", "headrace.protocol.v1.SourceService"):
            assert health(channel, service) == health_pb2.HealthCheckResponse.NOT_SERVING
        call.cancel()
        assert gateway.wait() == 0


def test_a_taken_port_is_one_clear_line() -> None:
    with gateway_process() as first:
        second = headrace("gateway", "--listen", first.address)

    assert second.returncode == 3
    assert second.stderr.splitlines()[-1] == (
        f"Error: cannot listen on {first.address}: another program uses this port; stop it, or choose another port (0 picks a "
        "free one) with --listen, or listen in its file"
    )


def test_an_address_of_another_machine_is_one_clear_line() -> None:
    result = headrace("gateway", "--listen", "192.0.2.1:7433", "--insecure")

    assert result.returncode == 3
    assert "this machine has no such address" in result.stderr.splitlines()[-1]


def test_it_logs_where_it_listens_and_who_may_come() -> None:
    with gateway_process("--log-format", "json") as gateway:
        line = json.loads(gateway.log.splitlines()[0])

    assert {**line, "timestamp": ""} == {
        "event": "gateway listens",
        "level": "info",
        "logger": "headrace.gateway.server",
        "timestamp": "",
        "address": gateway.address,
        "tls": "off",
        "tokens": 0,
    }


def test_logs_for_people() -> None:
    with gateway_process("--log-format", "console") as gateway:
        assert "gateway listens" in gateway.log
        assert f"address={gateway.address}" in gateway.log
        assert "\x1b[" not in gateway.log


def test_what_is_open_to_everybody_is_warned_of(tmp_path: Path) -> None:
    token = Token(name="a", sha256="0" * 64)
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server")
    tls, mutual = Tls(cert=pair.cert, key=pair.key), Tls(cert=pair.cert, key=pair.key, client_ca=authority.cert)
    assert "anyone who can reach this address" in (exposure(Config(listen="0.0.0.0:1", tls=tls)) or "")
    assert exposure(Config(listen="0.0.0.0:1", tls=mutual)) is None
    assert exposure(Config(listen="0.0.0.0:1", tls=tls, tokens=(token,))) is None
    assert exposure(Config(listen="127.0.0.1:1")) is None
    assert "not encrypted" in (exposure(Config(listen="0.0.0.0:1", insecure=True)) or "")
    assert "not encrypted" in (exposure(Config(listen="0.0.0.0:1", insecure=True, tokens=(token,))) or "")
