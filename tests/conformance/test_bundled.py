"""Connectors that come with Headrace pass the kit: those here that need no broker, and the others in tests/connectors."""

import sys
from pathlib import Path

import pytest
from tests.conformance.kit import ROOT, judged
from tests.conformance.systems import CLOSE, judge

from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS
from headrace.connectors import CONNECTORS as REGISTRY

CONNECTORS = [sys.executable, "-m", "headrace.connectors_cli", "run"]
COMMON = """
report = true
heartbeat = true
tls = "--tls-ca {ca}"
mutual_tls = "--tls-cert {certificate} --tls-key {key}"
"""
FILE = r"""
messages = 30
setup = "mkdir {work}/in; for i in 0 1; do seq -f 'm'$i'-%02g' 1 15 > {work}/in/$i.txt; done"
produce = '''head -c {bytes} /dev/zero | tr '\0' x > {work}/line; echo >> {work}/line;
for i in $(seq {count}); do cat {work}/line; done >> {work}/in/0.txt'''
lose = "for i in 0 1; do echo no > {work}/in/$i.txt; done"
credit_request = true
backlog = true
pace = true
"""


def write(tmp_path: Path, text: str) -> Path:
    """A specification file."""
    path = tmp_path / "connector.toml"
    path.write_text(COMMON + text)
    return path


def test_every_bundled_connector_is_judged() -> None:
    tests = [Path(__file__), *(ROOT / "tests" / "connectors").glob("*/test_conformance.py")]
    text = "".join(path.read_text() for path in tests)
    assert [connector.name for connector in REGISTRY if f'"{connector.name}", "--' not in text] == []


@pytest.mark.in_turn(1)
def test_the_file_source_passes(tmp_path: Path) -> None:
    command = [*CONNECTORS, "file", "--path", "{work}/in/*.txt", "--source", "lines"]
    verdict = judged("source", write(tmp_path, FILE), command)

    assert verdict.exit_code == 0, verdict.explained()
    undeclared = {
        "redelivery",
        "epochs",
        "earlier-epoch",
        "resume-cursor",
        "cursor-order",
        "starts",
        "end-of-stream",
        "gone",
        "last-acks",
        "reopen-after-end",
    } | CLOSE
    assert verdict.named("skipped") == undeclared
    assert verdict.named("passed") == {check.name for check in SOURCE_CHECKS} - undeclared


def test_the_file_sink_passes() -> None:
    read = "cat {work}/out/*.jsonl 2>/dev/null || true"
    verdict = judge(
        "sink", ["file-sink", "--path", "{work}/out", "--sink", "out"], {"mode": "two-phase", "runs": True, "read": read}, {}
    )

    assert verdict.failed == set(), verdict.explained()
    undeclared = {"refusals", "batch-again", "staged-survives"} | CLOSE
    assert verdict.named("skipped") == undeclared
    assert verdict.named("passed") == {check.name for check in SINK_CHECKS} - undeclared


def test_the_sink_for_standard_output_passes() -> None:
    verdict = judge("sink", ["stdout-sink", "--sink", "out", "--json"], {"mode": "at-least-once", "read": "cat {output}"}, {})

    assert verdict.failed == set(), verdict.explained()
    assert {"staged-survives", "interleaved", "columns", "drain"} <= verdict.named("passed")
