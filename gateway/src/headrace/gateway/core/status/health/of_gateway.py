"""The gateway: it runs on, its clock is right, its files and its work are in order, it is connected, and whom it refuses."""

from collections.abc import Iterator
from dataclasses import replace

from headrace.gateway.core.connections import Role
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.gateway.own_faults import OwnFaultKind
from headrace.protocol.v1 import admin_pb2 as pb

RECENT_MS = 60_000
"""For how long after its last call a refused part is degraded, in milliseconds, if nothing else shows that it is away."""


class Refused:
    """The refusals of a status.

    Attributes:
        by_part: The refusal of each part that is not connected since, by the part.
        current: Those of them that have called lately.
    """

    def __init__(self, status: pb.GetStatusResponse) -> None:
        self._status = status
        connected = _connected(status) if status.gateway.refusals else set()
        self._strangers = [one for one in status.gateway.refusals if not one.part and one.last_ms <= RECENT_MS]
        known = [one for one in status.gateway.refusals if one.part and one.part not in connected]
        self.by_part = {one.part: _problem(one) for one in known}
        self.current = {one.part for one in known if one.last_ms <= RECENT_MS}

    @property
    def now(self) -> list[Problem]:
        """The parts that call, and are refused each time."""
        return [problem for part, problem in self.by_part.items() if part in self.current]

    def of_sink(self, sink: str) -> Problem | None:
        """Returns the refusal of an instance of a sink, if there is one."""
        ending = f" of sink {sink}"
        return next((one for part, one in self.by_part.items() if part.startswith("connector ") and part.endswith(ending)), None)

    def why(self, away: Problem, role: Role | None = None) -> Problem:
        """Returns the problem of a part that is not connected: with its refusal as the cause, if there may be one.

        Args:
            away: Its problem without regard to refusals.
            role: Its role; None for any.
        """
        if (refusal := self.by_part.get(away.part)) is not None:
            return refusal
        gateway = self._status.gateway
        if gateway.draining:
            return replace(away, root="gateway", remedy="start the gateway again, or wait for its successor")
        for fault in gateway.own_faults:
            if fault.kind == OwnFaultKind.DESCRIPTORS_EXHAUSTED:
                return Problem(fault.part, Kind(fault.kind), fault.cause, fault.age_ms, fault.remedy).within(away.part)
        strangers = [one for one in self._strangers if role is None or one.role == role]
        if strangers:
            last = min(strangers, key=lambda one: one.last_ms)
            text = f"{away.cause}; a {last.role} that calls from {last.peer} is refused: {last.cause}"
            return replace(away, cause=text, remedy=last.remedy)
        return away


def _problem(refused: pb.RefusedCall) -> Problem:
    what = "the gateway has ended its session" if refused.was_admitted else "the gateway refuses it"
    when = "" if refused.last_ms <= RECENT_MS else ", and it has not called since"
    cause = f"{what}{when}: {refused.cause} (from {refused.peer})"
    return Problem(refused.part, Kind.REFUSED, cause, refused.age_ms, refused.remedy)


def _connected(status: pb.GetStatusResponse) -> set[str]:
    """Returns the parts that are connected, so that a refusal of the same name is over, or concerns somebody else."""
    found = {f"connector {session.instance}" for session in status.sessions}
    found |= {f"connector {session.instance} of sink {session.sink}" for session in status.sink_sessions}
    found |= {f"pipeline {one.pipeline}" for one in status.pipelines if one.state == pb.PIPELINE_STATE_ATTACHED}
    found |= {f"deployment {one.deployment}" for one in status.deployments}
    states = (pb.STREAM_STATE_LIVE, pb.STREAM_STATE_PARKED)
    return found | {f"stream {stream.stream}" for stream in status.streams if stream.state in states}


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
