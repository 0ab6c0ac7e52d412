"""Dead letters that somebody discards: counted first, only with --yes, and none that is still being written."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.json_shape import result_of

from headrace.cli import cli
from headrace.connectors import DeadLetterSource, FileSink, Rotation, dead_letters
from headrace.connectors.bad_records import BadRecordPolicy, BadRecords
from headrace.sdk import Message, Part, Rows, Transaction

REFUSED = [("headrace-sink", b"alerts"), ("headrace-reason", b"odd")]


def _commit(sink: FileSink, batch: int, count: int) -> None:
    part = Part(Transaction("p", batch), 0, "a")
    sink.stage(part, iter([Rows.of(*(Message(b"%d" % n, headers=REFUSED) for n in range(count)))]))
    sink.prepare(part.transaction, [part])
    sink.commit(part.transaction)


def _discard(folder: Path, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["dead-letters", "discard-files", str(folder), *words, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = result_of(done.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of three and two dead letters, of a sink that has stopped."""
    with closing(FileSink("errors", tmp_path / "errors", rotation=Rotation(bytes=1))) as sink:
        sink.recover()
        _commit(sink, 0, 3)
        _commit(sink, 1, 2)
    return tmp_path / "errors"


def test_dead_letters_are_counted_and_removed_only_with_yes(folder: Path) -> None:
    counted = [{"file": "errors-000001.jsonl", "dead_letters": 3}, {"file": "errors-000002.jsonl", "dead_letters": 2}]
    shown = {"dead_letters": 5, "files": counted, "in_use": []}
    assert _discard(folder) == {"discarded": False, **shown}
    assert len(list(dead_letters(folder))) == 5
    assert _discard(folder, "--yes") == {"discarded": True, **shown}
    assert list(dead_letters(folder)) == []
    assert _discard(folder, "--yes") == {"discarded": True, "dead_letters": 0, "files": [], "in_use": []}


def test_a_sink_goes_on_with_the_next_number_and_a_replay_sends_only_what_is_new(folder: Path) -> None:
    _discard(folder, "--yes")
    with closing(FileSink("errors", folder)) as sink:
        assert sink.recover().committed == [Transaction("p", 1)]
        _commit(sink, 2, 1)
    assert DeadLetterSource("again", folder).partitions() == ["errors-000003.jsonl"]


def test_the_file_that_a_running_sink_appends_to_is_kept_and_named(folder: Path) -> None:
    with closing(FileSink("errors", folder)) as sink:
        sink.recover()
        found = _discard(folder, "--yes")
        (in_use,) = found["in_use"]
        assert (in_use["file"], found["dead_letters"]) == ("errors-000002.jsonl", 3)
        assert "sink errors runs and appends to it" in in_use["reason"]
        _commit(sink, 2, 1)
    assert len(list(dead_letters(folder))) == 3


def test_no_file_is_removed_while_a_commit_is_unfinished(folder: Path) -> None:
    (folder / ".headrace" / "errors" / "commit.json").write_text("{}")
    found = _discard(folder, "--yes")
    assert [one["file"] for one in found["in_use"]] == ["errors-000001.jsonl", "errors-000002.jsonl"]
    assert len(list(dead_letters(folder))) == 5


def test_the_file_of_a_running_source_is_kept(tmp_path: Path) -> None:
    policy = BadRecordPolicy("s", BadRecords.DEAD_LETTER, tmp_path)
    policy.take("0", Message(b"x"), ValueError("odd"))
    (file,) = tmp_path.glob("*.jsonl")
    reason = "a source writes to it: stop the source first"
    assert _discard(tmp_path, "--yes")["in_use"] == [{"file": file.name, "reason": reason}]
    del policy
    assert _discard(tmp_path, "--yes")["dead_letters"] == 1


def test_nothing_is_removed_from_a_folder_with_anything_else(folder: Path) -> None:
    (folder / "notes.jsonl").write_text("mine\n")
    done = CliRunner().invoke(cli, ["dead-letters", "discard-files", str(folder), "--yes", "--json"])
    assert done.exit_code == 2
    assert "notes.jsonl, byte 0: not a dead letter" in done.output
    assert "discarded: 0 dead letters" in done.output
    assert len(list(folder.glob("*.jsonl"))) == 3


def test_a_file_that_cannot_be_removed_is_named_with_what_is_discarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == "errors-000002.jsonl":
            raise PermissionError(1, "Operation not permitted", str(path))
        real(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    done = CliRunner().invoke(cli, ["dead-letters", "discard-files", str(folder), "--yes"])
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "errors-000002.jsonl cannot be removed: Operation not permitted; discarded: 3 dead letters" in said
