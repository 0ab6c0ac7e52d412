"""Which processes of deployments are connected. The gateway tells supervisors, whose tokens need no other right for that."""

from headrace.gateway.core.state import Deployment, Gateway, Process
from headrace.protocol.v1 import admin_pb2 as pb

_ALIVE = (pb.PROCESS_STATE_KIND_STARTS, pb.PROCESS_STATE_KIND_RUNS)

Sessions = frozenset[tuple[str, str]]
"""The sink, empty for a source, and the instance of each session."""


def sessions_of(gateway: Gateway) -> Sessions:
    """Returns who has a session."""
    sources = {("", session.instance) for session in gateway.sessions.values()}
    return frozenset(sources | {(session.hello.sink, session.instance) for session in gateway.sink_sessions.values()})


def look_for_connected(gateway: Gateway, deployment: Deployment, sessions: Sessions) -> None:
    """Notes which processes of a deployment are connected, and wakes the writer of its call after a change."""
    connected = {}
    for name, process in (deployment.processes or {}).items():
        is_alive = process.state.state in _ALIVE and process.state.HasField("pid")
        if is_alive and (_has_session(deployment, name, sessions) or _runs_pipelines(gateway, deployment, process)):
            connected[name] = process.state.pid
    if connected != deployment.connected:
        deployment.connected = connected
        deployment.news.notify()


def connected_message(connected: dict[str, int]) -> pb.ConnectedProcesses:
    """Returns the message about processes for their supervisor."""
    return pb.ConnectedProcesses(processes=[pb.ConnectedProcess(name=name, pid=pid) for name, pid in connected.items()])


def _has_session(deployment: Deployment, name: str, sessions: Sessions) -> bool:
    one = deployment.connectors.get(name)
    return one is not None and bool(one.source or one.sink) and one.session in sessions


def _runs_pipelines(gateway: Gateway, deployment: Deployment, process: Process) -> bool:
    """Whether all pipelines of a process are attached, and by this process: a killed one's stay attached until its lease ends."""
    state = process.state
    is_known = deployment.connected.get(state.name) == state.pid
    begun_at = process.at - state.state_age_ms / 1000
    pipelines = [gateway.pipelines.get(name) for name in state.pipelines]
    return bool(pipelines) and all(
        one is not None and one.attached and (is_known or one.called_at >= begun_at) for one in pipelines
    )
