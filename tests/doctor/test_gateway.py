"""`headrace doctor` and gateways that are not there, that do not trust us, and that are something else."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.brokers.plugin import Nats
from tests.doctor.examining import VERSION, check
from tests.gateway.certificates import Authority
from tests.gateway.processes import GatewayProcess, gateway_process

from headrace.doctor import Check, Finding, Level, Site, examine
from headrace.doctor.brokers import broker
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INVALID, Connection

TOKENS = """
[[tokens]]
name = "admin"
token = "${ADMIN}"
admin = true

[[tokens]]
name = "source"
token = "${SOURCE}"
sources = ["orders/*"]
"""


@contextmanager
def listening() -> Iterator[int]:
    """A port where something listens that is not a gateway, and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@contextmanager
def unused() -> Iterator[int]:
    """A port where nothing listens, and nobody else will for now."""
    with socket.socket() as held:
        # A port that is held like this can still be listened on by others that ask in the same way.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # it has no types
    def __init__(self, services: list[str]) -> None:
        self._services = services

    def List(self, request: health_pb2.HealthListRequest, context: grpc.ServicerContext) -> health_pb2.HealthListResponse:
        serving = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        return health_pb2.HealthListResponse(statuses=dict.fromkeys(self._services, serving))


@contextmanager
def server_with(*services: str) -> Iterator[str]:
    """The address of a gRPC server whose health lists some services."""
    options: list[tuple[str, Any]] = [("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(max_workers=2), options=options)
    health_pb2_grpc.add_HealthServicer_to_server(_Health(list(services)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def is_failed(finding: Finding, found: str, fix: str, exit_code: int = EXIT_FAILED) -> None:
    assert (finding.level, finding.exit_code) == (Level.FAILED, exit_code), finding
    assert found in finding.text
    assert fix in finding.fix


def test_no_gateway_is_a_failure_only_where_one_was_named() -> None:
    with unused() as port:
        connection = Connection(f"127.0.0.1:{port}")
        is_failed(check("gateway", connection, gateway_named=True), f"nothing listens at 127.0.0.1:{port}", "headrace gateway")
        finding = check("gateway", connection)
        assert (finding.level, finding.text) == (Level.SKIPPED, f"none runs at 127.0.0.1:{port}")
        assert "headrace gateway" in finding.fix
        finding = check("port", connection)
        assert (finding.level, finding.text) == (Level.OK, f"port {port} is free")


def test_a_port_in_use_by_another_program() -> None:
    with listening() as port:
        finding = check("port", Connection(f"127.0.0.1:{port}"))
        is_failed(finding, f"cannot listen on port {port} (Address already in use)", "--listen 127.0.0.1:", EXIT_ENVIRONMENT)
        is_failed(check("gateway", Connection(f"127.0.0.1:{port}")), f"127.0.0.1:{port}", "--gateway")


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", ":7433", "127.0.0.1:99999"])
def test_an_address_that_is_none(address: str) -> None:
    is_failed(check("port", Connection(address)), f"{address} is not HOST:PORT", "such as 127.0.0.1:7433", EXIT_ENVIRONMENT)
    assert check("gateway", Connection(address)).level is Level.SKIPPED


def test_the_port_of_another_machine_is_not_looked_at() -> None:
    assert check("port", Connection("gateway.example:7433")).level is Level.SKIPPED


def test_a_gateway_that_answers_is_told_with_version_and_protocol() -> None:
    with gateway_process() as gateway:
        finding = check("gateway", Connection(gateway.address), gateway_named=True)
        assert (finding.level, finding.fix) == (Level.OK, "")
        assert finding.text == f"{gateway.address} runs version {VERSION}; headrace.protocol.v1"
        finding = check("port", Connection(gateway.address))
        assert finding.level is Level.OK
        assert finding.text.startswith("a gateway listens on port ")


def test_tls_that_does_not_fit_is_told_with_the_option_that_is_missing(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("gateway")
    other = Authority(tmp_path, "other")
    with gateway_process("--tls-cert", pair.cert, "--tls-key", pair.key) as gateway:
        trusted = Connection(gateway.address, tls_ca=authority.cert)
        assert check("gateway", trusted).text == f"{gateway.address} runs version {VERSION}; headrace.protocol.v1"
        for connection in (Connection(gateway.address), Connection(gateway.address, tls_ca=other.cert)):
            is_failed(check("gateway", connection, gateway_named=True), gateway.address, "--tls-ca")
            finding = check("port", connection)
            assert (finding.level, finding.text.partition(" is ")[2]) == (Level.OK, "in use by a program that speaks TLS")


def test_tls_where_the_gateway_speaks_none() -> None:
    with gateway_process() as gateway:
        is_failed(check("gateway", Connection(gateway.address, tls=True)), gateway.address, "TLS")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that wants tokens."""
    config = tmp_path_factory.mktemp("guarded") / "gateway.toml"
    config.write_text(TOKENS)
    with gateway_process("--config", config, environ={"ADMIN": "a-secret", "SOURCE": "s-secret"}) as gateway:
        yield gateway


@pytest.mark.parametrize(("token", "what"), [(None, "calls without a token"), ("wr0ng-secret", "this token")])
def test_a_token_that_is_missing_or_unknown(guarded: GatewayProcess, token: str | None, what: str) -> None:
    finding = check("gateway", Connection(guarded.address, token))
    is_failed(finding, f"{guarded.address} refuses {what}", "--token or HEADRACE_TOKEN")
    assert "secret" not in f"{finding}"


def test_a_token_that_may_not_see_the_status_is_known_all_the_same(guarded: GatewayProcess) -> None:
    finding = check("gateway", Connection(guarded.address, "s-secret"))
    assert (finding.level, finding.fix) == (Level.OK, "")
    assert "accepts the token, which may not read the status" in finding.text
    assert check("gateway", Connection(guarded.address, "a-secret")).text.endswith(
        f"runs version {VERSION}; headrace.protocol.v1"
    )


def test_a_gateway_that_speaks_another_protocol_is_told_with_both() -> None:
    with server_with("headrace.protocol.v2.SourceService", "headrace.protocol.v2.AdminService") as address:
        finding = check("gateway", Connection(address))
    is_failed(finding, "speaks headrace.protocol.v2, but this installation speaks headrace.protocol.v1", "same protocol")


def test_a_server_that_is_not_a_gateway() -> None:
    with server_with("some.other.Service") as address:
        is_failed(check("gateway", Connection(address)), "speaks no protocol of Headrace", "same protocol")


def test_a_connector_that_can_connect_and_one_that_cannot(nats: Nats, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"

    def table(name: str, port: int) -> str:
        login = f'user = "{nats.user}"\npassword = "{nats.password}"\n'
        servers = f'servers = "nats://127.0.0.1:{port}"\n'
        return f'[connectors.{name}]\nconnector = "nats-core"\n{servers}{login}subjects = "x"\nsource = "x"\n'

    file.write_text(table("good", nats.port))
    finding = check("connectors", connectors=(str(file),))
    assert finding.level is Level.OK, finding
    assert f"{file}:good: nats-core" in finding.text
    with unused() as port:
        file.write_text(table("good", nats.port) + table("bad", port))
        finding = check("connectors", connectors=(str(file),))
        is_failed(finding, f"{file}:bad: ", f"headrace connector check -c {file}:bad")
        assert f"127.0.0.1:{port}" in finding.text


def test_a_connectors_file_that_is_invalid_is_told_with_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('connector = "file"\nsorce = "x"\npath = "y"\n')
    finding = check("connectors", connectors=(str(file),))
    is_failed(finding, f"{file}:2: sorce: unknown key; did you mean source?", "correct the file", EXIT_INVALID)
    assert "cannot be read" in check("connectors", connectors=("/nowhere/c.toml",)).text


def test_a_broker_at_its_usual_port_is_found() -> None:
    with listening() as port:
        ((_, finding),) = examine(Site(Connection("127.0.0.1:1")), [Check("nats", broker("nats", port))])
    assert finding.level is Level.OK
    assert finding.text.endswith(f"a server listens on 127.0.0.1:{port}")
