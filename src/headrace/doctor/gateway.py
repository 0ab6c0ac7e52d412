"""Checks of the gateway: its port, whether it can be reached and speaks the protocol of this installation, and its health.

The check of its health lists the faults that its `/readyz` names, its own and those around it.
"""

import socket
import ssl
from collections.abc import Iterator

import grpc
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.contract.limits import PROTOCOL_VERSION
from headrace.doctor.finding import Finding, Site, failed, ok, skipped
from headrace.gateway_status.document import NO_FAULTS
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc
from headrace.terminal import EXIT_FAILED, Connection, counted, duration_text

MAX_COUNT = 20
"""How many parts are listed."""
_TIMEOUT_S = 2.0
_PROTOCOL = "headrace.protocol."
_OURS = f"{_PROTOCOL}v{PROTOCOL_VERSION}"


def check_port(site: Site) -> Finding:
    """Checks whether a gateway listens on its address, or could."""
    host, port = _split(site.connection.gateway)
    if port is None:
        return failed(f"{site.connection.gateway} is not HOST:PORT", "pass the gateway as HOST:PORT, such as 127.0.0.1:7433")
    if host not in ("127.0.0.1", "localhost", "::1"):
        return skipped(f"{host} is not this machine's loopback address")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        # As servers do, so that recently closed connections do not count.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            return _in_use(site.connection, port, error)
    return ok(f"port {port} is free")


def _in_use(connection: Connection, port: int, error: OSError) -> Finding:
    """Returns the finding for a port that cannot be bound."""
    try:
        _protocols(connection)
        return ok(f"a gateway listens on port {port}")
    except grpc.RpcError:
        if _speaks_tls(connection.gateway):
            return ok(f"port {port} is in use by a program that speaks TLS")
    found = f"cannot listen on port {port} ({error.strerror}), and no gateway answers there{_owner(port)}"
    fix = f"end that program, or use another port: headrace gateway --listen 127.0.0.1:{port % 65535 + 1}"
    return failed(found, fix)


def _speaks_tls(address: str) -> bool:
    """Whether a TLS server listens there: it may be a gateway that is not trusted here, or that wants a client certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = _split(address)
    try:
        with socket.create_connection((host, port or 0), _TIMEOUT_S) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _owner(port: int) -> str:
    """Returns the program that listens on a port, if the system reveals it."""
    try:
        for found in psutil.net_connections(kind="tcp"):
            if found.status == psutil.CONN_LISTEN and found.pid and getattr(found.laddr, "port", None) == port:
                return f"; it belongs to {psutil.Process(found.pid).name()}, process {found.pid}"
    except (psutil.Error, OSError):
        pass
    return ""


def check_gateway(site: Site) -> Finding:
    """Checks whether the gateway answers, speaks our protocol and accepts our token."""
    connection = site.connection
    if _split(connection.gateway)[1] is None:
        return skipped("its address is not valid")
    try:
        protocols = _protocols(connection)
    except grpc.RpcError as error:
        if not site.gateway_named and "onnection refused" in (error.details() or ""):
            return skipped(f"none runs at {connection.gateway}", "start one when you need it: headrace gateway")
        return _unreached(connection, error)
    if _OURS not in protocols:
        spoken = ", ".join(sorted(protocols)) or "no protocol of Headrace"
        fix = "install releases of Headrace with the same protocol on both sides"
        return failed(f"{connection.gateway} speaks {spoken}, but this installation speaks {_OURS}", fix, EXIT_FAILED)
    return _identified(connection)


def _protocols(connection: Connection) -> set[str]:
    """Returns the protocol versions that a gateway serves. Its health service needs no token.

    Raises:
        grpc.RpcError: The server cannot be reached, or is not a gateway.
    """
    with connection.channel() as channel:
        answer = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest(), timeout=_TIMEOUT_S)
    return {name.rpartition(".")[0] for name in answer.statuses if name.startswith(_PROTOCOL)}


def _identified(connection: Connection) -> Finding:
    try:
        with connection.channel() as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            answer = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        if _code(error) is grpc.StatusCode.PERMISSION_DENIED:
            return ok(f"{connection.gateway} answers and accepts the token, which may not read the status; {_OURS}")
        return _unreached(connection, error)
    draining = ", which is stopping" if answer.gateway.draining else ""
    return ok(f"{connection.gateway} runs version {answer.gateway.version}{draining}; {_OURS}")


def _unreached(connection: Connection, error: grpc.RpcError) -> Finding:
    """Returns the finding for a call that failed."""
    if _code(error) is grpc.StatusCode.UNAUTHENTICATED:
        found = f"{connection.gateway} refuses {'this token' if connection.secret else 'calls without a token'}"
        fix = "pass one of the gateway's tokens with --token-file, --token or HEADRACE_TOKEN; headrace gateway token creates one"
        return failed(found, fix, EXIT_FAILED)
    if _code(error) is grpc.StatusCode.DEADLINE_EXCEEDED:
        fix = "check the address (--gateway), and the network between this machine and the gateway"
        return failed(f"{connection.gateway} did not answer within {_TIMEOUT_S:.0f} s", fix, EXIT_FAILED)
    found, colon, fix = connection.failure(error).message.partition(": ")
    return failed(found, fix if colon else "check the address (--gateway)", EXIT_FAILED)


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    code = error.code()
    assert isinstance(code, grpc.StatusCode)
    return code


def _split(address: str) -> tuple[str, int | None]:
    host, colon, port = address.rpartition(":")
    valid = bool(colon and host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536
    return host.strip("[]"), int(port) if valid else None


def check_health(site: Site) -> list[Finding]:
    """Lists each degraded part of a gateway, with its first cause and its remedy. Check `gateway` names one that is away."""
    connection = site.connection
    try:
        with connection.channel() as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            return [skipped("the token may not read the status", "to check it, pass a token with the right admin")]
        return [skipped(f"no gateway answers at {connection.gateway}")]
    return list(_findings(status)) or [ok("all is well")]


def _findings(status: admin_pb2.GetStatusResponse) -> Iterator[Finding]:
    """Yields a finding for each part where something began. What only follows from another part is counted there."""
    roots = {problem.part for problem in status.problems if problem.root == problem.part}
    listed = [problem for problem in status.problems if problem.part == problem.root or problem.root not in roots]
    for problem in listed[:MAX_COUNT]:
        followers = sum(other.root == problem.part != other.part for other in status.problems)
        yield _finding(problem, followers)
    if len(listed) > MAX_COUNT:
        yield failed(f"degraded, too: {counted(len(listed) - MAX_COUNT, 'more part')}", "list all: headrace status", EXIT_FAILED)


def _finding(problem: admin_pb2.Problem, followers: int) -> Finding:
    """Returns the finding for a part; nothing is wrong with one that is paused or starts."""
    cause = problem.cause if problem.part == problem.root else f"{problem.root}: {problem.cause}"
    waits = f"; {counted(followers, 'more part')} {'waits' if followers == 1 else 'wait'} for it" if followers else ""
    found = f"{problem.part} for {duration_text(problem.age_ms)}: {cause}{waits}"
    return ok(found, problem.remedy) if problem.kind in NO_FAULTS else failed(found, problem.remedy, EXIT_FAILED)
