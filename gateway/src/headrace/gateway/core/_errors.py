"""What a caller did wrong, or cannot have, with the gRPC status that says so.

ProtocolError
├── MalformedMessage      INVALID_ARGUMENT     a frame, name or request that does not add up
├── UnknownStream         NOT_FOUND            a stream id that was never opened
├── UnknownPipeline       NOT_FOUND            positions that this gateway has not been told
├── SequenceOutOfRange    OUT_OF_RANGE         a sequence that steps back or is too large
├── LimitExceeded         RESOURCE_EXHAUSTED   credit, frame, session or stream limits
├── OutOfTurn             FAILED_PRECONDITION  a message that the session's state does not allow
├── TooSlow               DEADLINE_EXCEEDED    no Hello in time, or nothing read for too long
├── NotPermitted          PERMISSION_DENIED    the token does not allow it
├── TokenRevoked          UNAUTHENTICATED      the session's token is in force no longer
├── Superseded            ABORTED              a newer session or run has taken over
├── SourceSilent          DEADLINE_EXCEEDED    a source that sends nothing of what a batch needs
├── AtCapacity            UNAVAILABLE          as many sessions as there may be; later there may be room
├── Draining              UNAVAILABLE          the gateway is stopping
├── SinkAway              UNAVAILABLE          the sink's session was lost
├── SinkAbsent            DEADLINE_EXCEEDED    no instance of the sink came in time
├── SinkFailed            ABORTED              a sink could not do it, or has lost a part
├── OlderCheckpoint       FAILED_PRECONDITION  the sink has committed more than the checkpoint knows
├── SinkLost              DATA_LOSS            a sink has lost what it voted for
└── MessagesLost          DATA_LOSS            a source no longer has what a pipeline must read
"""

from typing import ClassVar

import grpc


class ProtocolError(Exception):
    """Ends the call that caused it with `status`; the message says what was wrong, where, and what to do."""

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    reason: ClassVar[str | None] = None
    """What tells programs more than the status does, where one status has several meanings."""


class MalformedMessage(ProtocolError):
    """A frame, a stream name or a request does not add up."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class UnknownStream(ProtocolError):
    """A frame names a stream id that the session never opened."""

    status = grpc.StatusCode.NOT_FOUND


class UnknownPipeline(ProtocolError):
    """The gateway does not know the pipeline's positions."""

    status = grpc.StatusCode.NOT_FOUND


class SequenceOutOfRange(ProtocolError):
    """A sequence steps back within its session, or is larger than Spark's largest integer."""

    status = grpc.StatusCode.OUT_OF_RANGE


class LimitExceeded(ProtocolError):
    """More was sent or opened than is allowed."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class OutOfTurn(ProtocolError):
    """The session's state does not allow the message."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class TooSlow(ProtocolError):
    """The other side did not speak, or did not listen, in time."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class NotPermitted(ProtocolError):
    """The caller's token does not allow what it asks for."""

    status = grpc.StatusCode.PERMISSION_DENIED


class TokenRevoked(ProtocolError):
    """The token that a session was opened with is in force no longer, or has other rights."""

    status = grpc.StatusCode.UNAUTHENTICATED


class Superseded(ProtocolError):
    """A newer session of the same instance, or a newer run of the same pipeline, has taken over."""

    status = grpc.StatusCode.ABORTED
    reason = "superseded"


class SourceSilent(ProtocolError):
    """A source has sent nothing of what a batch needs for as long as its caller wants to wait."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class AtCapacity(ProtocolError):
    """There are as many sessions as there may be: worth another try, later."""

    status = grpc.StatusCode.UNAVAILABLE


class Draining(ProtocolError):
    """The gateway is stopping; another one, or the same one restarted, will serve."""

    status = grpc.StatusCode.UNAVAILABLE


class MessagesLost(ProtocolError):
    """A source no longer has messages that a pipeline must read."""

    status = grpc.StatusCode.DATA_LOSS


class SinkAway(ProtocolError):
    """The session of a sink was lost before it answered."""

    status = grpc.StatusCode.UNAVAILABLE


class SinkAbsent(ProtocolError):
    """No instance of a sink came in time."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class SinkFailed(ProtocolError):
    """A sink could not do what it was asked, or has lost a part: the batch must be run again."""

    status = grpc.StatusCode.ABORTED


class SinkLost(ProtocolError):
    """An instance of a sink has come back without what it voted for, though that is in the commit log."""

    status = grpc.StatusCode.DATA_LOSS


class OlderCheckpoint(ProtocolError):
    """A sink has committed a batch that the pipeline runs again: its checkpoint is older than the sink."""

    status = grpc.StatusCode.FAILED_PRECONDITION
