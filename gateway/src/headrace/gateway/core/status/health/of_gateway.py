"""The gateway: it runs on, its clock is right, its files are valid, its own work succeeds, and something is connected to it."""

from collections.abc import Iterator

from headrace.gateway.core.status.health.of_refusals import Refused
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb

CONNECTS_WITHIN_MS = 8_000
"""For how long nothing may be connected, such as after a start, in milliseconds."""


def of_gateway(gateway: pb.GatewayStatus) -> Iterator[Problem]:
    """Yields what is wrong with the gateway itself."""
    if gateway.draining:
        yield Problem("gateway", Kind.STOPPING, "the gateway is stopping", 0, "start it again, or wait for its successor")
    if gateway.HasField("clock_jump_ms"):
        way = "forward" if gateway.clock_jump_ms > 0 else "back"
        cause = f"the clock of its machine was set {way} by {abs(gateway.clock_jump_ms) / 1000:.1f} s"
        remedy = "check the machine's time service; functions that use the time of day may have been wrong"
        yield Problem("gateway", Kind.CLOCK_JUMPED, cause, gateway.clock_jump_age_ms, remedy)
    for fault in gateway.own_faults:
        yield Problem(fault.part, Kind(fault.kind), fault.cause, fault.age_ms, fault.remedy)


def of_nothing_connected(status: pb.GetStatusResponse) -> Iterator[Problem]:
    """Yields that nothing at all is connected. Parts that are known to be away have been named before."""
    if status.sessions or status.sink_sessions or status.deployments or any(one.attached for one in status.pipelines):
        return
    if status.gateway.unconnected_ms >= CONNECTS_WITHIN_MS and not status.gateway.draining:
        cause = "nothing is connected to it: no connector, no query and no deployment"
        remedy = (
            "start what uses this gateway; if it runs, compare its address of the gateway, its token and its proxy settings "
            "(HTTPS_PROXY, NO_PROXY): its log says why it does not connect"
        )
        yield Refused(status).why(Problem("gateway", Kind.NOT_CONNECTED, cause, status.gateway.unconnected_ms, remedy))
