"""The SDK for Python: the programs on its pages keep the rules of the protocol."""

import shlex
import sys
from pathlib import Path

import pytest
from tests.conformance.kit import Verdict, judged
from tests.conformance.support import assert_as_published
from tests.docs.pages import blocks

pytestmark = pytest.mark.timeout(600)

COMMON = "report = true\nheartbeat = true\ntls = ''\nmutual_tls = ''\n"
"""The SDK takes certificates from the variables."""
SOURCE = "messages = 10\nends = true\ncredit_request = true\nclosed = 'the source is closed'\n"
READ = """
import json, pathlib, sqlite3, sys
if pathlib.Path("ledger.db").exists():
    with sqlite3.connect("ledger.db", timeout=60) as db:
        for (body,) in db.execute("SELECT body FROM parts WHERE state = 'visible'"):
            for line in body.decode().splitlines():
                print(json.dumps(line))
"""


def judge(kind: str, program: str, spec: str, tmp_path: Path) -> Verdict:
    """Runs the kit on a program, which works in a folder of its own for each check."""
    file = tmp_path / "program.py"
    file.write_text(program)
    path = tmp_path / "spec.toml"
    path.write_text(COMMON + spec)
    start = f'cd "$HEADRACE_WORK" && exec {shlex.join([sys.executable, str(file)])}'
    return judged(kind, path, ["/bin/sh", "-c", start], jobs=3)


def test_the_source_of_the_readme_keeps_the_rules_of_the_protocol(tmp_path: Path) -> None:
    (program,) = (block.text for block in blocks("sdk/python/README.md", "python"))
    verdict = judge("source", program, SOURCE, tmp_path)
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("python", "source", verdict)


def test_the_two_phase_sink_of_its_page_keeps_the_rules_of_the_protocol(tmp_path: Path) -> None:
    (program,) = (block.text for block in blocks("docs/write/writing-a-sink.md", "python") if "TwoPhaseSink, run" in block.text)
    (tmp_path / "read.py").write_text(READ)
    read = f"cd {{work}} && {shlex.join([sys.executable, '-S', str(tmp_path / 'read.py')])}"
    verdict = judge("sink", program, f"mode = 'two-phase'\nread = \"{read}\"\nclosed = 'the sink is closed'\n", tmp_path)
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("python", "sink", verdict)
