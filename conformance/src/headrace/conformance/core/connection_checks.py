"""What sources and sinks do alike on their connection: TLS, pings, and Report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.conformance.core.certificates import Authority, Pair, credentials
from headrace.conformance.core.checks import Checks
from headrace.conformance.core.gateway import Received
from headrace.conformance.core.trial import Trial
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.protocol.v1 import connector_pb2, source_pb2

AnyTrial = Trial[Any, Any]

_HEARTBEATS = 2
_PINGS_WATCHED_S = 3.0
_UNTRUSTED_WATCHED_S = 3.0
"""In which a connector makes several attempts, since it waits 2 s at most."""
_OTHER_ADDRESS = "192.0.2.1"
_MAX_ERRORS, _MAX_TEXT_BYTES = 100, 4096
_TOLERANCE_MS = 1000
"""For what a connector rounds, and for the time between the start of its process and our note of it."""


def declare_connection_checks(checks: Checks[Any]) -> None:
    """Adds the checks that are the same for sources and sinks."""

    @checks.check("report", "SES-22", "SES-23", "SES-34", needs=("report",))
    async def report(trial: AnyTrial) -> None:
        """It sends no Report after Welcome, or one without a known state, with a wrong age, or with too much in it."""
        trial.hold()
        await trial.start()
        await trial.at_work(await trial.session())
        await trial.until(lambda: bool(trial.gateway.reports), "Report")
        await trial.cut()
        await trial.bring_back()
        before = len(trial.gateway.reports)
        await trial.session()
        await trial.until(lambda: len(trial.gateway.reports) > before, "Report in a new session")
        await trial.silence()
        for received in trial.gateway.reports:
            wrong = _wrong_with(received, trial.started)
            trial.require(wrong is None, f"Report: {wrong}")

    @checks.check("heartbeat", "SES-35", needs=("heartbeat",))
    async def heartbeat(trial: AnyTrial) -> None:
        """It does not declare CAPABILITY_HEARTBEAT, or sends nothing for too long."""
        trial.hold()
        await trial.start()
        session = await trial.session()
        declared = source_pb2.CAPABILITY_HEARTBEAT in session.hello.capabilities
        trial.require(declared, "its Hello does not declare CAPABILITY_HEARTBEAT")
        await trial.at_work(session)
        for _ in range(_HEARTBEATS):
            await trial.until(_more_heard(session), "a message, if only a Report", trial.spec.deadlines.heartbeat)

    @checks.check("pings", "SES-16")
    async def pings(trial: AnyTrial) -> None:
        """It pings the gateway more often than once per second."""
        trial.hold()
        relay = await trial.count_pings()
        await trial.start()
        await trial.at_work(await trial.session())
        before = relay.pings
        await trial.pause(_PINGS_WATCHED_S)
        sent = relay.pings - before
        trial.require(sent <= _PINGS_WATCHED_S + 1, f"it has sent {sent} pings within {_PINGS_WATCHED_S:g} s")

    @checks.check("tls", "SES-32", needs=("tls",))
    async def tls(trial: AnyTrial) -> None:
        """It does not connect with TLS, although it has the certificate to trust."""
        await _secured(trial)
        await trial.start()
        await trial.at_work(await trial.session())

    @checks.check("tls-untrusted", "SES-32", needs=("tls",))
    async def tls_untrusted(trial: AnyTrial) -> None:
        """It connects to a gateway whose certificate it cannot verify, or is for another address."""
        trusted = await _secured(trial)
        await trial.start()
        await trial.session()
        await _is_refused(trial, Authority(trial.work, "another-authority").issue("untrusted"), "of an unknown authority")
        await _is_refused(trial, trusted.issue("elsewhere", _OTHER_ADDRESS), f"for {_OTHER_ADDRESS}")

    @checks.check("mutual-tls", "SES-33", needs=("mutual_tls",))
    async def mutual_tls(trial: AnyTrial) -> None:
        """It does not present its certificate to a gateway that requires one."""
        await _secured(trial, mutual=True)
        await trial.start()
        await trial.at_work(await trial.session())


def _wrong_with(received: Received, started: float) -> str | None:
    """Returns what is wrong with a Report of a connector that was started at a time of the monotonic clock."""
    report = received.report
    alive_ms = 1000 * (received.at - started) + _TOLERANCE_MS
    if report.state not in connector_pb2.ConnectorState.values() or report.state == connector_pb2.CONNECTOR_STATE_UNSPECIFIED:
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


def _more_heard(session: Any) -> Callable[[], bool]:
    """Returns whether something has arrived since now."""
    before = session.heard
    return lambda: bool(session.heard > before)


async def _secured(trial: AnyTrial, *, mutual: bool = False) -> Authority:
    """Has the gateway use TLS, and require a certificate if that is mutual; returns the authority that the connector trusts."""
    authority = Authority(trial.work, "authority")
    trial.add_arguments(trial.spec.tls, {"ca": authority.cert})
    if mutual:
        own = authority.issue("connector")
        trial.add_arguments(trial.spec.mutual_tls, {"certificate": own.cert, "key": own.key})
    await _present(trial, authority.issue("gateway"), authority.cert if mutual else None)
    return authority


async def _present(trial: AnyTrial, pair: Pair, client_ca: Path | None = None) -> None:
    """Kills the gateway, and starts it with a certificate."""
    await trial.gateway.stop()
    await trial.gateway.start(credentials(pair, client_ca))
    trial.trace.event(f"the gateway has the certificate of {pair.cert.stem}")


async def _is_refused(trial: AnyTrial, pair: Pair, which: str) -> None:
    """Starts the gateway with a certificate that the connector must not accept."""
    await _present(trial, pair)
    sessions = len(trial.gateway.sessions)
    await trial.never(
        lambda: len(trial.gateway.sessions) > sessions,
        f"it has begun a session with a gateway that has a certificate {which}",
        _UNTRUSTED_WATCHED_S,
    )
