"""Why a part is not connected, if the gateway itself refuses it: a limit, its token, its rights, its version, its messages."""

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
    when = "" if refused.last_ms <= RECENT_MS else f", {refused.last_ms // 1000} s ago, and it has not called since"
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
