"""Connectors that come with Headrace pass the kit."""

import sys
from pathlib import Path

from tests.conformance.kit import judged
from tests.conformance.session_faults import SESSION_FAULTS

from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS

CONNECTORS = [sys.executable, "-m", "headrace.connectors_cli", "run"]
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
FILE_SINK = """
mode = "two-phase"
read = "cat {work}/out/*.jsonl 2>/dev/null || true"
# Its files of staged parts have the names of pipeline and attempt in theirs, which a file system limits to 255 bytes.
known_failures = ["long-names"]
"""
SESSION_CHECKS = set(SESSION_FAULTS)
"""Those that sources and sinks have alike."""
STDOUT_SINK = """
mode = "at-least-once"
read = "cat {output}"
"""


def write(tmp_path: Path, text: str) -> Path:
    """A specification file."""
    path = tmp_path / "connector.toml"
    path.write_text(text)
    return path


def test_the_file_source_passes(tmp_path: Path) -> None:
    command = [*CONNECTORS, "file", "--path", "{work}/in/*.txt", "--source", "lines"]
    verdict = judged("source", write(tmp_path, FILE), command)

    assert verdict.exit_code == 0, verdict.explained()
    assert verdict.named("skipped") == {"redelivery", "epochs", "starts", "end-of-stream", "last-acks", "reopen-after-end"}
    assert len(verdict.named("passed")) == len(SOURCE_CHECKS) - 6


def test_the_file_sink_passes(tmp_path: Path) -> None:
    command = [*CONNECTORS, "file-sink", "--path", "{work}/out", "--sink", "out"]
    verdict = judged("sink", write(tmp_path, FILE_SINK), command)

    assert verdict.exit_code == 0, verdict.explained()
    assert verdict.named("known failure") == {"long-names"}
    assert verdict.named("skipped") == {"refusals", "batch-again", "staged-survives"}
    assert len(verdict.named("passed")) == len(SINK_CHECKS) - 4


def test_the_sink_for_standard_output_passes(tmp_path: Path) -> None:
    command = [*CONNECTORS, "stdout-sink", "--sink", "out", "--json"]
    # The other checks are about sessions, of which its SDK takes care as it does for the other sink.
    own = [check.name for check in SINK_CHECKS if check.name not in SESSION_CHECKS]
    verdict = judged("sink", write(tmp_path, STDOUT_SINK), command, own)

    assert verdict.exit_code == 0, verdict.explained()
    assert {"staged-survives", "interleaved", "columns", "drain"} <= verdict.named("passed")
