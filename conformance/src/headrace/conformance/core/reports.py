"""The rules for a Report."""

import time
from dataclasses import dataclass, field

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.protocol.v1 import connector_pb2 as pb

_MAX_ERRORS, _MAX_TEXT_BYTES = 100, 4096
_TOLERANCE_MS = 1000
"""For what a connector rounds, and for the time between the start of its process and our note of it."""


@dataclass(frozen=True)
class Received:
    """A Report, and when it arrived, by the monotonic clock."""

    report: pb.Report
    at: float = field(default_factory=time.monotonic)


def wrong_with(received: Received, started: float) -> str | None:
    """Returns what is wrong with a Report of a connector that was started at a time of the monotonic clock."""
    report = received.report
    alive_ms = 1000 * (received.at - started) + _TOLERANCE_MS
    if report.state not in pb.ConnectorState.values() or report.state == pb.CONNECTOR_STATE_UNSPECIFIED:
        return f"the state is {report.state}, which is none that a Report may have"
    if report.state_age_ms > alive_ms:
        return f"state_age_ms is {report.state_age_ms}, and the connector was started {alive_ms - _TOLERANCE_MS:.0f} ms ago"
    if (size := len(report.reason.encode())) > _MAX_TEXT_BYTES:
        return f"the reason has {size} bytes; at most {_MAX_TEXT_BYTES} are allowed"
    if len(report.errors) > _MAX_ERRORS:
        return f"it has {len(report.errors)} errors; at most {_MAX_ERRORS} are allowed"
    for error in report.errors:
        if (size := len(error.message.encode())) > _MAX_TEXT_BYTES:
            return f"the message of an error has {size} bytes; at most {_MAX_TEXT_BYTES} are allowed"
        if (size := len(error.stream.encode())) > MAX_NAME_BYTES:
            return f"the stream of an error has {size} bytes; at most {MAX_NAME_BYTES} are allowed"
        if error.age_ms > alive_ms:
            return f"age_ms of an error is {error.age_ms}, and the connector was started {alive_ms - _TOLERANCE_MS:.0f} ms ago"
    return None
