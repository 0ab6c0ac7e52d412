"""The last error of a stream, a pipeline or a sink, which is kept after it is over."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.contract import clock
from headrace.protocol.v1 import admin_pb2, connector_pb2

MAX_LENGTH = 300
"""How many characters of an error are kept."""
_SAME_S = 2.0
"""Reports tell the same error with ages that differ a little."""


@dataclass(frozen=True, slots=True)
class LastError:
    """What went wrong last.

    Attributes:
        message: The error.
        occurred_at: When, on the monotonic clock.
        at: When, in seconds since 1970-01-01 UTC. It is kept, so that a status repeats it to the millisecond.
    """

    message: str
    occurred_at: float
    at: float

    def status(self) -> admin_pb2.PartError:
        """Returns it as of now."""
        age_ms = max(0, int((clock.monotonic() - self.occurred_at) * 1000))
        return admin_pb2.PartError(message=self.message, age_ms=age_ms, at_ms=max(0, int(self.at * 1000)))


def later(earlier: LastError | None, message: str, age_ms: int = 0) -> LastError | None:
    """Returns the later one of two errors.

    Args:
        earlier: The last error until now; None if there was none.
        message: What another report says; empty for nothing.
        age_ms: How long ago that was, in milliseconds.
    """
    if not message:
        return earlier
    passed_s = min(age_ms, 2**53) / 1000
    occurred_at = clock.monotonic() - passed_s
    if earlier is not None:
        is_same = earlier.message == message[:MAX_LENGTH] and abs(earlier.occurred_at - occurred_at) < _SAME_S
        if is_same or earlier.occurred_at > occurred_at:
            return earlier
    return LastError(message[:MAX_LENGTH], occurred_at, clock.now() - passed_s)


def by_stream(errors: Iterable[connector_pb2.ConnectorError]) -> Mapping[str, connector_pb2.ConnectorError]:
    """Returns the last error of each stream that errors of a connector name."""
    return {error.stream: error for error in sorted(errors, key=lambda one: -one.age_ms) if error.stream}
