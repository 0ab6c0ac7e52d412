"""Tokens and certificates that change while a gateway runs, as a process of its own."""

import asyncio
import hashlib
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from tests.gateway.certificates import Authority
from tests.gateway.processes import GatewayProcess, gateway_process

from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, source_pb2, source_pb2_grpc

DEADLINE_S = 150.0


def client_hello() -> bytes:
    """The first bytes of a gRPC client on a connection with TLS."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    return sent.read()


CLIENT_HELLO = client_hello()


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def write(path: Path, *tokens: tuple[str, Sequence[str], str], more: str = "") -> None:
    """Writes a configuration in one step, as deployments do: tokens by name, secrets and rights."""
    tables = "".join(
        f'[[tokens]]\nname = "{name}"\nsha256 = [{", ".join(f"{digest(secret)!r}" for secret in secrets)}]\n{rights}\n'
        for name, secrets, rights in tokens
    )
    fresh = path.with_suffix(".new")
    fresh.write_text(more + tables)
    fresh.replace(path)


async def status(channel: grpc.aio.Channel, secret: str) -> grpc.StatusCode:
    call = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
        admin_pb2.GetStatusRequest(), metadata=(("authorization", f"Bearer {secret}"),), timeout=DEADLINE_S
    )
    return await call.code()


async def until(channel: grpc.aio.Channel, secret: str, wanted: grpc.StatusCode) -> None:
    """Waits until a token is answered as wanted."""
    async with asyncio.timeout(DEADLINE_S):
        while await status(channel, secret) is not wanted:
            pass


async def test_tokens_are_replaced_without_a_restart_and_sessions_of_old_ones_end(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    operator = ("operator", ["op-1"], "admin = true")
    write(config, operator, ("orders", ["o-1"], 'sources = ["orders/*"]'))
    with gateway_process("--config", config) as gateway:
        async with grpc.aio.insecure_channel(gateway.address) as channel:
            old = await session(channel, "o-1")
            write(config, operator, ("orders", ["o-1", "o-2"], 'sources = ["orders/*"]'))
            gateway.wait_for_log("tokens replaced")
            kept = await session(channel, "o-2")
            write(config, ("operator", ["op-1", "op-2"], "admin = true"), ("orders", ["o-2"], 'sources = ["orders/*"]'))
            await until(channel, "op-2", grpc.StatusCode.OK)
            code, details = await ended(old)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert "replaced" in details
            await kept.write(source_pb2.IngestRequest(goodbye=source_pb2.Goodbye()))
            assert (await ended(kept))[0] is grpc.StatusCode.OK
            assert (await ended(opening(channel, "o-1")))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_a_wrong_or_empty_configuration_leaves_the_tokens_in_force(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    write(config, ("operator", ["op-1"], "admin = true"))
    with gateway_process("--config", config) as gateway:
        async with grpc.aio.insecure_channel(gateway.address) as channel:
            write(config, ("operator", ["op-2"], "admn = true"))
            gateway.wait_for_log("the configuration changed and is invalid")
            assert await status(channel, "op-1") is grpc.StatusCode.OK
            write(config)
            gateway.wait_for_log("the configuration no longer has tokens")
            assert await status(channel, "op-1") is grpc.StatusCode.OK
            assert await status(channel, "anything") is grpc.StatusCode.UNAUTHENTICATED
            write(config, ("operator", ["op-3"], "admin = true"), more="[limits]\nmax_sessions = 7\n")
            gateway.wait_for_log("everything but its tokens takes effect with a reload or a restart")
            await until(channel, "op-3", grpc.StatusCode.OK)
            assert await status(channel, "op-1") is grpc.StatusCode.UNAUTHENTICATED


def test_certificates_are_replaced_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    old, new = authority.issue("server"), authority.issue("another")
    files = ("--tls-cert", old.cert, "--tls-key", old.key)
    with gateway_process(*files) as gateway:
        before = presented(gateway)
        new.cert.replace(old.cert)
        assert presented(gateway) == before, "a certificate without its key is not taken"
        new.key.replace(old.key)
        deadline = time.monotonic() + DEADLINE_S
        while presented(gateway) == before:
            assert time.monotonic() < deadline
        credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes())
        with grpc.secure_channel(gateway.address, credentials) as channel:
            answer = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S)
        assert answer.gateway.version


def test_handshakes_at_the_same_time_as_others_and_as_a_new_certificate_end_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    old, new = authority.issue("server"), authority.issue("another")
    with gateway_process("--tls-cert", old.cert, "--tls-key", old.key) as gateway:
        before = presented(gateway)
        for burst in range(30):
            shake_hands(gateway, 50)
            if burst == 15:
                new.cert.replace(old.cert)
                new.key.replace(old.key)
        assert presented(gateway) != before
        assert gateway.process.poll() is None, gateway.log


def shake_hands(gateway: GatewayProcess, count: int) -> None:
    """Begins handshakes all at once, and waits until the gateway has answered each of them."""
    host, port = gateway.address.rsplit(":", 1)
    with ExitStack() as connections:
        sockets = [connections.enter_context(socket.create_connection((host, int(port)), DEADLINE_S)) for _ in range(count)]
        for each in sockets:
            each.sendall(CLIENT_HELLO)
        for each in sockets:
            assert each.recv(1), "the gateway has closed the connection"


def presented(gateway: GatewayProcess) -> str:
    """The certificate that the gateway shows to a new connection."""
    host, port = gateway.address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=DEADLINE_S)


def opening(channel: grpc.aio.Channel, secret: str) -> Any:
    return source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=(("authorization", f"Bearer {secret}"),))


async def session(channel: grpc.aio.Channel, secret: str) -> Any:
    """A session that has been welcomed."""
    call = opening(channel, secret)
    hello = source_pb2.Hello(protocol_version=1, connector="test", instance=secret)
    await call.write(source_pb2.IngestRequest(hello=hello))
    assert (await call.read()).HasField("welcome")
    return call


async def ended(call: Any) -> tuple[grpc.StatusCode, str]:
    """How the gateway ends a session."""
    async with asyncio.timeout(DEADLINE_S):
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        return await call.code(), await call.details()
