"""The connectors of deployments whose processes fail, as their supervisors report: why a connector has no session."""

from dataclasses import dataclass, field

from headrace.contract.names import source_of
from headrace.gateway.core.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb


@dataclass(frozen=True, slots=True)
class Failing:
    """The problem of each connector whose process fails, by what the connector serves.

    Attributes:
        all: All of them.
        by_source: The first one of each source.
        by_sink: The first one of each sink.
    """

    all: list[Problem] = field(default_factory=list)
    by_source: dict[str, Problem] = field(default_factory=dict)
    by_sink: dict[str, Problem] = field(default_factory=dict)

    def of_stream(self, stream: str) -> Problem | None:
        """Returns why no connector sends a stream, if that is known."""
        return self.by_source.get(source_of(stream))


def failing(status: pb.GetStatusResponse) -> Failing:
    """Returns the connectors whose processes fail. One that has a session works, whatever its supervisor has reported before."""
    connected = {("source", session.instance) for session in status.sessions}
    connected |= {(session.sink, session.instance) for session in status.sink_sessions}
    found = Failing()
    for deployment in status.deployments:
        for connector in deployment.connectors:
            if not connector.failure or (connector.sink or "source", connector.instance) in connected:
                continue
            problem = _problem(deployment, connector)
            found.all.append(problem)
            if connector.source:
                found.by_source.setdefault(connector.source, problem)
            elif connector.sink:
                found.by_sink.setdefault(connector.sink, problem)
    return found


def _problem(deployment: pb.DeploymentStatus, connector: pb.SupervisedConnector) -> Problem:
    part = f"connector {connector.instance}" + (f" of sink {connector.sink}" if connector.sink else "")
    remedy = (
        "correct what the error names; the supervisor starts it again, and "
        f"headrace restart {connector.name} does so at once: {deployment.deployment} has its log"
    )
    return Problem(part, Kind.CONNECTOR_FAILS, f"its process fails: {connector.failure}", connector.failing_ms, remedy)
