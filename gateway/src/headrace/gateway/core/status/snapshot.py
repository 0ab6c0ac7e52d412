"""A snapshot of the gateway's state, for GetStatus."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from headrace.contract import clock
from headrace.contract.names import source_of
from headrace.gateway.core.base.position import to_stream_positions
from headrace.gateway.core.base.turns import in_slices, parts_of, sorted_items
from headrace.gateway.core.connections import STATUS_BYTES
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.sinks import SinkSession, Transaction
from headrace.gateway.core.state import Deployment, Gateway, Supervised
from headrace.gateway.core.status import condition
from headrace.gateway.core.status.pipeline_status import Lag, pipeline_status
from headrace.gateway.core.status.sink_status import sink_status
from headrace.gateway.core.status.stream_status import add_stream, ms_since, pause_status
from headrace.gateway.core.streams import PartKind, Session, Stream, Totals
from headrace.protocol.v1 import admin_pb2 as pb

VERSION = version("headrace-gateway")


async def snapshot(gateway: Gateway) -> pb.GetStatusResponse:
    """Returns the status of the gateway, its streams, sessions, pipelines and sinks.

    Of few parts it shows one moment. Of many parts it is taken in slices, so that sessions do not wait: all it tells of one
    part is of one moment.
    """
    status = pb.GetStatusResponse()
    await in_slices(_fill(status, gateway))
    return status


def _fill(status: pb.GetStatusResponse, gateway: Gateway) -> Iterator[int]:
    """Fills the status; yields how many entries it took with each part."""
    sessions: list[Session | SinkSession] = [*gateway.sessions.values(), *gateway.sink_sessions.values()]
    room = STATUS_BYTES // max(1, sum(session.reported.has_errors for session in sessions))
    yield len(sessions)
    of_pipelines = _Reading()
    yield from _add_streams(status, gateway, of_pipelines)
    _fill_gateway(status.gateway, gateway, of_pipelines)
    for session in list(gateway.sessions.values()):
        status.sessions.append(_session(session, gateway, room))
        yield 1 + len(session.attachments)
    by_source: dict[str, list[str]] = {}
    for name in gateway.streams:
        by_source.setdefault(source_of(name), []).append(name)
    for _, pipeline in sorted(gateway.pipelines.items()):
        status.pipelines.append(pipeline_status(pipeline, gateway, of_pipelines.lags.get(pipeline, Lag()), by_source))
        yield 1
        for positions in parts_of(sorted_items(pipeline.committed)):
            status.pipelines[-1].committed.extend(to_stream_positions(dict(positions)))
            yield len(positions)
    lost: dict[str, list[pb.LostVote]] = {}
    for voter, batch in gateway.votes.lost():
        vote = pb.LostVote(instance=voter.instance, transaction=Transaction(voter.pipeline, batch).to_proto())
        lost.setdefault(voter.sink, []).append(vote)
        yield 1
    for _, sink in sorted(gateway.sinks.items()):
        status.sinks.append(sink_status(sink, gateway, lost.get(sink.name, [])))
        yield 1 + len(sink.committed)
    for sink_session in list(gateway.sink_sessions.values()):
        status.sink_sessions.append(_sink_session(sink_session, gateway, room))
        yield 1
    for _, deployment in sorted(gateway.deployments.by_name.items()):
        status.deployments.append(_deployment(deployment))
        yield 1 + len(deployment.connectors) + len(deployment.processes or ())


@dataclass(slots=True)
class _Reading:
    """The sums over the streams while they are looked at."""

    totals: Totals = field(default_factory=Totals)
    buffered_bytes: int = 0
    buffered_messages: int = 0
    lags: dict[Pipeline, Lag] = field(default_factory=dict)

    def add(self, stream: Stream) -> None:
        """Adds a stream."""
        self.totals.add(stream)
        self.buffered_bytes += stream.held_bytes
        self.buffered_messages += stream.held_messages
        for pipeline in stream.readers:
            messages, size = stream.lag_after(pipeline.position(stream.name))
            if not (messages or size):
                continue
            lag = self.lags.setdefault(pipeline, Lag())
            lag.messages, lag.bytes = lag.messages + messages, lag.bytes + size
            since = pipeline.behind_since.get(stream.name, pipeline.called_at)
            lag.since = since if lag.since is None else min(lag.since, since)


def _add_streams(status: pb.GetStatusResponse, gateway: Gateway, reading: _Reading) -> Iterator[int]:
    by_instance: dict[str, list[Session]] = {}
    for session in gateway.sessions.values():
        by_instance.setdefault(session.instance, []).append(session)
    for _, stream in sorted_items(gateway.streams):
        add_stream(status, stream, _session_of(stream, by_instance), clock.monotonic())
        reading.add(stream)
        yield 1 + len(stream.readers)


def _deployment(deployment: Deployment) -> pb.DeploymentStatus:
    connectors = sorted(deployment.connectors.items())
    return pb.DeploymentStatus(
        deployment=deployment.name,
        run=deployment.run,
        peer=deployment.peer,
        age_ms=ms_since(deployment.since),
        connectors=[_supervised(name, one) for name, one in connectors],
        restarting=sorted(order.connector for order in deployment.orders.values() if order.action == "restart"),
        replaying=sorted(order.connector for order in deployment.orders.values() if order.replay is not None),
        processes=[process.now() for _, process in sorted((deployment.processes or {}).items())],
        file_fault=deployment.file_fault,
        file_fault_age_ms=ms_since(deployment.file_fault_since) if deployment.file_fault else None,
    )


def _supervised(name: str, connector: Supervised) -> pb.SupervisedConnector:
    since, unconnected = connector.failing_since, connector.unconnected_since
    return pb.SupervisedConnector(
        name=name,
        instance=connector.instance,
        replays=connector.replays,
        source=connector.source,
        sink=connector.sink,
        failure=connector.failure,
        failing_ms=None if since is None else ms_since(since),
        unconnected_ms=None if unconnected is None else ms_since(unconnected),
    )


def _fill_gateway(status: pb.GatewayStatus, gateway: Gateway, reading: _Reading) -> None:
    totals = gateway.forgotten.plus(reading.totals)
    jump_ms, jump_age_ms = gateway.clock_jumps.jump or (None, None)
    found = pb.GatewayStatus(
        version=VERSION,
        uptime_ms=ms_since(gateway.started_at),
        buffered_bytes=reading.buffered_bytes,
        buffer_limit_bytes=gateway.limits.buffer_bytes,
        draining=gateway.draining,
        rejected_sessions=gateway.rejected_sessions,
        received_frames=gateway.frames_received,
        received_messages=totals.received_messages,
        received_bytes=totals.received_bytes,
        acknowledged_messages=totals.acknowledged_messages,
        duplicate_messages=totals.duplicate_messages,
        losses=totals.losses,
        buffered_messages=reading.buffered_messages,
        clock_jump_ms=jump_ms,
        clock_jump_age_ms=jump_age_ms,
        unconnected_ms=None if gateway.unconnected_since is None else ms_since(gateway.unconnected_since),
        own_faults=[
            pb.GatewayFault(part=one.part, kind=one.kind, cause=one.cause, remedy=one.remedy, age_ms=one.age_ms)
            for one in gateway.own_faults
        ],
        refusals=[one.status() for one in gateway.refusals],
        reconnecting=gateway.reconnections.status(),
        lost_supervisors=gateway.deployments.absent(),
        certificates=[
            pb.CertificateStatus(file=file, expires_at_s=expires_at_s)
            for file, expires_at_s in sorted(gateway.certificates.items())
        ],
    )
    status.CopyFrom(found)


def _session_of(stream: Stream, by_instance: Mapping[str, list[Session]]) -> str:
    """Returns the id of the session that sends a stream, or else of one of its last instance that may; empty if there is none."""
    if stream.attachment is not None:
        return stream.attachment.session.id
    same = by_instance.get(stream.last_instance, [])
    return next((session.id for session in same if session.identity.may_open(stream.name)), "")


def _session(session: Session, gateway: Gateway, errors_bytes: int) -> pb.SessionStatus:
    account = session.account
    pause = gateway.pauses.of(PartKind.CONNECTOR, session.instance)
    return pb.SessionStatus(
        session=session.id,
        connector=session.hello.connector,
        connector_version=session.hello.connector_version,
        instance=session.instance,
        peer=session.peer,
        age_ms=ms_since(session.opened_at),
        streams=sum(1 for _ in session.open_attachments()),
        credit_bytes=account.bytes_left,
        credit_messages=account.messages_left,
        outstanding_bytes=account.bytes_held,
        outstanding_messages=account.messages_held,
        linger_ms=session.linger_ms,
        paused=pause_status(pause),
        reported=session.reported.status(errors_bytes),
        silent_ms=session.heartbeat.silent_ms,
        condition=condition.of_session(session, paused=pause is not None),
    )


def _sink_session(session: SinkSession, gateway: Gateway, errors_bytes: int) -> pb.SinkSessionStatus:
    pause = gateway.pauses.of(PartKind.SINK, session.hello.sink)
    return pb.SinkSessionStatus(
        session=session.id,
        sink=session.hello.sink,
        connector=session.hello.connector,
        connector_version=session.hello.connector_version,
        instance=session.instance,
        peer=session.peer,
        age_ms=ms_since(session.opened_at),
        reported=session.reported.status(errors_bytes),
        silent_ms=session.heartbeat.silent_ms,
        success_age_ms=None if session.succeeded_at is None else ms_since(session.succeeded_at),
        condition=condition.of_sink_session(session, paused=pause is not None),
    )
