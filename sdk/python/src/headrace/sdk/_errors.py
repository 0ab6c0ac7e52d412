"""Every error of the SDK.

HeadraceError
├── InvalidSource             the source, or a setting, is invalid
├── InvalidMessage            the source yielded something that cannot be sent
│   └── MessageTooLarge       a single message is above the gateway's limit
├── SourceFailed              a method of the source raised; the cause is attached
├── InvalidSink               the sink is invalid
├── InvalidOutcomes           the sink did not return exactly one outcome for each message
├── SinkFailed                a method of the sink raised before a session could begin; the cause is attached
├── PositionLost              raised *by* a source that no longer has the position
└── SessionEnded              the call to the gateway ended
    ├── GatewayUnavailable    temporary; the SDK retries
    └── GatewayRefused        permanent; the SDK does not retry
        ├── SessionTakenOver  a newer session of the same instance took over
        └── StreamNotPermitted  the token does not allow a stream, or a sink
"""

from headrace.contract.errors import HeadraceError


class InvalidSource(HeadraceError):
    """The source, or a setting, is invalid: for instance a name that is not allowed, or a partition that is listed twice."""

    exit_code = 2


class InvalidMessage(HeadraceError):
    """The source yielded something that cannot be sent: for instance columns of different lengths, or decreasing sequences."""


class MessageTooLarge(InvalidMessage):
    """A single message exceeds the gateway's limit. The error text gives its stream, sequence and size, and the limit."""


class SourceFailed(HeadraceError):
    """A method of the source raised an exception, which is the `__cause__`."""


class InvalidSink(HeadraceError):
    """The sink is invalid: for instance a name that is not allowed, or a folder to which another process writes."""

    exit_code = 2


class InvalidOutcomes(HeadraceError):
    """The sink did not return exactly one outcome for each message. Nothing of the part counts as written."""


class SinkFailed(HeadraceError):
    """A method of the sink raised an exception, the `__cause__`, before a session could begin. The SDK retries."""


class PositionLost(HeadraceError):
    """Raised by a source's `read` if the source no longer has the messages after the position.

    Attributes:
        reason: What happened, in plain text.
        earliest: The first sequence that the source still has; None if it is unknown.
    """

    def __init__(self, reason: str = "the source no longer has this position", *, earliest: int | None = None) -> None:
        """Initializes the error; see the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.earliest = earliest


class SessionEnded(HeadraceError):
    """The call to the gateway ended.

    Attributes:
        status: The name of the gRPC status, such as `UNAVAILABLE`.
        reason: The gateway's reason for programs, such as `CREDIT_OVERRUN`; None if it gave none.
        metadata: The gateway's additions to the reason, such as the name of a limit.
    """

    def __init__(
        self, message: str, status: str = "UNKNOWN", reason: str | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        """Keeps status and reason beside the message."""
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.metadata = dict(metadata or {})


class GatewayUnavailable(SessionEnded):
    """The gateway is unreachable or shutting down, or the connection broke. The SDK reconnects."""


class GatewayRefused(SessionEnded):
    """The gateway refused the session permanently. The SDK does not retry."""


class SessionTakenOver(GatewayRefused):
    """A newer session of the same instance took over. Give every running copy of a connector a different instance."""


class StreamNotPermitted(GatewayRefused):
    """The connector's token does not allow a stream, or a sink."""
