"""Every check of sinks catches the fault that is planted for it, and a sink that keeps the rules passes all of them."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.conformance import in_process
from tests.conformance.connector import CLOSED
from tests.conformance.kit import Judged, Planted, Verdict, judged, judged_at_once, sampled, selected
from tests.conformance.session_faults import SESSION_ALSO
from tests.conformance.sink_faults import FAULTS
from tests.selection.turns import in_turns

from headrace.conformance.core.spec import SinkSpec
from headrace.conformance.sinks import SINK_CHECKS

MODES = ("two-phase", "batch-idempotent", "at-least-once")
READ = "cat {work}/data/out/* 2>/dev/null || true"
DECLARED = {
    "read": READ,
    "refused": "refused",
    "report": True,
    "heartbeat": True,
    "closed": CLOSED,
    "runs": True,
    "tls": "--tls-ca={ca}",
    "mutual_tls": "--tls-cert={certificate} --tls-key={key}",
}
ONLY_THERE = {"batch-again": "batch-idempotent", "staged-survives": "at-least-once"}
"""Checks that two-phase sinks do not have."""
THERE = {
    "batch-idempotent": [
        "mode",
        "empty-part",
        "drop-part",
        "prepare",
        "left-out",
        "missing-part",
        "early",
        "visible",
        "batch-again",
    ],
    "at-least-once": ["mode", "empty-part", "interleaved", "visible", "staged-survives", "gateway-restart"],
}
"""Where the sink is not two-phase, the checks that are about that."""
NAMES = {check.name for check in SINK_CHECKS}


def spec(mode: str) -> str:
    """The specification of the sink of this folder."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"mode": mode, **DECLARED}.items()]
    return "\n".join(lines)


def command(mode: str, fault: str = "none") -> tuple[str, ...]:
    """What starts it."""
    return (sys.executable, "-m", "tests.conformance.sink_faults", "{work}/data", f"--mode={mode}", f"--fault={fault}")


def judge(mode: str, tmp_path: Path, only: Sequence[str]) -> Verdict:
    """Runs the kit on it."""
    path = tmp_path / "sink.toml"
    path.write_text(spec(mode))
    return judged("sink", path, command(mode), only)


@pytest.mark.parametrize("mode", in_turns(MODES))
def test_a_sink_that_keeps_the_rules_passes_every_check(mode: str, tmp_path: Path) -> None:
    only = THERE.get(mode, sorted(NAMES))
    verdict = judge(mode, tmp_path, only)

    assert verdict.exit_code == 0, verdict.explained()
    assert verdict.named("passed") | verdict.named("skipped") == set(only)
    assert {verdict.checks[name]["detail"] for name in verdict.named("skipped")} <= {f"mode is {mode}"}
    assert mode == "two-phase" or not verdict.named("skipped")


def test_there_is_a_fault_for_each_check() -> None:
    assert set(FAULTS) == NAMES


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> Mapping[str, Judged]:
    """The kit's verdict on each faulty sink."""
    checks = {check.name: check for check in SINK_CHECKS}
    planted = []
    for fault in selected(request, "test_a_planted_fault_is_caught_by_its_check_alone"):
        mode = ONLY_THERE.get(fault, "two-phase")
        declared = SinkSpec.model_validate({"mode": mode, **DECLARED})
        planted.append(Planted(fault, declared, command(mode, fault), sampled(checks[fault], SINK_CHECKS, request.config)))
    jobs = 2 if request.config.getoption("every_pair") else 1
    return asyncio.run(judged_at_once(planted, in_process.new_sink_trial, jobs))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.timeout(1800)  # With --every-pair, the first one waits for all.
def test_a_planted_fault_is_caught_by_its_check_alone(fault: str, verdicts: Mapping[str, Judged]) -> None:
    verdict = verdicts[fault]
    assert {fault} <= verdict.failed <= {fault} | SESSION_ALSO.get(fault, set()), verdict.explained()
    found = verdict.results[fault]
    assert found.detail
    assert found.trace
