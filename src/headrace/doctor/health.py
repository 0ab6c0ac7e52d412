"""The check of a running gateway's health: the faults that its `/readyz` names, its own and those around it."""

from collections.abc import Iterator

import grpc

from headrace.doctor.finding import Finding, Site, failed, ok, skipped
from headrace.gateway_status.words import NO_FAULTS
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc
from headrace.terminal import EXIT_FAILED, duration_text

MAX_COUNT = 20
"""How many parts are listed."""
_TIMEOUT_S = 2.0


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
        yield failed(f"{len(listed) - MAX_COUNT:,} more parts are degraded", "list all: headrace status", EXIT_FAILED)


def _finding(problem: admin_pb2.Problem, followers: int) -> Finding:
    """Returns the finding for a part; nothing is wrong with one that is paused or starts."""
    cause = problem.cause if problem.part == problem.root else f"{problem.root}: {problem.cause}"
    waits = "; 1 more part waits for it" if followers == 1 else f"; {followers:,} more parts wait for it" if followers else ""
    found = f"{problem.part} for {duration_text(problem.age_ms)}: {cause}{waits}"
    return ok(found, problem.remedy) if problem.kind in NO_FAULTS else failed(found, problem.remedy, EXIT_FAILED)
