"""The last error of each part of a status: when it was, and whether it is over."""

from datetime import UTC, datetime, timedelta

from headrace.gateway_status.document import NO_FAULTS, LastErrorFields
from headrace.gateway_status.fields import time_text
from headrace.protocol.v1.admin_pb2 import GetStatusResponse, PipelineStatus, ReportedStatus, SinkStatus, StreamStatus
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_DEGRADED, CONNECTOR_STATE_WAITING

NONE: LastErrorFields = {"last_error": None, "last_error_age_ms": None}


class LastErrors:
    """The last errors of a status. One is over once health lists no problem of its part."""

    def __init__(self, status: GetStatusResponse, at: datetime) -> None:
        """Creates them.

        Args:
            status: The status.
            at: When it was taken.
        """
        self._at = at
        self._troubled = {problem.part for problem in status.problems if problem.kind not in NO_FAULTS}
        self._is_whole = status.problems_in_all <= len(status.problems)

    def of_part(self, part: str, status: StreamStatus | PipelineStatus | SinkStatus) -> LastErrorFields:
        """Returns the last error of a stream, a pipeline or a sink."""
        if not status.HasField("error"):
            return NONE
        error = status.error
        at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=min(error.at_ms, _LATEST_MS))
        return self._fields(error.message, error.age_ms, at, part)

    def of_connector(self, reported: ReportedStatus, *parts: str) -> LastErrorFields:
        """Returns the last error of a connector: the reason of its state, or else the last error of its session.

        Args:
            reported: Its report.
            parts: It, and its sink if it serves one.
        """
        if reported.reason:
            message, age_ms = reported.reason, reported.state_age_ms
        elif reported.errors:
            message, age_ms = reported.errors[-1].message, reported.errors[-1].age_ms
        else:
            return NONE
        at = self._at - timedelta(milliseconds=min(age_ms, self._at.timestamp() * 1000))
        lasts = reported.state in (CONNECTOR_STATE_DEGRADED, CONNECTOR_STATE_WAITING)
        return self._fields(message, age_ms, at, *parts, lasts=lasts)

    def _fields(self, message: str, age_ms: int, at: datetime, *parts: str, lasts: bool = False) -> LastErrorFields:
        is_over = not lasts and self._is_whole and self._troubled.isdisjoint(parts)
        return {
            "last_error": {"message": message, "at": time_text(at, "seconds"), "is_over": is_over},
            "last_error_age_ms": age_ms,
        }


_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999: a datetime can be no later."""
