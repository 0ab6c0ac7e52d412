"""What sources and sinks do alike at their end: they close once, after everything else."""

from typing import Any

import grpc

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.errors import CheckFailed
from headrace.conformance.core.trial import Trial

AnyTrial = Trial[Any, Any]


def declare_close_checks(checks: Checks[Any]) -> None:
    """Adds the checks that are the same for sources and sinks."""

    @checks.check("close", "SES-36", needs=("closed",))
    async def close(trial: AnyTrial) -> None:
        """It does not close once before it ends on SIGTERM, or does not close while the gateway cannot be reached."""
        await trial.start()
        await trial.at_work(await trial.session())
        trial.terminate()
        await _closes_once(trial, "after SIGTERM")
        await trial.start()
        session = await trial.session()
        await trial.cut()
        await trial.until(lambda: session.ended, "the end of the call")
        await trial.silence()
        trial.terminate()
        await _closes_once(trial, "after SIGTERM, while the gateway was away")

    @checks.check("close-refused", "SES-36", "SES-29", needs=("closed",))
    async def close_refused(trial: AnyTrial) -> None:
        """It does not close once if it ends because the gateway refuses its session."""
        trial.gateway.refusal = (grpc.StatusCode.PERMISSION_DENIED, "the token does not permit this")
        await trial.start()
        await trial.session()
        # A connector may also wait for an operator.
        await trial.changes.until(lambda: not trial.process.running, trial.spec.deadlines.answer)
        if trial.process.running:
            trial.terminate()
        await _closes_once(trial, "after PERMISSION_DENIED")

    @checks.check("close-last", "SES-36", needs=("closed",))
    async def close_last(trial: AnyTrial) -> None:
        """It closes before its last call: between two sessions, or before it has said Goodbye."""
        trial.leave_unsettled()
        await trial.start()
        session = await trial.session()
        await trial.at_work(session)
        session.close(grpc.StatusCode.UNAVAILABLE, "the gateway is stopping")
        session = await trial.session()
        await trial.has_work(session)
        _not_closed(trial, "in its second session")
        trial.terminate()
        await trial.changes.until(lambda: _has_left(session), trial.spec.deadlines.quiet)
        if trial.closed() > 0 and not _has_left(session):
            # Goodbye may still be on its way.
            await trial.until(lambda: _has_left(session), "Goodbye before it closes", trial.spec.deadlines.quiet, must_run=False)
        trial.settle(session)
        await _closes_once(trial, "after SIGTERM")


async def _closes_once(trial: AnyTrial, when: str) -> None:
    """Waits for the end of the process, and sees that it has closed once by then."""
    await trial.exits(f"the end of the process {when}")
    times = trial.closed()
    if times != 1:
        raise CheckFailed(f"{when}, it has closed {times} times, and not once")


def _not_closed(trial: AnyTrial, when: str) -> None:
    trial.require(trial.closed() == 0, f"{when}, it has closed already")


def _has_left(session: Any) -> bool:
    return session.goodbye is not None or session.ended
