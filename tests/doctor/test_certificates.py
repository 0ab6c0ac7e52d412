"""`headrace doctor --config deploy.toml`: certificates that one side would refuse are named before it starts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from tests.doctor.examining import check
from tests.gateway.certificates import Authority, locked

from headrace.doctor import Finding, Level, certificates

DEPLOYMENT = """
[gateway]
listen = "LISTEN"
tls_cert = "gateway.pem"
tls_key = "gateway.key"
tls_client_ca = "clients.pem"

[connectors.orders]
connector = "file"
path = "in/*"
source = "orders"
gateway = { tls_ca = "servers.pem", tls_cert = "client.pem", tls_key = "client.key" }

[pipeline]
app = "app.py"
gateway = { tls_ca = "servers.pem", tls_cert = "client.pem", tls_key = "client.key" }
"""


@pytest.fixture
def servers(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "servers")


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "clients")


@pytest.fixture
def file(tmp_path: Path, servers: Authority, clients: Authority, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment whose certificates fit."""
    monkeypatch.setattr(certificates, "SOON_S", 60)
    servers.issue("gateway")
    clients.issue("client")
    (tmp_path / "app.py").write_text("")
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT.replace("LISTEN", "127.0.0.1:0"))
    return tmp_path / "deploy.toml"


def found(file: Path) -> Finding:
    return check("certificates", connectors=(str(file),))


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "0.0.0.0:0", "localhost:0"])
def test_certificates_that_fit_are_listed(file: Path, listen: str) -> None:
    change(file, "127.0.0.1:0", listen)
    finding = found(file)
    assert finding.level is Level.OK, finding
    for name in ("gateway.pem", "clients.pem", "servers.pem", "client.pem"):
        assert str(file.parent / name) in finding.text


def test_without_tls_there_is_nothing_to_check_unless_a_process_would_use_it(file: Path) -> None:
    text = file.read_text()
    of_processes = text[text.index("[connectors") :]
    file.write_text('[gateway]\nlisten = "127.0.0.1:0"\n\n' + of_processes)
    assert (found(file).level, "orders, pipeline would use TLS" in found(file).text) == (Level.FAILED, True)
    bare = [line for line in of_processes.splitlines() if not line.startswith("gateway =")]
    file.write_text('[gateway]\nlisten = "127.0.0.1:0"\n\n' + "\n".join(bare))
    assert found(file) == Finding(Level.OK, "no certificates are used")


def test_a_program_needs_the_authority_unless_it_sets_the_option_itself(file: Path) -> None:
    (file.parent / "prices.py").write_text("")
    text = file.read_text()
    file.write_text(text + '\n[query.prices]\nprogram = "prices.py"\n')
    assert found(file).level is Level.WARNING
    assert found(file).text == "prices: the gateway uses TLS, and its table gateway sets no tls_ca"
    file.write_text(text + '\n[query.prices]\nprogram = "prices.py"\ngateway = { tls_ca = "clients.pem" }\n')
    assert (found(file).level, "prices: the certificate of the gateway is refused" in found(file).text) == (Level.FAILED, True)


def test_an_authority_that_does_not_fit(file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    change(file, 'tls_ca = "servers.pem"', 'tls_ca = "clients.pem"')
    finding = found(file)
    assert finding.level is Level.FAILED
    for name in ("orders", "pipeline"):
        assert f"{name}: the certificate of the gateway is refused: " in finding.text
    file.write_text(text.replace('tls_client_ca = "clients.pem"', 'tls_client_ca = "servers.pem"'))
    assert "orders: the certificate of the process is refused: " in found(file).text


def test_a_name_that_the_gateways_certificate_lacks(file: Path, servers: Authority) -> None:
    servers.issue("gateway", "10.0.0.7")
    finding = found(file)
    assert finding.level is Level.FAILED
    assert "orders: the certificate of the gateway is refused: IP address mismatch" in finding.text


def test_a_process_without_a_certificate_or_without_tls(file: Path) -> None:
    text, certificate = file.read_text(), ', tls_cert = "client.pem", tls_key = "client.key"'
    change(file, certificate, "")
    assert "orders: peer did not return a certificate" in found(file).text
    file.write_text(text.replace('gateway = { tls_ca = "servers.pem"' + certificate + " }", ""))
    assert "orders: the gateway uses TLS, and its table gateway sets neither tls nor tls_ca" in found(file).text


def test_a_process_of_a_gateway_elsewhere_is_not_judged_by_this_one(file: Path) -> None:
    change(file, 'tls_ca = "servers.pem"', 'address = "far.example:7433", tls_ca = "clients.pem"')
    assert found(file).level is Level.OK, found(file)


def test_files_that_cannot_be_used(file: Path, clients: Authority) -> None:
    locked(clients.issue("client"), b"secret")
    assert (found(file).level, "orders: " in found(file).text) == (Level.FAILED, True)
    clients.issue("client")
    clients.issue("other")
    (file.parent / "other.key").rename(file.parent / "client.key")
    assert found(file).level is Level.FAILED
    clients.issue("client")
    (file.parent / "gateway.key").write_text("no key")
    assert (found(file).level, "gateway.key" in found(file).text) == (Level.FAILED, True)


def test_a_certificate_that_expires_soon_and_one_that_has_expired(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = x509.load_pem_x509_certificate((file.parent / "gateway.pem").read_bytes()).not_valid_after_utc
    left_s = (end - datetime.now(UTC)).total_seconds()
    monkeypatch.setattr(certificates, "SOON_S", left_s + 3_600)
    finding = found(file)
    assert (finding.level, f"gateway.pem expires on {end:%Y-%m-%d %H:%M} UTC" in finding.text) == (Level.WARNING, True)
