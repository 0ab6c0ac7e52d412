"""Runs checks, each with a gateway and a start of the command of its own."""

import asyncio
import dataclasses
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.checks import Check
from headrace.conformance.core.errors import CheckFailed, NotJudged
from headrace.conformance.core.spec import Spec
from headrace.conformance.core.trace import Trace
from headrace.conformance.core.trial import Trial, new_token

_MAX_CHECK_S = 300.0

AnyCheck = Check[Any]
AnyTrial = Trial[Any, Any]
NewTrial = Callable[[str, Path, Trace, Changes, str], AnyTrial]
"""Makes the trial of a check: its name, its folder, the trace, what wakes it, and the token."""


class Outcome(Enum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    KNOWN_FAILURE = "known failure"
    """It failed, as the specification says it would."""
    UNEXPECTED_PASS = "unexpected pass"
    """It passed, and the specification says that it fails."""

    @property
    def fails_the_run(self) -> bool:
        """Whether a run with this outcome is a failure."""
        return self in (Outcome.FAILED, Outcome.UNEXPECTED_PASS)


@dataclass(frozen=True)
class Result:
    """What one check has found.

    Attributes:
        check: The check.
        outcome: The result.
        seconds: How long it took.
        detail: The error, or the reason for skipping it; empty where it passed.
        trace: The wire trace, where it failed.
        log: The last lines that the connector wrote to standard error, where it failed.
    """

    check: AnyCheck
    outcome: Outcome
    seconds: float = 0.0
    detail: str = ""
    trace: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


class Runner:
    """Runs a selection of checks on one connector."""

    def __init__(self, checks: Sequence[AnyCheck], spec: Spec, new_trial: NewTrial, jobs: int) -> None:
        """Prepares to run `checks`, at most `jobs` at the same time."""
        self._checks = checks
        self._spec = spec
        self._new_trial = new_trial
        self._slots = asyncio.Semaphore(jobs)
        self._broken: dict[str, Result] = {}
        """Standing rules that were broken in the run of another check."""

    async def results(self) -> AsyncIterator[Result]:
        """The result of each check as it ends. Those of standing rules come last, since any check may break them.

        Raises:
            SpecError: A command of the specification failed.
            CannotStart: The connector's command cannot be started.
        """
        runnable = []
        for check in self._checks:
            if lack := next((lack for need in check.needs if (lack := self._spec.lack(need))), None):
                yield Result(check, Outcome.SKIPPED, detail=lack)
            else:
                runnable.append(check)
        tasks = [asyncio.create_task(self._judge(check)) for check in runnable]
        standing: list[Result] = []
        try:
            for task in asyncio.as_completed(tasks):
                result = await task
                if result.check.standing:
                    standing.append(result)
                else:
                    yield self._as_known(result)
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for result in standing:
            broken = self._broken.get(result.check.name)
            if broken is not None and result.outcome is not Outcome.FAILED:
                result = dataclasses.replace(broken, check=result.check, seconds=result.seconds)
            yield self._as_known(result)

    async def _judge(self, check: AnyCheck) -> Result:
        """Runs one check."""
        async with self._slots:
            with tempfile.TemporaryDirectory(prefix="headrace-conformance-") as folder:
                trace, changes = Trace(), Changes()
                trial = self._new_trial(check.name, Path(folder), trace, changes, new_token())
                trial.gateway.breach = trial.breach
                began = time.monotonic()
                try:
                    outcome, detail = await self._run(check, trial)
                finally:
                    await trial.close()
                self._note_breaches(check, trial)
                seconds = time.monotonic() - began
                if outcome is not Outcome.FAILED:
                    return Result(check, outcome, seconds, detail)
                return Result(check, outcome, seconds, detail, trace.lines(), trial.log_lines())

    async def _run(self, check: AnyCheck, trial: AnyTrial) -> tuple[Outcome, str]:
        await trial.gateway.start()
        if self._spec.setup is not None:
            await trial.run("setup", self._spec.setup)
        try:
            async with asyncio.timeout(_MAX_CHECK_S):
                await check.run(trial)
        except CheckFailed as error:
            return Outcome.FAILED, str(error)
        except NotJudged as error:
            return Outcome.SKIPPED, str(error)
        except TimeoutError:
            return Outcome.FAILED, f"the check did not end within {_MAX_CHECK_S:g} s"
        own = next((what for name, what in trial.breaches if name == check.name), None)
        return (Outcome.PASSED, "") if own is None else (Outcome.FAILED, own)

    def _note_breaches(self, check: AnyCheck, trial: AnyTrial) -> None:
        for name, what in trial.breaches:
            if name != check.name and name not in self._broken:
                detail = f"{what} (in the run of {check.name})"
                self._broken[name] = Result(check, Outcome.FAILED, 0.0, detail, trial.trace.lines(), trial.log_lines())

    def _as_known(self, result: Result) -> Result:
        """The result, with respect to the failures that the specification knows."""
        if result.check.name not in self._spec.known_failures:
            return result
        if result.outcome is Outcome.FAILED:
            return dataclasses.replace(result, outcome=Outcome.KNOWN_FAILURE)
        if result.outcome is Outcome.PASSED:
            detail = "it passed; take it out of known_failures"
            return dataclasses.replace(result, outcome=Outcome.UNEXPECTED_PASS, detail=detail)
        return result
