"""Which of the errors that a connector has reported still count, although it says that it runs."""

from collections.abc import Mapping

from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.connector_pb2 import ConnectorError

RECENT_ERROR_MS = 60_000
"""How long an error counts, in milliseconds, if nothing shows that it is over."""


def errors_of_source(session: pb.SessionStatus, live_ms: Mapping[str, int]) -> list[ConnectorError]:
    """Returns the errors of a source's connector that count, the first one first.

    Those from before its session or its state are over, and those of a stream from before the stream was opened again.

    Args:
        session: Its session.
        live_ms: For how long each stream has been live, in milliseconds.
    """
    since = min(RECENT_ERROR_MS, session.age_ms, session.reported.state_age_ms)
    return [error for error in session.reported.errors if error.age_ms <= min(since, live_ms.get(error.stream, since))]


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
