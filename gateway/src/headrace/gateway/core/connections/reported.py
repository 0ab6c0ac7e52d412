"""What a connector says of itself: its SDK in Hello, and its state and errors in Reports."""

from dataclasses import dataclass

from headrace.contract import clock
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.core.base.bounds import check_count
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.protocol.v1 import admin_pb2, connector_pb2

MAX_ERRORS = 100
"""Errors in one Report, and kept errors of a session."""
MAX_TEXT_BYTES = 4096
"""The size in bytes of a reason, and of an error's message."""
KEPT_BYTES = 32 * 1024
"""The size in bytes of the texts of a session's errors that are kept; the last error is kept in any case."""
STATUS_BYTES = 2**20
"""The size in bytes of the errors of all sessions in one status."""
_ERROR_BYTES = 64
"""The size in bytes that an error counts for, besides its texts."""
RECENT_S = 10.0
"""How old an error may be, in seconds, to explain the end of a session."""
_MAX_AGE_MS = 2**63 - 1

_STATES = frozenset(connector_pb2.ConnectorState.values()) - {connector_pb2.CONNECTOR_STATE_UNSPECIFIED}


@dataclass(frozen=True, slots=True)
class _Error:
    message: str
    stream: str
    occurred_at: float
    """On the monotonic clock."""
    size: int


class Reported:
    """The reports of the connector of one session. Bounded, however often it reports."""

    def __init__(self, sdk: connector_pb2.Sdk | None) -> None:
        self._sdk = sdk
        self._state = connector_pb2.CONNECTOR_STATE_UNSPECIFIED
        self._since = 0.0
        self._reason = ""
        self._errors: list[_Error] = []
        self._errors_bytes = 0
        self.last_words = ""
        """The reason in its Goodbye."""

    @property
    def has_errors(self) -> bool:
        """Whether the connector has reported an error."""
        return bool(self._errors)

    @property
    def is_impaired(self) -> bool:
        """Whether the connector says that it does not work as it should, or not yet."""
        return self._state not in (connector_pb2.CONNECTOR_STATE_UNSPECIFIED, connector_pb2.CONNECTOR_STATE_RUNNING)

    @property
    def last_error(self) -> str:
        """Why its session has ended, as far as it has said: its last words, or else its last error if that is recent."""
        last = self._errors[-1] if self._errors else None
        recent = last is not None and clock.monotonic() - last.occurred_at < RECENT_S
        return self.last_words or (last.message if last is not None and recent else "")

    def take(self, report: connector_pb2.Report) -> None:
        """Takes a Report: its state replaces the former one, its errors are added.

        Raises:
            MalformedMessage: its state is unknown, or a text in it is too long.
            ListTooLong: it has too many errors.
        """
        check_count("errors", report.errors, MAX_ERRORS)
        if report.state not in _STATES:
            raise MalformedMessage(f"Report with state {report.state}: it is not one of the ConnectorStates")
        _check_text("reason", report.reason, MAX_TEXT_BYTES)
        for error in report.errors:
            _check_text("error", error.message, MAX_TEXT_BYTES)
            _check_text("error's stream", error.stream, MAX_NAME_BYTES)
        now = clock.monotonic()
        self._state, self._reason, self._since = report.state, report.reason, now - report.state_age_ms / 1000
        for error in report.errors:
            size = len(error.message.encode()) + len(error.stream.encode()) + _ERROR_BYTES
            self._errors.append(_Error(error.message, error.stream, now - error.age_ms / 1000, size))
            self._errors_bytes += size
        while len(self._errors) > MAX_ERRORS or (self._errors_bytes > KEPT_BYTES and len(self._errors) > 1):
            self._errors_bytes -= self._errors.pop(0).size

    def status(self, errors_bytes: int) -> admin_pb2.ReportedStatus:
        """Returns the status, with the last errors that fit in `errors_bytes`, and in any case the last one."""
        known = self._state != connector_pb2.CONNECTOR_STATE_UNSPECIFIED
        return admin_pb2.ReportedStatus(
            sdk=self._sdk,
            state=self._state,
            state_age_ms=_ms_since(self._since) if known else 0,
            reason=self._reason,
            errors=[
                connector_pb2.ConnectorError(message=error.message, age_ms=_ms_since(error.occurred_at), stream=error.stream)
                for error in self._last(errors_bytes)
            ],
        )

    def _last(self, size: int) -> list[_Error]:
        """Returns the last errors that fit in a size, oldest first; at least one, if there is any."""
        found: list[_Error] = []
        for error in reversed(self._errors):
            size -= error.size
            if found and size < 0:
                break
            found.append(error)
        return found[::-1]


def _check_text(what: str, text: str, most: int) -> None:
    """Checks the size of a text in a Report.

    Raises:
        MalformedMessage: it is too long.
    """
    if len(text) > most or len(text.encode()) > most:
        raise MalformedMessage(f"{what} in Report, {text[:80]!r}...: it has at most {most} bytes")


def _ms_since(moment: float) -> int:
    return min(_MAX_AGE_MS, max(0, int((clock.monotonic() - moment) * 1000)))
