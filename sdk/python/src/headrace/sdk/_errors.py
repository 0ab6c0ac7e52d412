"""Every error of the SDK.

HeadraceError
├── InvalidSource             the source, or a setting, cannot be run as it is
├── InvalidMessage            the source gave something that cannot be sent
│   └── MessageTooLarge       a single message is above the gateway's limit
├── SourceFailed              a method of the source raised; the cause is attached
├── InvalidSink               the sink cannot be run as it is
├── InvalidOutcomes           the sink did not say of each message what became of it
├── SinkFailed                a method of the sink raised before a session could begin; the cause is attached
├── PositionLost              raised *by* a source that no longer has the position
└── SessionEnded              the call to the gateway ended
    ├── GatewayUnavailable    worth another attempt; the SDK makes it by itself
    └── GatewayRefused        not worth another attempt
        ├── SessionTakenOver  a newer session of the same instance took over
        └── StreamNotPermitted  the token does not allow a stream, or a sink
"""


class HeadraceError(Exception):
    """The root of all errors of the SDK."""

    exit_code = 1


class InvalidSource(HeadraceError):
    """The source, or a setting, cannot be run as it is: a name that is not allowed, a partition listed twice."""

    exit_code = 2


class InvalidMessage(HeadraceError):
    """The source gave a message or batch that cannot be sent: columns that differ in length, a sequence that steps back."""


class MessageTooLarge(InvalidMessage):
    """A single message is larger than the gateway takes. The message names its stream, sequence and size, and the limit."""


class SourceFailed(HeadraceError):
    """A method of the source raised. The exception is the `__cause__`."""


class InvalidSink(HeadraceError):
    """The sink cannot be run as it is: a name that is not allowed, a folder that another process writes to."""

    exit_code = 2


class InvalidOutcomes(HeadraceError):
    """The sink did not say of each message exactly once what became of it. Nothing of the part counts as written."""


class SinkFailed(HeadraceError):
    """A method of the sink raised before a session could begin; the `__cause__` says what. The SDK tries again by itself."""


class PositionLost(HeadraceError):
    """Raise it from `read` when the source no longer has what comes after the position.

    Attributes:
        reason: What happened, for people.
        earliest: The first sequence that the source can still give, or None where it cannot tell.
    """

    def __init__(self, reason: str = "the source no longer has this position", *, earliest: int | None = None) -> None:
        """Keeps the reason and the earliest sequence."""
        super().__init__(reason)
        self.reason = reason
        self.earliest = earliest


class SessionEnded(HeadraceError):
    """The call to the gateway ended.

    Attributes:
        status: The name of the gRPC status, such as `UNAVAILABLE`.
    """

    def __init__(self, message: str, status: str = "UNKNOWN") -> None:
        """Keeps the status beside the message."""
        super().__init__(message)
        self.status = status


class GatewayUnavailable(SessionEnded):
    """The gateway is away, stops, or the connection broke. The SDK connects again by itself."""


class GatewayRefused(SessionEnded):
    """The gateway refused the session, and would again."""


class SessionTakenOver(GatewayRefused):
    """A newer session of the same instance took over. Give every running copy of a connector an instance of its own."""


class StreamNotPermitted(GatewayRefused):
    """The connector's token does not allow a stream, or a sink."""
