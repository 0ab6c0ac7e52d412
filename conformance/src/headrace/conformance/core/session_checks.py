"""What sources and sinks do alike: how they begin, come back, give up and end."""

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.server import UNKNOWN_CAPABILITY
from headrace.conformance.core.trial import Trial
from headrace.contract.limits import MAX_NAME_BYTES

DOMAIN = "headrace"
_KEY = "grpc-status-details-bin"
AnyTrial = Trial[Any, Any]

_TRANSIENT = (
    (grpc.StatusCode.UNAVAILABLE, "the gateway is stopping"),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "no Hello in time"),
    (grpc.StatusCode.INTERNAL, "received RST_STREAM"),
    (grpc.StatusCode.OK, ""),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_pings"),
)
_PERMANENT = (
    (grpc.StatusCode.UNAUTHENTICATED, "the gateway does not know this token"),
    (grpc.StatusCode.PERMISSION_DENIED, "the token does not permit this"),
    (grpc.StatusCode.INVALID_ARGUMENT, "malformed request"),
    # Of a gateway that is too old to have the service.
    (grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
)
_TRANSIENT_REASONS = (
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_SESSIONS"),
    (grpc.StatusCode.INVALID_ARGUMENT, "GATEWAY_STOPPING"),
    (grpc.StatusCode.PERMISSION_DENIED, "READ_TIMEOUT"),
)
_UNKNOWN_REASON = "OF_A_LATER_VERSION"
_OTHER_DOMAIN = "example.com"
_BACKOFF_WINDOW_S, _MAX_ATTEMPTS = 3.0, 15
_MIN_WATCH_S = 1.5
_SHOWN = 40


def declare_session_checks(checks: Checks[Any]) -> None:
    """Adds the checks that are the same for sources and sinks."""

    @checks.check("token", "SES-9")
    async def token(trial: AnyTrial) -> None:
        """It does not send its token as `authorization: Bearer TOKEN` with the call."""
        await trial.start()
        session = await trial.session()
        sent = session.metadata.get("authorization")
        trial.require(sent == f"Bearer {trial.token}", f"the call's metadata has authorization: {sent!r}")

    @checks.check("version-refused", "SES-3", "SES-29")
    async def version_refused(trial: AnyTrial) -> None:
        """It tries again although the gateway does not support its protocol version."""
        await _gives_up(trial, grpc.StatusCode.FAILED_PRECONDITION, "protocol version 1 is not supported; the gateway speaks 2")

    @checks.check("refused", "SES-29")
    async def refused(trial: AnyTrial) -> None:
        """It tries again after a status that another attempt cannot change."""
        for status, text in _PERMANENT:
            await _gives_up(trial, status, text)

    @checks.check("taken-over", "SES-8", "SES-29")
    async def taken_over(trial: AnyTrial) -> None:
        """It reconnects after ABORTED, although a newer session of its instance has taken over."""
        trial.hold()
        await trial.start()
        session = await trial.session()
        # Some libraries report another status if the connector writes at the moment at which the call ends.
        await trial.silence()
        session.close(grpc.StatusCode.ABORTED, "a newer session of this instance has taken over")
        await _stays_away(trial, "after ABORTED")

    @checks.check("reconnects", "SES-28", "SES-30")
    async def reconnects(trial: AnyTrial) -> None:
        """It does not reconnect after a status that says that the gateway is away, or that the connection broke."""
        # A gRPC library may hide the status from a connector that writes at that moment.
        trial.hold()
        await trial.start()
        for status, text in _TRANSIENT:
            session = await trial.session()
            await trial.at_work(session)
            session.close(status, text)
            trial.trace.event(f"the gateway ends the session: {status.name}, {text}")
        await trial.session()

    @checks.check("reason-final", "SES-27")
    async def reason_final(trial: AnyTrial) -> None:
        """It reconnects because of the status, although the reason in its details says that this changes nothing."""
        trial.hold()
        await trial.start()
        session = await trial.session()
        await trial.at_work(session)
        _close_because(session, grpc.StatusCode.UNAVAILABLE, "TOKEN_REVOKED")
        await _stays_away(trial, "after UNAVAILABLE with the reason TOKEN_REVOKED")

    @checks.check("reason-transient", "SES-27")
    async def reason_transient(trial: AnyTrial) -> None:
        """It gives up because of the status, although the reason in its details says that it is to reconnect."""
        trial.hold()
        await trial.start()
        for status, reason in _TRANSIENT_REASONS:
            session = await trial.session()
            await trial.at_work(session)
            _close_because(session, status, reason)
        await trial.session()

    @checks.check("reason-unknown", "SES-27")
    async def reason_unknown(trial: AnyTrial) -> None:
        """It does not decide by the status if it does not know the reason, or the reason is of another domain."""
        trial.hold()
        await trial.start()
        for reason, domain in ((_UNKNOWN_REASON, DOMAIN), ("TOKEN_REVOKED", _OTHER_DOMAIN)):
            session = await trial.session()
            await trial.at_work(session)
            _close_because(session, grpc.StatusCode.UNAVAILABLE, reason, domain)
        session = await trial.session()
        await trial.at_work(session)
        _close_because(session, grpc.StatusCode.NOT_FOUND, _UNKNOWN_REASON)
        await _stays_away(trial, f"after NOT_FOUND with the reason {_UNKNOWN_REASON}")

    @checks.check("backoff", "SES-31")
    async def backoff(trial: AnyTrial) -> None:
        """It reconnects to a gateway that refuses each session without waiting longer each time."""
        trial.gateway.refusal = (grpc.StatusCode.UNAVAILABLE, "the gateway has reached its limit of sessions")
        await trial.start()
        await trial.session()
        first = len(trial.gateway.sessions)
        await trial.never(
            lambda: len(trial.gateway.sessions) - first > _MAX_ATTEMPTS,
            f"more than {_MAX_ATTEMPTS} attempts within {_BACKOFF_WINDOW_S:g} s",
            _BACKOFF_WINDOW_S,
        )

    @checks.check("refusal-told", "SES-29")
    async def refusal_told(trial: AnyTrial) -> None:
        """It tells nobody why the gateway has refused its session."""
        text = f"refused for the reason {trial.token}"
        trial.gateway.refusal = (grpc.StatusCode.PERMISSION_DENIED, text)
        await trial.start()
        await trial.session()
        await trial.changes.until(lambda: not trial.process.running or text in trial.said(), trial.spec.deadlines.answer)
        trial.require(text in trial.said(), f"neither its output nor its standard error has the status's text: {text}")

    @checks.check("unknown-message", "SES-15")
    async def unknown_message(trial: AnyTrial) -> None:
        """It does not ignore a message of a kind that it does not know."""
        await trial.start()
        session = await trial.session()
        session.send_unknown()
        await trial.never(lambda: _broken_off(session), "it broke the session off after an unknown message")

    @checks.check("unknown-capability", "SES-7")
    async def unknown_capability(trial: AnyTrial) -> None:
        """It does not ignore a capability in Welcome that it does not know."""
        trial.gateway.capabilities.append(UNKNOWN_CAPABILITY)
        await trial.start()
        session = await trial.session()
        await trial.never(lambda: _broken_off(session), "it broke the session off after Welcome")

    @checks.check("instance", "SES-5")
    async def instance(trial: AnyTrial) -> None:
        """It has another instance name after a restart, so that nothing takes over from its last session."""
        await trial.start()
        before = (await trial.session()).hello.instance
        await trial.kill()
        await trial.start()
        after = (await trial.session()).hello.instance
        trial.require(before == after, f"the instance was {before!r}, and is {after!r} after a restart")

    @checks.check("shutdown", "SES-19")
    async def shutdown(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM."""
        await trial.start()
        await trial.at_work(await trial.session())
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM")

    @checks.check("shutdown-unwelcomed", "SES-19")
    async def shutdown_unwelcomed(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM while it waits for Welcome."""
        trial.gateway.welcomes = False
        await trial.start()
        await trial.session()
        await trial.until_quiet()
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM, while it waited for Welcome")

    @checks.check("shutdown-gateway-away", "SES-19")
    async def shutdown_gateway_away(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM while the gateway cannot be reached."""
        await trial.start()
        session = await trial.session()
        await trial.cut()
        await trial.until(lambda: session.ended, "the end of the call")
        await trial.silence()
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM, while the gateway was away")


def short_names(trial: AnyTrial, hello: Any) -> None:
    """Requires that no name and no version in a Hello or a SinkHello is too long.

    Raises:
        CheckFailed: One is.
    """
    sdk = hello.sdk
    for text in (hello.connector, hello.connector_version, hello.instance, sdk.name, sdk.version, sdk.language):
        size = len(text.encode())
        trial.require(size <= MAX_NAME_BYTES, f"a name or a version has {size} bytes: {text[:_SHOWN]!r}...")


def _close_because(session: Any, status: grpc.StatusCode, reason: str, domain: str = DOMAIN) -> None:
    """Ends a session with a reason for programs."""
    text = f"as the check says, with the reason {reason} of {domain}"
    session.gateway.trace.event(f"#{session.number} the gateway ends the session: {status.name}, {text}")
    session.close(status, text, details(status, text, reason, domain))


def _broken_off(session: Any) -> bool:
    """Whether the connector has ended a session without Goodbye."""
    return session.ended and session.goodbye is None


async def _gives_up(trial: AnyTrial, status: grpc.StatusCode, text: str) -> None:
    """Starts the connector, refuses its session, and sees that it does not come back."""
    trial.gateway.refusal = (status, text)
    await trial.start()
    await trial.session()
    await _stays_away(trial, f"after {status.name}")
    await trial.kill()


async def _stays_away(trial: AnyTrial, when: str) -> None:
    """Sees that no further session begins, until the connector has ended or a while has passed."""
    sessions, process = len(trial.gateway.sessions), trial.process
    watched_s = max(trial.spec.deadlines.quiet, _MIN_WATCH_S)
    await trial.changes.until(lambda: len(trial.gateway.sessions) > sessions or not process.running, watched_s)
    trial.require(len(trial.gateway.sessions) == sessions, f"it has begun another session {when}")


def details(
    status: grpc.StatusCode, text: str, reason: str, domain: str = DOMAIN, metadata: Mapping[str, str] | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Returns the trailing metadata of a call that ends with a status and a reason."""
    info = AnyMessage()
    info.Pack(ErrorInfo(reason=reason, domain=domain, metadata=metadata or {}))
    return ((_KEY, Status(code=status.value[0], message=text, details=[info]).SerializeToString()),)
