"""Every connector that has a session works and is heard, and every connector of a deployment has one."""

from collections.abc import Iterator, Mapping

from headrace.contract.counts import counted
from headrace.gateway.core.connections import SILENT_AFTER_S, connector_part
from headrace.gateway.core.status.health.site import Site, paused
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1.connector_pb2 import ConnectorError

RECENT_ERROR_MS = 60_000
"""How long an error counts, in milliseconds, if nothing shows that it is over."""
_CLOCK_MS = 1_000
"""How much earlier than a state its first error may have occurred, in milliseconds: both ages are rounded and sent."""


def of_connectors(site: Site) -> None:
    """Finds what is wrong with the connectors of sources and sinks, and with the processes that should be connectors."""
    for session in site.status.sessions:
        of_session = list(_of_session(site, session))
        site.add(of_session)
        if of_session:
            site.of_session[session.session] = of_session[0]
    for serving in site.status.sink_sessions:
        sink = site.sinks.get(serving.sink)
        fails, outstanding_ms = (bool(sink.failure), sink.outstanding_ms) if sink is not None else (False, 0)
        errors = errors_of_sink(serving, fails=fails, outstanding_ms=outstanding_ms)
        part = connector_part(serving.instance, serving.sink)
        site.add(_silent(part, serving))
        site.add(_reports(part, serving.reported, errors))
    site.add(site.processes.all)
    site.add(site.refused.now)
    for one in site.status.gateway.reconnecting:
        site.add(_reconnects(one))


def _of_session(site: Site, session: pb.SessionStatus) -> Iterator[Problem]:
    part = f"connector {session.instance}"
    yield from _silent(part, session)
    yield from _reports(part, session.reported, errors_of_source(session, site.live_ms))
    if part in site.reconnecting:
        yield from _reconnects(site.reconnecting[part])
    yield from paused(part, session)


def _reconnects(of: pb.ReconnectingPart) -> Iterator[Problem]:
    """Yields that the sessions of a connector end again and again."""
    ended = f"; the last of them that is over ended with: {of.ended}" if of.ended else ""
    cause = f"it has opened {counted(of.sessions, 'session')} in the last minute, and each has ended soon{ended}"
    remedy = (
        "its log says why it connects again; if two processes have this name, and take each other's place, end one of them, or "
        "give each an instance of its own"
    )
    yield Problem(of.part, Kind.CONNECTOR_RECONNECTS, cause, of.age_ms, remedy)


def _silent(part: str, session: pb.SessionStatus | pb.SinkSessionStatus) -> Iterator[Problem]:
    """Yields that a connector sends nothing. It comes before what the connector has reported, which is out of date."""
    if session.HasField("silent_ms"):
        cause = f"it is connected from {session.peer}, and has sent nothing for more than {SILENT_AFTER_S:.0f} s"
        remedy = "check the network between its host and the gateway, and whether its process runs; its session stays open"
        yield Problem(part, Kind.CONNECTOR_SILENT, cause, session.silent_ms, remedy)


def _reports(part: str, reported: pb.ReportedStatus, errors: list[ConnectorError]) -> Iterator[Problem]:
    """Yields what a connector reports: the first error of its state, not the last.

    Args:
        part: The connector.
        reported: Its report.
        errors: The errors that count if it says that it runs.
    """
    remedy = "restore the connector's system, or correct its configuration; its log has more"
    if reported.state in (connector_pb2.CONNECTOR_STATE_DEGRADED, connector_pb2.CONNECTOR_STATE_WAITING):
        of_state = [error for error in reported.errors if error.age_ms <= reported.state_age_ms + _CLOCK_MS]
        cause = ": ".join(text for text in (reported.reason, of_state[0].message if of_state else "") if text)
        what = "is degraded" if reported.state == connector_pb2.CONNECTOR_STATE_DEGRADED else "waits for its system"
        cause = cause or f"it reports that it {what}, and no reason"
        yield Problem(part, Kind.CONNECTOR_REPORTS, cause, reported.state_age_ms, remedy)
    elif errors:
        yield Problem(part, Kind.CONNECTOR_REPORTS, errors[0].message, errors[0].age_ms, remedy)


def errors_of_source(session: pb.SessionStatus, live_ms: Mapping[str, int]) -> list[ConnectorError]:
    """Returns the errors of a source's connector that count, the first one first.

    Errors from before its session or its state are over, and a stream's errors from before the stream was opened again.

    Args:
        session: Its session.
        live_ms: For how long each stream has been live, in milliseconds.
    """
    if not (errors := session.reported.errors):
        return []
    since = min(RECENT_ERROR_MS, session.age_ms, session.reported.state_age_ms)
    return [error for error in errors if error.age_ms <= min(since, live_ms.get(error.stream, since))]


def errors_of_sink(session: pb.SinkSessionStatus, *, fails: bool, outstanding_ms: int) -> list[ConnectorError]:
    """Returns the errors of a sink's connector that count, the first one first.

    Those from before its session, its state, or the last thing that it has done are over.

    Args:
        session: Its session.
        fails: Whether the sink has failed something and nothing has succeeded since: then that is what is wrong.
        outstanding_ms: For how long it has not answered: an error since then counts as long as that lasts.
    """
    if fails:
        return []
    since = min(max(RECENT_ERROR_MS, outstanding_ms), session.age_ms, session.reported.state_age_ms)
    if session.HasField("success_age_ms"):
        since = min(since, session.success_age_ms)
    return [error for error in session.reported.errors if error.age_ms <= since]
