"""What sources and sinks do alike: how they begin, come back, give up and end."""

from collections.abc import Mapping
from typing import Any

import grpc

from headrace.conformance.checks import Checks
from headrace.conformance.trial import Trial

AnyTrial = Trial[Any, Any]

_TRANSIENT = (
    (grpc.StatusCode.UNAVAILABLE, "the gateway is stopping"),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "no Hello in time"),
    (grpc.StatusCode.INTERNAL, "received RST_STREAM"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_pings"),
)
_PERMANENT = (
    (grpc.StatusCode.UNAUTHENTICATED, "the gateway does not know this token"),
    (grpc.StatusCode.PERMISSION_DENIED, "the token does not permit this"),
    (grpc.StatusCode.INVALID_ARGUMENT, "malformed request"),
)
_BACKOFF_WINDOW_S, _MOST_ATTEMPTS = 3.0, 20
_SHORTEST_WATCH_S = 1.5


def declare_session_checks(checks: Checks[Any], rules: Mapping[str, tuple[str, ...]]) -> None:
    """Adds the checks that are the same for sources and sinks, each with its rules."""

    @checks.check("token", *rules["token"])
    async def token(trial: AnyTrial) -> None:
        """It does not send its token as `authorization: Bearer TOKEN` with the call."""
        await trial.start()
        session = await trial.session()
        sent = session.metadata.get("authorization")
        trial.require(sent == f"Bearer {trial.token}", f"the call's metadata has authorization: {sent!r}")

    @checks.check("version-refused", *rules["version-refused"])
    async def version_refused(trial: AnyTrial) -> None:
        """It tries again although the gateway does not support its protocol version."""
        await _gives_up(trial, grpc.StatusCode.FAILED_PRECONDITION, "protocol version 1 is not supported; the gateway speaks 2")

    @checks.check("refused", *rules["refused"])
    async def refused(trial: AnyTrial) -> None:
        """It tries again after a status that another attempt cannot change."""
        for status, text in _PERMANENT:
            await _gives_up(trial, status, text)

    @checks.check("taken-over", *rules["taken-over"])
    async def taken_over(trial: AnyTrial) -> None:
        """It reconnects after ABORTED, although a newer session of its instance has taken over."""
        await trial.start()
        session = await trial.session()
        session.close(grpc.StatusCode.ABORTED, "a newer session of this instance has taken over")
        await _stays_away(trial, "after ABORTED")

    @checks.check("reconnects", *rules["reconnects"])
    async def reconnects(trial: AnyTrial) -> None:
        """It does not reconnect after a status that says that the gateway is away, or that the connection broke."""
        await trial.start()
        for status, text in _TRANSIENT:
            session = await trial.session()
            session.close(status, text)
            trial.trace.event(f"the gateway ends the session: {status.name}, {text}")
        await trial.session()

    @checks.check("backoff", *rules["backoff"])
    async def backoff(trial: AnyTrial) -> None:
        """It reconnects to a gateway that refuses each session without waiting longer each time."""
        trial.gateway.refusal = (grpc.StatusCode.UNAVAILABLE, "the gateway has reached its limit of sessions")
        await trial.start()
        await trial.session()
        first = len(trial.gateway.sessions)
        await trial.never(
            lambda: len(trial.gateway.sessions) - first > _MOST_ATTEMPTS,
            f"more than {_MOST_ATTEMPTS} attempts within {_BACKOFF_WINDOW_S:g} s",
            _BACKOFF_WINDOW_S,
        )

    @checks.check("instance", *rules["instance"])
    async def instance(trial: AnyTrial) -> None:
        """It has another instance name after a restart, so that nothing takes over from its last session."""
        await trial.start()
        before = (await trial.session()).hello.instance
        await trial.kill()
        await trial.start()
        after = (await trial.session()).hello.instance
        trial.require(before == after, f"the instance was {before!r}, and is {after!r} after a restart")

    @checks.check("shutdown", *rules["shutdown"])
    async def shutdown(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM."""
        await trial.start()
        await trial.session()
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM")

    @checks.check("shutdown-unwelcomed", *rules["shutdown-unwelcomed"])
    async def shutdown_unwelcomed(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM while it waits for Welcome."""
        trial.gateway.welcomes = False
        await trial.start()
        await trial.session()
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM, while it waited for Welcome")

    @checks.check("shutdown-gateway-away", *rules["shutdown-gateway-away"])
    async def shutdown_gateway_away(trial: AnyTrial) -> None:
        """It does not end in time on SIGTERM while the gateway cannot be reached."""
        await trial.start()
        session = await trial.session()
        await trial.cut()
        await trial.until(lambda: session.ended, "the end of the call")
        trial.terminate()
        await trial.exits("the end of the process after SIGTERM, while the gateway was away")


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
    watched_s = max(trial.spec.deadlines.quiet, _SHORTEST_WATCH_S)
    await trial.changes.until(lambda: len(trial.gateway.sessions) > sessions or not process.running, watched_s)
    trial.require(len(trial.gateway.sessions) == sessions, f"it has begun another session {when}")
