"""Errors that end calls, each with its gRPC status code.

ProtocolError
├── MalformedMessage      INVALID_ARGUMENT     an invalid frame, name or request
├── UnknownStream         NOT_FOUND            a stream id that was never opened
├── UnknownPipeline       NOT_FOUND            a pipeline whose positions this gateway does not know
├── SequenceOutOfRange    OUT_OF_RANGE         a sequence that decreases or is too large
├── LimitExceeded         RESOURCE_EXHAUSTED   credit, frame, session or stream limits
├── OutOfTurn             FAILED_PRECONDITION  a message that the session's state does not allow
├── TooSlow               DEADLINE_EXCEEDED    no Hello in time, or nothing read for too long
├── NotPermitted          PERMISSION_DENIED    the token does not allow it
├── TokenRevoked          UNAUTHENTICATED      the session's token is no longer valid
├── Superseded            ABORTED              a newer session or run has taken over
├── SourceSilent          DEADLINE_EXCEEDED    a source sends none of the messages that a batch needs
├── AtCapacity            UNAVAILABLE          the limit of sessions is reached; try again later
├── Draining              UNAVAILABLE          the gateway is stopping
├── SinkAway              UNAVAILABLE          the sink's session was lost
├── SinkAbsent            DEADLINE_EXCEEDED    no instance of the sink attached in time
├── SinkFailed            ABORTED              a sink has failed a request, or has lost a part
├── OlderCheckpoint       FAILED_PRECONDITION  the sink has committed more than the checkpoint knows
├── SinkLost              DATA_LOSS            a sink has lost what it voted for
└── MessagesLost          DATA_LOSS            a source no longer has what a pipeline must read
"""

from typing import ClassVar

import grpc

from headrace.contract.errors import HeadraceError


class ProtocolError(HeadraceError):
    """Ends the call that caused it with `status`; the message states what is wrong, where, and what to do."""

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    reason: ClassVar[str | None] = None
    """A machine-readable reason, sent as metadata; None if the status code is enough."""


class MalformedMessage(ProtocolError):
    """A frame, a name or a request is invalid."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class UnknownStream(ProtocolError):
    """A frame names a stream id that the session never opened."""

    status = grpc.StatusCode.NOT_FOUND


class UnknownPipeline(ProtocolError):
    """The gateway does not know the pipeline's positions."""

    status = grpc.StatusCode.NOT_FOUND


class SequenceOutOfRange(ProtocolError):
    """A sequence decreases within its session, or is larger than Spark's largest integer."""

    status = grpc.StatusCode.OUT_OF_RANGE


class LimitExceeded(ProtocolError):
    """More was sent or opened than is allowed."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class OutOfTurn(ProtocolError):
    """The session's state does not allow the message."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class TooSlow(ProtocolError):
    """The client did not send Hello in time, or stopped reading for too long."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class NotPermitted(ProtocolError):
    """The caller's token does not permit the request."""

    status = grpc.StatusCode.PERMISSION_DENIED


class TokenRevoked(ProtocolError):
    """The token that opened the session is no longer valid, or its rights have changed."""

    status = grpc.StatusCode.UNAUTHENTICATED


class Superseded(ProtocolError):
    """A newer session of the same instance, or a newer run of the same pipeline, has taken over."""

    status = grpc.StatusCode.ABORTED
    reason = "superseded"


class SourceSilent(ProtocolError):
    """A source has sent none of the messages that a batch needs within the caller's timeout."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class AtCapacity(ProtocolError):
    """The limit of sessions is reached; the client may try again later."""

    status = grpc.StatusCode.UNAVAILABLE


class Draining(ProtocolError):
    """The gateway is stopping; the client should reconnect to another one, or to this one after its restart."""

    status = grpc.StatusCode.UNAVAILABLE


class MessagesLost(ProtocolError):
    """A source no longer has messages that a pipeline must read."""

    status = grpc.StatusCode.DATA_LOSS


class SinkAway(ProtocolError):
    """The session of a sink was lost before it answered."""

    status = grpc.StatusCode.UNAVAILABLE


class SinkAbsent(ProtocolError):
    """No instance of a sink attached in time."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class SinkFailed(ProtocolError):
    """A sink has failed a request, or has lost a part: the batch must be run again."""

    status = grpc.StatusCode.ABORTED


class SinkLost(ProtocolError):
    """An instance of a sink has reconnected without a transaction that it voted for and that is in the commit log."""

    status = grpc.StatusCode.DATA_LOSS


class OlderCheckpoint(ProtocolError):
    """A sink has committed a batch that the pipeline runs again: the checkpoint is older than the sink."""

    status = grpc.StatusCode.FAILED_PRECONDITION
