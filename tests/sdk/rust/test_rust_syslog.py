"""sdk/examples/rust-syslog: its own tests, the kit, and a real gateway; only the messages in its memory are lost with it."""

import asyncio
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Reader
from tests.sdk.rust.conftest import ROOT, Toolchain

from headrace.conformance.sources import SOURCE_CHECKS

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(1, 6)]  # The first build compiles gRPC.

CONFORMANCE = ROOT / "sdk" / "examples" / "rust-syslog" / "conformance"


@pytest.fixture(scope="module")
def program(cargo: Toolchain) -> Path:
    return cargo.build("rust-syslog")


def text(number: int) -> bytes:
    return b"message %d" % number


def written(number: int) -> bytes:
    return b"<13>Oct 11 22:14:15 host test: " + text(number)


def listening(addresses: Path, protocol: str = "tcp") -> tuple[str, int]:
    """Waits until the source listens, and returns its address."""
    deadline = time.monotonic() + DEADLINE_S
    while not addresses.exists():
        assert time.monotonic() < deadline, "it does not listen"
        time.sleep(0.02)
    lines = dict(line.split() for line in addresses.read_text().splitlines())
    host, _, port = lines[protocol].rpartition(":")
    return host, int(port)


def send_tcp(addresses: Path, numbers: Iterable[int]) -> None:
    """Sends lines, and waits until the source has read all of them."""
    with socket.create_connection(listening(addresses), timeout=DEADLINE_S) as connection:
        connection.sendall(b"".join(written(number) + b"\n" for number in numbers))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_its_own_checks_pass(cargo: Toolchain) -> None:
    cargo.check("rust-syslog")


def test_it_keeps_the_rules_of_the_protocol(program: Path, pytestconfig: pytest.Config) -> None:
    only = some_of(SOURCE_CHECKS, "rust-syslog", pytestconfig)
    verdict = judged("source", CONFORMANCE / "source.toml", [CONFORMANCE / "run.sh", program, "{work}"], only)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 25
    assert not verdict.named("known failure")


async def test_what_was_received_arrives_though_the_gateway_is_killed(program: Path, tmp_path: Path) -> None:
    addresses = tmp_path / "addresses"
    command = (program, "--tcp", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--addresses", addresses)
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *command) as source:
            query = Reader(gateway.address, "syslog/0")
            await asyncio.to_thread(send_tcp, addresses, range(500))
            await query.read(200)
            gateway.process.kill()
            gateway.wait()
            # Nobody takes them, and they are kept.
            await asyncio.to_thread(send_tcp, addresses, range(500, 800))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.sendto(written(800), await asyncio.to_thread(listening, addresses, "udp"))
            with gateway_process("--listen", gateway.address):
                wanted = {text(number) for number in range(801)}
                while not wanted <= set(query.values):
                    await query.read(len(query.values) + 1)
                await query.acknowledge()
                assert await source.end(signal.SIGTERM) == 0, source.log
                assert set(query.values) == wanted
            await query.close()
    assert "they are lost" not in source.log


async def test_what_is_in_the_checkpoint_survives_a_killed_source(program: Path, tmp_path: Path) -> None:
    addresses = tmp_path / "addresses"
    command = (program, "--tcp", "127.0.0.1:0", "--addresses", addresses)
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *command) as source:
            query = Reader(gateway.address, "syslog/0")
            await asyncio.to_thread(send_tcp, addresses, range(300))
            await query.read(300)
            addresses.unlink()
            await source.restart()
            await asyncio.to_thread(send_tcp, addresses, range(300, 600))
            await query.read(600)
            await query.acknowledge()
            assert await source.end(signal.SIGTERM) == 0, source.log
            await query.close()
    assert query.values == [text(number) for number in range(600)]
