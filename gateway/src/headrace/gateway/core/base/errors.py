"""Errors that end calls, each with its gRPC status code; errors that end sessions of connectors have a reason for programs.

ProtocolError
├── MalformedMessage      INVALID_ARGUMENT     an invalid frame, name or request
├── UnknownStream         NOT_FOUND            a stream id that was never opened
├── UnknownPipeline       NOT_FOUND            a pipeline whose positions this gateway does not know
├── SequenceOutOfRange    OUT_OF_RANGE         a sequence that decreases or is too large
├── LimitExceeded         RESOURCE_EXHAUSTED   a limit of the gateway
│   ├── FrameTooLarge                          a frame above the limits
│   ├── CreditOverrun                          a frame without credit for it
│   ├── TooManyStreams                         more streams, or stream ids, than a session may have
│   ├── TooManyNames                           more streams, sinks or pipelines than the gateway keeps
│   └── ListTooLong                            a list in a message
├── OutOfTurn             FAILED_PRECONDITION  a message that the session's state does not allow
│   ├── NoMessage                              a call that has ended before its first message
│   ├── VersionUnsupported                     a protocol version that the gateway does not speak
│   ├── UnknownMessage                         a message of a kind that the gateway does not know
│   ├── ModeMismatch                           a sink whose other instances have another mode
│   ├── NotAtOnce                              a sink that does not write before the vote
│   ├── NotReplayable                          a source that cannot be followed
│   └── EpochOver                              a range that a resumable source will not send as it was planned
├── TooSlow               DEADLINE_EXCEEDED
│   ├── HelloTimeout                           no Hello in time
│   └── ReadTimeout                            nothing read for too long
├── NotPermitted          PERMISSION_DENIED    the token does not allow it
├── TokenRevoked          UNAUTHENTICATED      the session's token is no longer valid
├── Superseded            ABORTED              a newer session or run has taken over
├── RunStopped            ABORTED              the run was stopped: nobody waits for the call
├── UnknownPart           NOT_FOUND            a part that this gateway does not know, in a request to change it
├── ChangeRefused         FAILED_PRECONDITION  a change that the state of a part does not allow
├── SourceSilent          DEADLINE_EXCEEDED    a source sends none of the messages that a batch needs
├── AtCapacity            UNAVAILABLE          the limit of sessions is reached; try again later
├── Draining              UNAVAILABLE          the gateway is stopping
├── SinkAway              UNAVAILABLE          the sink's session was lost
├── SupervisorAway        UNAVAILABLE          a deployment has left before it answered a restart
├── OrderPending          DEADLINE_EXCEEDED    a deployment has not answered a restart or a replay in time
├── OrderFailed           ABORTED              a restart or a replay of a deployment was begun, and has failed
├── SinkAbsent            DEADLINE_EXCEEDED    no instance of the sink attached in time
├── SinkFailed            ABORTED              a sink has failed a request, or has lost a part
├── OlderCheckpoint       FAILED_PRECONDITION  the sink has committed more than the checkpoint knows
├── SinkLost              DATA_LOSS            a sink has lost what it voted for
└── MessagesLost          DATA_LOSS            a source no longer has what a pipeline must read
"""

from typing import ClassVar, Self

import grpc

from headrace.contract.errors import HeadraceError
from headrace.gateway.statuses import Reason
from headrace.protocol.v1 import connector_pb2 as pb


class ProtocolError(HeadraceError):
    """Ends the call that caused it with `status`; the message states what is wrong, where, and what to do."""

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    reason: ClassVar[Reason | None] = None
    """The machine-readable reason; None for errors that end no session of a connector."""
    engine_reason: ClassVar[str | None] = None
    """A reason that engines look for in the trailing metadata; None if the status code is enough for them."""
    remedy: ClassVar[str] = (
        "correct what calls, which breaks the protocol as the error says; if it uses an SDK, upgrade it and the gateway to one "
        "release"
    )
    """What an operator does about a part that the gateway refuses with it."""
    counts_as_refusal: ClassVar[bool] = True
    """Whether a part that it ends is at fault; False if another part has taken over, or the gateway stops."""

    def __init__(self, message: str, **metadata: object) -> None:
        """Keeps the metadata that the reason's comment in the protocol names; what is None is left out."""
        super().__init__(message)
        self.metadata = {name: str(value) for name, value in metadata.items() if value is not None}

    def within(self, where: str, **metadata: object) -> Self:
        """Returns the same error, with the place where it occurred."""
        return type(self)(f"{where}: {self}", **{**metadata, **self.metadata})


class MalformedMessage(ProtocolError):
    """A frame, a name or a request is invalid."""

    status = grpc.StatusCode.INVALID_ARGUMENT
    reason = pb.ERROR_REASON_MALFORMED_MESSAGE


class UnknownStream(ProtocolError):
    """A frame names a stream id that the session never opened."""

    status = grpc.StatusCode.NOT_FOUND
    reason = pb.ERROR_REASON_UNKNOWN_STREAM


class UnknownPipeline(ProtocolError):
    """The gateway does not know the pipeline's positions."""

    status = grpc.StatusCode.NOT_FOUND


class SequenceOutOfRange(ProtocolError):
    """A sequence decreases within its session, or is larger than Spark's largest integer."""

    status = grpc.StatusCode.OUT_OF_RANGE
    reason = pb.ERROR_REASON_SEQUENCE_OUT_OF_RANGE


class LimitExceeded(ProtocolError):
    """More was sent or opened than is allowed."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED
    remedy = "stay below the limit that the error names, which is fixed, or end what uses it up"


class FrameTooLarge(LimitExceeded):
    """A frame, or a request for credit for one, is above the limits."""

    reason = pb.ERROR_REASON_FRAME_TOO_LARGE
    remedy = (
        "have the connector send smaller frames, or raise max_frame_bytes or max_frame_messages in [limits] of the gateway's "
        "configuration, and restart the gateway"
    )


class CreditOverrun(LimitExceeded):
    """A frame was sent without enough credit."""

    reason = pb.ERROR_REASON_CREDIT_OVERRUN
    remedy = ProtocolError.remedy


class TooManyStreams(LimitExceeded):
    """A session has as many streams, or stream ids, as it may."""

    reason = pb.ERROR_REASON_TOO_MANY_STREAMS
    remedy = (
        "raise max_streams_per_session in [limits] of the gateway's configuration, and run: headrace gateway reload; or share "
        "its streams among several connectors"
    )


class TooManyNames(LimitExceeded):
    """The gateway keeps as many names of a kind as it may."""

    reason = pb.ERROR_REASON_TOO_MANY_NAMES
    remedy = "end what is not needed: this limit is fixed, and the gateway forgets a name ten minutes after its last use"


class ListTooLong(LimitExceeded):
    """A list in a message is too long."""

    reason = pb.ERROR_REASON_LIST_TOO_LONG


class OutOfTurn(ProtocolError):
    """The session's state does not allow the message."""

    status = grpc.StatusCode.FAILED_PRECONDITION
    reason = pb.ERROR_REASON_MESSAGE_OUT_OF_ORDER


class NoMessage(OutOfTurn):
    """The call has ended before its first message: the client is gone."""

    counts_as_refusal = False


class VersionUnsupported(OutOfTurn):
    """A connector speaks a protocol version that this gateway does not."""

    reason = pb.ERROR_REASON_PROTOCOL_VERSION_UNSUPPORTED
    remedy = "upgrade what the error names, so that both speak one version of the protocol"


class UnknownMessage(OutOfTurn):
    """A message is of a kind that this gateway does not know, or has no content."""

    reason = pb.ERROR_REASON_MESSAGE_UNKNOWN


class ModeMismatch(OutOfTurn):
    """The other instances of a sink have another mode."""

    reason = pb.ERROR_REASON_SINK_MODE_MISMATCH
    remedy = "give this connector another sink name, or all instances of the sink one mode"


class NotAtOnce(OutOfTurn):
    """A run in real-time mode delivers before its batch is planned, to a sink that is not at-least-once."""

    engine_reason = "sink-mode"


class NotReplayable(OutOfTurn):
    """A run in real-time mode follows a stream whose source cannot send the same messages again."""


class EpochOver(OutOfTurn):
    """A batch reads messages of a resumable source that were planned in an epoch which is over."""


class TooSlow(ProtocolError):
    """The client did not send Hello in time, or stopped reading for too long."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class HelloTimeout(TooSlow):
    """The client did not send Hello in time."""

    reason = pb.ERROR_REASON_HELLO_TIMEOUT
    remedy = "look at its process and its network: it has connected, and has sent nothing"


class ReadTimeout(TooSlow):
    """The client did not read for too long."""

    reason = pb.ERROR_REASON_READ_TIMEOUT
    remedy = "look at its process and its network: it does not read what the gateway sends; restart it, which loses nothing"


class NotPermitted(ProtocolError):
    """The caller's token does not permit the request."""

    status = grpc.StatusCode.PERMISSION_DENIED
    reason = pb.ERROR_REASON_NOT_PERMITTED
    remedy = "give its token what the error names in the gateway's configuration, or give it another token, and start it again"


class TokenRevoked(ProtocolError):
    """The token that opened the session is no longer valid, or its rights have changed."""

    status = grpc.StatusCode.UNAUTHENTICATED
    reason = pb.ERROR_REASON_TOKEN_REVOKED
    remedy = "give it the token that the gateway's configuration has now, and start it again"


class Superseded(ProtocolError):
    """A newer session of the same instance, or a newer run of the same pipeline, has taken over."""

    status = grpc.StatusCode.ABORTED
    reason = pb.ERROR_REASON_TAKEN_OVER
    counts_as_refusal = False
    engine_reason = "superseded"


class RunStopped(ProtocolError):
    """The query was stopped while it waited for the call."""

    status = grpc.StatusCode.ABORTED
    engine_reason = "stopped"


class SourceSilent(ProtocolError):
    """A source has sent none of the messages that a batch needs within the caller's timeout."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class AtCapacity(ProtocolError):
    """The limit of sessions is reached; the client may try again later."""

    status = grpc.StatusCode.UNAVAILABLE
    reason = pb.ERROR_REASON_TOO_MANY_SESSIONS
    remedy = (
        "raise max_sessions in [limits] of the gateway's configuration, and restart the gateway; or end connectors that are not "
        "needed: refused connectors try again by themselves"
    )


class Draining(ProtocolError):
    """The gateway is stopping; the client should reconnect to another one, or to this one after its restart."""

    status = grpc.StatusCode.UNAVAILABLE
    reason = pb.ERROR_REASON_GATEWAY_STOPPING
    counts_as_refusal = False


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
    engine_reason = "older-checkpoint"


class UnknownPart(ProtocolError):
    """A request to change something names a part that this gateway does not know."""

    status = grpc.StatusCode.NOT_FOUND


class ChangeRefused(ProtocolError):
    """A change is not possible in the state in which its part is."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class SupervisorAway(ProtocolError):
    """The supervisor of a deployment has left before it answered whether a connector is restarted."""

    status = grpc.StatusCode.UNAVAILABLE
    engine_reason = "supervisor-away"


class OrderPending(ProtocolError):
    """The supervisor of a deployment has not answered in time; the restart or replay continues."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED
    engine_reason = "restart-pending"


class OrderFailed(ProtocolError):
    """A restart or a replay has begun and then failed, or the restarted connector has no session yet."""

    status = grpc.StatusCode.ABORTED
