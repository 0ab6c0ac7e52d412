"""`headrace state query` of a checkpoint that an application is writing, without Java: whatever is typed as a key."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of
from tests.engine.live_checkpoint import LiveCheckpoint

from headrace.cli import cli
from headrace.pipelines.runtime import Key

PROGRAM = """
from tests.engine.levels import two_levels

app = two_levels()
"""
KEYS: list[tuple[str, Key]] = [
    ("a", "a"),
    ("7", 7),
    ("-7", -7),
    ("2.5", 2.5),
    ("null", None),
    ('["a", 1]', ("a", 1)),
    ('["a", ["b", null]]', ("a", ("b", None))),
    ("bytes", b"bytes"),
    ("\udcff", b"\xff"),
    ("ü", "ü"),
    ("NaN", "NaN"),
    ("[]", ()),
]
NO_KEYS = ["NaN ", "9" * 400, "[" * 200_000, '[{"a": 1}]', "[" * 20 + "]" * 20, "\udc80", "{}", "true", "-", "1e400"]
Query = Callable[..., Result]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[LiveCheckpoint]:
    """A checkpoint whose driver runs."""
    made = LiveCheckpoint(tmp_path / "checkpoint")
    made.run({("count", key): number for number, (_, key) in enumerate(KEYS, 1)})
    yield made
    made.stop()


@pytest.fixture
def query(tmp_path: Path, checkpoint: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> Query:
    program = tmp_path / "live_application_of_a_query.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def call(*words: str) -> Result:
        command = ["state", "query", str(program), "--checkpoint", str(checkpoint.folder), *words]
        return CliRunner().invoke(cli, command, env={"JAVA_HOME": "/nowhere", "PATH": "/nowhere"})

    return call


def test_each_key_is_found_by_how_it_is_typed(query: Query) -> None:
    for number, (text, _) in enumerate(KEYS, 1):
        found = query("--json", "--", "count", text)
        assert found.exit_code == 0, (text, found.output)
        assert result_of(found.stdout)["state"] == {"seen": number}


@pytest.mark.parametrize("text", NO_KEYS, ids=lambda text: text[:8].encode("ascii", "backslashreplace").decode())
def test_a_text_that_is_no_key_is_absent_and_breaks_nothing(query: Query, text: str) -> None:
    found = query("--", "count", text)
    assert found.exit_code == 1, found.output
    assert isinstance(found.exception, SystemExit)
    assert "step count keeps no state for key" in found.stderr


def test_what_is_not_committed_is_never_shown(query: Query, checkpoint: LiveCheckpoint) -> None:
    for number, dies in enumerate(["before", "after", ""], 100):
        checkpoint.run({("count", "a"): number, ("count", "new"): number}, dies)
        is_committed = not dies
        document = json.loads(query("count", "a").stdout)
        assert (document["batch"], document["state"]) == ((1, {"seen": number}) if is_committed else (0, {"seen": 1}))
        assert query("count", "new").exit_code == (0 if is_committed else 1)
