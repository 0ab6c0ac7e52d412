"""TLS, mutual TLS and tokens together, with the gateway as a process of its own."""

import hashlib
from pathlib import Path

import grpc
import pytest
from tests.gateway.certificates import Authority, Pair
from tests.gateway.processes import gateway_process, headrace

from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub

DEADLINE_S = 150.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def server_pair(authority: Authority) -> Pair:
    return authority.issue("server")


def test_a_certificate_for_other_names_is_named(authority: Authority) -> None:
    other = authority.issue("other", "10.0.0.9")
    with gateway_process("--tls-cert", other.cert, "--tls-key", other.key) as gateway:
        refused = headrace("status", "--gateway", gateway.address, "--tls-ca", authority.cert)
    assert refused.returncode == 1
    assert f"the certificate of the gateway at {gateway.address} is for other names: " in refused.stderr


def test_status_over_tls(authority: Authority, server_pair: Pair, tmp_path: Path) -> None:
    with gateway_process("--tls-cert", server_pair.cert, "--tls-key", server_pair.key) as gateway:
        trusted = headrace("status", "--gateway", gateway.address, "--tls-ca", authority.cert)
        assert (trusted.returncode, trusted.stderr) == (0, "")

        in_clear = headrace("status", "--gateway", gateway.address)
        assert in_clear.returncode == 1
        assert "does it need TLS (--tls-ca)?" in in_clear.stderr
        assert len(in_clear.stderr.splitlines()) == 1

        other = Authority(tmp_path, "other")
        untrusted = headrace("status", "--gateway", gateway.address, "--tls-ca", other.cert)
        assert untrusted.returncode == 1
        assert "is not trusted: set --tls-ca to the authority that signed it" in untrusted.stderr


def test_mutual_tls_wants_a_certificate_of_its_authority(authority: Authority, server_pair: Pair, tmp_path: Path) -> None:
    clients = Authority(tmp_path, "clients")
    good, stranger = clients.issue("good"), Authority(tmp_path, "other").issue("stranger")
    files = ("--tls-cert", server_pair.cert, "--tls-key", server_pair.key, "--tls-client-ca", clients.cert)
    with gateway_process(*files) as gateway:
        call = ("status", "--gateway", gateway.address, "--tls-ca", authority.cert)

        assert headrace(*call, "--tls-cert", good.cert, "--tls-key", good.key).returncode == 0
        for refused in (headrace(*call), headrace(*call, "--tls-cert", stranger.cert, "--tls-key", stranger.key)):
            assert refused.returncode == 1
            assert refused.stderr.startswith(f"Error: cannot reach the gateway at {gateway.address}: ")

        half = headrace(*call, "--tls-cert", good.cert)
        assert half.returncode == 2
        assert "--tls-cert and --tls-key go together" in half.stderr


def test_a_token_over_tls_decides_which_streams_may_be_opened(authority: Authority, server_pair: Pair, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(
        f"""
        [tls]
        cert = "{server_pair.cert.name}"
        key = "{server_pair.key.name}"
        [[tokens]]
        name = "orders"
        token = "${{ORDERS_TOKEN}}"
        sources = ["orders/*"]
        [[tokens]]
        name = "operator"
        sha256 = "{hashlib.sha256(b"operator-secret").hexdigest()}"
        admin = true
        """
    )
    with gateway_process("--config", config, environ={"ORDERS_TOKEN": "orders-secret"}) as gateway:
        call = ("status", "--gateway", gateway.address, "--tls-ca", authority.cert)
        none = headrace(*call)
        assert none.returncode == 1
        assert "does not accept this call: this gateway needs a token" in none.stderr
        assert "does not know the token" in headrace(*call, "--token", "wrong").stderr
        assert "does not permit this" in headrace(*call, "--token", "orders-secret").stderr
        assert headrace(*call, environ={"HEADRACE_TOKEN": "operator-secret"}).returncode == 0

        assert opened(gateway.address, authority, "orders-secret", "orders/0") == "parked"
        assert opened(gateway.address, authority, "orders-secret", "trades/0") == "REJECT_REASON_NOT_PERMITTED"
        gateway.process.terminate()
        assert gateway.wait() == 0
        assert "secret" not in gateway.log


def opened(address: str, authority: Authority, token: str, stream: str) -> str:
    """What comes of opening a stream: `parked`, or why it is refused."""
    hello = source_pb2.Hello(protocol_version=1, connector="test", connector_version="1", instance=f"test-{stream}")
    kind = source_pb2.SOURCE_KIND_REPLAYABLE
    wanted = source_pb2.OpenStream(stream_id=1, stream=stream, kind=kind)
    credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes())
    requests = [source_pb2.IngestRequest(hello=hello), source_pb2.IngestRequest(open_stream=wanted)]
    leaving = source_pb2.IngestRequest(goodbye=source_pb2.Goodbye(reason="enough"))
    with grpc.secure_channel(address, credentials) as channel:
        metadata = (("authorization", f"Bearer {token}"),)
        for response in SourceServiceStub(channel).Ingest(iter([*requests, leaving]), metadata=metadata, timeout=DEADLINE_S):
            if response.HasField("reject"):
                return source_pb2.RejectReason.Name(response.reject.reason)
    return "parked"
