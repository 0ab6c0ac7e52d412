"""Every check of sources catches the fault that is planted for it, and a source that keeps the rules passes all of them."""

import asyncio
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.conformance import in_process
from tests.conformance.connector import CLOSED
from tests.conformance.kit import Judged, Planted, Verdict, judged, judged_at_once, sampled, selected
from tests.conformance.session_faults import SESSION_ALSO
from tests.conformance.source_faults import FAULTS
from tests.selection.turns import in_turns

from headrace.conformance.core.spec import SourceSpec
from headrace.conformance.sources import SOURCE_CHECKS

DATA = f"{sys.executable} -S {Path(__file__).with_name('data.py')}"
COMMON = f"""
messages = 30
setup = '{DATA} make {{work}}/in 2 15'
credit_request = true
report = true
heartbeat = true
closed = "{CLOSED}"
tls = "--tls-ca={{ca}}"
mutual_tls = "--tls-cert={{certificate}} --tls-key={{key}}"
"""
GROWING = f"{COMMON}\nproduce = '{DATA} add {{work}}/in/0.jsonl {{count}} {{bytes}}'\nbacklog = true\npace = true\n"
SPECS = {
    "replayable": f"{GROWING}\nlose = 'echo 5 > {{work}}/in/0.deleted; echo 5 > {{work}}/in/1.deleted'",
    "ends": f"{COMMON}\nends = true",
    "gone": f"{COMMON}\nends = true\ngone = true",
    "redelivering": f"kind = 'redelivering'\n{GROWING}",
    "resumable": f"kind = 'resumable'\n{GROWING}",
    "starts": f"{GROWING}\nchooses_start = true",
    "needs-all": COMMON,
}
ARGUMENTS = {
    "replayable": [],
    "ends": ["--ends"],
    "gone": ["--ends", "--gone"],
    "redelivering": ["--kind=redelivering"],
    "resumable": ["--kind=resumable"],
    "starts": ["--chooses-start"],
    "needs-all": ["--needs-all"],
}
ONLY_THERE = {
    "end-of-stream": "ends",
    "last-acks": "ends",
    "reopen-after-end": "ends",
    "lost-acks": "ends",
    "gone": "gone",
    "redelivery": "redelivering",
    "epochs": "redelivering",
    "earlier-epoch": "redelivering",
    "resume-cursor": "resumable",
    "cursor-order": "resumable",
    "starts": "starts",
}
"""Checks that other kinds of sources do not have, or whose fault shows only there."""
THERE = {
    "ends": ["acks", "lost-acks", "drain", "slow-gateway", "end-of-stream", "last-acks", "reopen-after-end"],
    "gone": ["end-of-stream", "gone"],
    "redelivering": [
        "kind",
        "sequences",
        "acks",
        "reopen",
        "gateway-restart",
        "crash",
        "redelivery",
        "epochs",
        "earlier-epoch",
        "drain",
        "pace",
    ],
    "resumable": [
        "kind",
        "sequences",
        "frames",
        "acks",
        "reopen",
        "gateway-restart",
        "crash",
        "resume-cursor",
        "cursor-order",
        "drain",
    ],
    "starts": ["kind", "starts"],
    "needs-all": ["max-streams"],
}
"""Where the source is of another kind, the checks that are about that."""
ALSO = SESSION_ALSO | {
    "credit-requests": {"stream-credit"},
    "credit-messages": {"stream-credit"},
    "last-acks": {"slow-gateway"},
    "reopen-after-end": {"reopen"},
}
"""Faults that break the rule of another check, too: a source that sends no CreditRequest gets no credit for a stream."""
NAMES = {check.name for check in SOURCE_CHECKS}


def judge(flavour: str, tmp_path: Path, only: Sequence[str]) -> Verdict:
    """Runs the kit on the source of this folder."""
    spec = tmp_path / "source.toml"
    spec.write_text(SPECS[flavour])
    return judged("source", spec, command(flavour), only)


def command(flavour: str, fault: str = "none") -> tuple[str, ...]:
    """What starts the source of this folder."""
    return (sys.executable, "-m", "tests.conformance.source_faults", "{work}/in", f"--fault={fault}", *ARGUMENTS[flavour])


@pytest.mark.parametrize("flavour", in_turns(SPECS))
def test_a_source_that_keeps_the_rules_passes_every_check(flavour: str, tmp_path: Path) -> None:
    only = THERE.get(flavour, sorted(NAMES))
    verdict = judge(flavour, tmp_path, only)

    assert verdict.exit_code == 0, verdict.explained()
    assert verdict.named("passed") | verdict.named("skipped") == set(only)
    reasons = [verdict.checks[name]["detail"] for name in verdict.named("skipped")]
    assert all("not declared" in reason or "kind is" in reason for reason in reasons)
    assert flavour == "replayable" or not reasons


def test_each_check_is_run_on_one_source_at_least() -> None:
    assert set(FAULTS) == NAMES


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judged]:
    """The kit's verdict on each faulty source."""
    checks = {check.name: check for check in SOURCE_CHECKS}
    planted = []
    for fault in selected(request, "test_a_planted_fault_is_caught_by_its_check_alone"):
        flavour = ONLY_THERE.get(fault, "replayable")
        spec = SourceSpec.model_validate(tomllib.loads(SPECS[flavour]))
        planted.append(Planted(fault, spec, command(flavour, fault), sampled(checks[fault], SOURCE_CHECKS, request.config)))
    jobs = 2 if request.config.getoption("every_pair") else 1
    return asyncio.run(judged_at_once(planted, in_process.new_source_trial, jobs))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.timeout(1800)  # With --every-pair, the first one waits for all.
def test_a_planted_fault_is_caught_by_its_check_alone(fault: str, verdicts: Mapping[str, Judged]) -> None:
    verdict = verdicts[fault]
    assert {fault} <= verdict.failed <= {fault} | ALSO.get(fault, set()), verdict.explained()
    found = verdict.results[fault]
    assert found.detail
    assert found.trace
