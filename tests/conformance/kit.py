"""The kit as its users run it: a process with a specification file, and what it says."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from headrace.conformance.core.spec import Spec
from headrace.conformance.runner import AnyCheck, Result, Runner

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 570.0
PATIENT = {"connect": 90.0, "answer": 60.0, "shutdown": 60.0, "heartbeat": 60.0, "command": 120.0}
"""How long a connector may take here, where others use the machine. What a user's connector may take is less."""
_AT_ONCE = 8
"""How many faulty connectors to judge side by side: a fault shows when a deadline has passed, and that is most of the time."""
_LONGER_S = (2.0, 8.0, 30.0)
"""How long to look for a fault that has not shown, one after the other."""
_SAMPLED = 0.3
"""How many of the faulty connectors are judged by another check, too."""


@dataclass(frozen=True)
class Verdict:
    """The kit's verdict."""

    exit_code: int
    document: dict[str, Any]

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """The results, by the name of the check."""
        return {result["check"]: result for result in self.document["result"]["checks"]}

    def named(self, outcome: str) -> set[str]:
        """The checks with an outcome."""
        return {name for name, result in self.checks.items() if result["outcome"] == outcome}

    def explained(self) -> str:
        """The failures, for the message of an assertion."""
        lines = [str(self.document["error"])]
        for name in sorted(self.named("failed") | self.named("unexpected pass")):
            result = self.checks[name]
            lines += [f"{name}: {result['detail']}", *result["trace"], *result["log"]]
        return "\n".join(lines)


def judged(kind: str, spec: Path, command: Sequence[str | Path], only: Sequence[str] = (), jobs: int = 5) -> Verdict:
    """Runs the kit on a connector. Its specification has no deadlines."""
    with TemporaryDirectory() as folder:
        patient = be_patient(spec, Path(folder) / spec.name)
        words = [sys.executable, "-m", "headrace.conformance", kind, "--spec", str(patient), "--json", f"--jobs={jobs}"]
        words += [f"--only={name}" for name in only]
        words += ["--", *map(str, command)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.stdout, done.stderr
    return Verdict(done.returncode, json.loads(done.stdout))


def be_patient(spec: Path, copy: Path | None = None) -> Path:
    """Adds `PATIENT` to a specification, or to a copy of it; returns the file."""
    copy = copy or spec
    copy.write_text(f"{spec.read_text()}\n[deadlines]\n" + "".join(f"{name} = {value}\n" for name, value in PATIENT.items()))
    return copy


def some_of(checks: Sequence[AnyCheck], connector: str, config: pytest.Config) -> list[str]:
    """Chooses the checks that judge a further connector of a language: half of them by `--kill-seed`, or all with `--every-pair`.

    The SDK keeps most rules, and the whole kit judges its own examples.

    Args:
        checks: All of them.
        connector: Its name: each has a choice of its own.
        config: Has the options.
    """
    names = [check.name for check in checks]
    if config.getoption("every_pair"):
        return names
    return random.Random(f"{config.getoption('kill_seed')} {connector}").sample(names, len(names) // 2)


@dataclass(frozen=True)
class Judged:
    """What checks have found of one connector."""

    results: dict[str, Result]

    @property
    def failed(self) -> set[str]:
        return {name for name, result in self.results.items() if result.outcome.fails_the_run}

    def named(self, outcome: str) -> set[str]:
        """The checks with an outcome."""
        return {name for name, result in self.results.items() if result.outcome.value == outcome}

    def explained(self) -> str:
        """The failures, for the message of an assertion."""
        lines = []
        for name in sorted(self.failed):
            result = self.results[name]
            lines += [f"{name}: {result.detail}", *result.trace, *result.log]
        return "\n".join(lines)


@dataclass(frozen=True)
class Planted:
    """A faulty connector, and the checks to run on it."""

    fault: str
    spec: Spec
    command: tuple[str, ...]
    checks: tuple[AnyCheck, ...]


async def judged_here(checks: Sequence[AnyCheck], spec: Spec, new_trial: Callable[..., Any], jobs: int) -> Judged:
    """Runs checks in this process, `jobs` of them at a time."""
    runner = Runner(checks, spec, new_trial, jobs)
    return Judged({result.check.name: result async for result in runner.results()})


async def judged_at_once(planted: Sequence[Planted], new_trial: Callable[..., Any], jobs: int = 1) -> dict[str, Judged]:
    """Judges several connectors side by side, each by `jobs` checks at a time; by fault."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def judge(one: Planted, spec: Spec, checks: Sequence[AnyCheck]) -> Judged:
        def trial(check: str, work: Path, *others: Any) -> Any:
            return new_trial(check, one.command, spec, work, *others)

        async with slots:
            return await judged_here(checks, spec, trial, jobs)

    async def judge_by_all(one: Planted) -> Judged:
        """By its own check, which may fail when time is over, and patiently by the others, which must pass."""
        own = [check for check in one.checks if check.name == one.fault]
        others = [check for check in one.checks if check.name != one.fault]
        patient = one.spec.model_copy(update={"deadlines": one.spec.deadlines.model_copy(update=PATIENT)})
        found = await judge(one, one.spec, own)
        return Judged(found.results | (await judge(one, patient, others)).results)

    found = await asyncio.gather(*map(judge_by_all, planted))
    verdicts = {one.fault: verdict for one, verdict in zip(planted, found, strict=True)}
    # A machine that is busy with other work may not do the wrong thing while the kit looks: it looks alone, and for longer.
    for one in planted:
        own = [check for check in one.checks if check.name == one.fault]
        for quiet_s in _LONGER_S:
            if one.fault in verdicts[one.fault].failed:
                break
            spec = one.spec.model_copy(update={"deadlines": one.spec.deadlines.model_copy(update={"quiet": quiet_s})})
            verdicts[one.fault] = Judged(verdicts[one.fault].results | (await judge(one, spec, own)).results)
    return verdicts


def sampled(check: AnyCheck, checks: Sequence[AnyCheck], config: pytest.Config) -> tuple[AnyCheck, ...]:
    """A check, sometimes with another one by `--kill-seed`, or with all others by `--every-pair`."""
    others = [other for other in checks if other is not check]
    if not config.getoption("every_pair"):
        chosen = random.Random(f"{config.getoption('kill_seed')}{check.name}")
        others = chosen.sample(others, 1) if chosen.random() < _SAMPLED else []
    return (check, *others)


def selected(request: pytest.FixtureRequest, test: str) -> list[str]:
    """The faults whose tests are selected in the module of the request."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module]
    return [item.callspec.params["fault"] for item in items if item.originalname == test]
