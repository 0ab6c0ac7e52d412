"""The certificates of clients: each is a problem before it expires, until its client has another one or has left."""

import datetime
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority, Pair
from tests.gateway.http_server import get
from tests.gateway.processes import gateway_process, headrace
from tests.gateway.test_own_files import found_by, until
from tests.virtual_clock import VirtualClock

from headrace.conformance.core import certificates
from headrace.contract import clock
from headrace.gateway import Limits, Tls
from headrace.gateway.certificate_watch import CertificateWatch
from headrace.gateway.core import Gateway
from headrace.gateway.core.connections.client_certificates import KEPT_S, MAX_COUNT, ClientCertificates
from headrace.gateway.identity import EVERYTHING
from headrace.processes import OwnedProcess

DAY_S = 86_400
STOPS_WITHIN_S = 60.0


def valid_for(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(days=days))


def client(folder: Path, gateway: str, ca: Path, pair: Pair) -> OwnedProcess:
    """A connector with a certificate, which offers a stream."""
    files = ("--tls-ca", ca, "--tls-cert", pair.cert, "--tls-key", pair.key)
    words = ("connector", "run", "file", "--path", folder / "lines.txt", "--source", "lines", "--gateway", gateway, *files)
    return OwnedProcess("connector", [sys.executable, "-m", "headrace.cli", *map(str, words)], folder, {}, ends_with_parent=True)


async def test_a_certificate_of_a_client_is_named_until_the_client_has_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid_for(monkeypatch, 90)
    servers, clients = Authority(tmp_path, "servers"), Authority(tmp_path, "clients")
    pair = servers.issue("gateway")
    valid_for(monkeypatch, 10)
    connector = clients.issue("orders")
    config = tmp_path / "gateway.toml"
    config.write_text(
        f"[http]\nlisten = '127.0.0.1:0'\n[tls]\ncert = '{pair.cert}'\nkey = '{pair.key}'\nclient_ca = '{clients.cert}'\n"
    )
    (tmp_path / "lines.txt").write_text("one\n")
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        process = client(tmp_path, gateway.address, servers.cert, connector)
        process.start()
        try:
            found = await until(http, "client CN=orders", "certificate-expires")
            assert "in 9 days" in found["cause"]
            assert "headrace restart" in found["remedy"]
            _, metrics = await get(http, "/metrics")
            (expires,) = re.findall(r'headrace_certificate_expires_timestamp_seconds{file="client CN=orders"} (\S+)', metrics)
            assert 9 * DAY_S < float(expires) - clock.now() <= 10 * DAY_S
            call = ("status", "--gateway", gateway.address, "--tls-ca", servers.cert)
            shown = headrace(*call, "--tls-cert", connector.cert, "--tls-key", connector.key)
            assert "client CN=orders for " in shown.stdout
            process.stop(STOPS_WITHIN_S)
            valid_for(monkeypatch, 90)
            process = client(tmp_path, gateway.address, servers.cert, clients.issue("orders"))
            process.start()
            await until(http, "client CN=orders", None)
            _, metrics = await get(http, "/metrics")
            assert 'headrace_certificate_expires_timestamp_seconds{file="client CN=orders"}' in metrics
        finally:
            process.stop(STOPS_WITHIN_S)


def watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Gateway, ClientCertificates, CertificateWatch]:
    """A gateway whose own files are valid for long."""
    valid_for(monkeypatch, 3_650)
    authority = Authority(folder, "ca")
    pair = authority.issue("gateway")
    gateway, clients = Gateway(Limits()), ClientCertificates()
    gateway.unconnected_since = None
    return gateway, clients, CertificateWatch(Tls(cert=pair.cert, key=pair.key, client_ca=authority.cert), gateway, clients)


def names(gateway: Gateway) -> Sequence[str]:
    """Whose certificates have a time in the metrics."""
    return sorted(name for name in gateway.certificates if name.startswith("client "))


async def test_a_client_counts_as_long_as_it_calls_and_a_little_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = clock.now()
    with clock.use(VirtualClock()) as now:
        now.set(ahead_s=real - clock.now())
        gateway, clients, watch = watched(tmp_path, monkeypatch)
        valid_for(monkeypatch, 10)
        pem = Authority(tmp_path, "clients").issue("orders").cert.read_bytes()
        call = gateway.open_calls.begin(EVERYTHING)
        gateway.open_calls.serve(call, "ipv4:192.0.2.1:5000")
        clients.note(call.peer, lambda: pem)
        for _ in range(3):
            now.advance(2 * KEPT_S)
            watch.look()
            assert (await found_by(gateway)).keys() == {"client CN=orders"}
        gateway.open_calls.finish(call)
        now.advance(KEPT_S / 2)
        watch.look()
        assert names(gateway) == ["client CN=orders"]
        now.advance(KEPT_S)
        watch.look()
        assert (names(gateway), await found_by(gateway)) == ([], {})


async def test_of_several_certificates_of_a_name_the_first_counts_that_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, clients, watch = watched(tmp_path, monkeypatch)
    authority = Authority(tmp_path, "clients")
    for port, days in enumerate((90, 10, 30)):
        valid_for(monkeypatch, days)
        pem = authority.issue("orders").cert.read_bytes()
        clients.note(f"ipv4:192.0.2.1:{port}", lambda pem=pem: pem)
    watch.look()
    assert "in 9 days" in (await found_by(gateway))["client CN=orders"][1]


def test_a_connection_is_read_once_and_an_address_that_another_one_has_later_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "clients")
    presented = {"orders": authority.issue("orders").cert.read_bytes(), "prices": authority.issue("prices").cert.read_bytes()}
    reads: list[str] = []

    def read(name: str) -> bytes:
        reads.append(name)
        return presented[name]

    with clock.use(VirtualClock()) as now:
        clients = ClientCertificates()
        for _ in range(3):
            clients.note("ipv4:192.0.2.1:5000", lambda: read("orders"))
        assert reads == ["orders"]
        now.advance(KEPT_S + 1)
        clients.note("ipv4:192.0.2.1:5000", lambda: read("prices"))
        assert clients.in_use([]).keys() == {"CN=prices"}


@pytest.mark.parametrize("pem", [None, b"", b"no certificate"])
def test_a_caller_without_a_certificate_that_can_be_read_is_served(pem: bytes | None) -> None:
    clients = ClientCertificates()
    clients.note("ipv4:192.0.2.1:5000", lambda: pem)
    assert clients.in_use(["ipv4:192.0.2.1:5000"]) == {}


def test_only_so_many_connections_are_kept_those_seen_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "clients")
    old, new = authority.issue("old").cert.read_bytes(), authority.issue("new").cert.read_bytes()
    clients = ClientCertificates()
    clients.note("first", lambda: old)
    for number in range(MAX_COUNT):
        clients.note(f"ipv4:192.0.2.1:{number}", lambda: new)
    assert clients.in_use([]).keys() == {"CN=new"}
