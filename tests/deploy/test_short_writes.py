"""A disk that is full in the middle of a write: what is left behind of a file is what was there before, or all that is new.

The kernel itself writes less than it is given, up to the limit of a file's size, and then nothing more: see setrlimit(2).
"""

import ast
import errno
import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.absent import absent
from tests.disks import room
from tests.test_layers import ROOT

from headrace.cli import cli
from headrace.machine.replacement import replace_text

WRITES = {
    "headrace/machine/replacement.py": "replace_text itself",
    "headrace/machine/owned_folder.py": "a lock without content",
    "headrace/terminal/contexts.py": "a lock without content; the contexts by replace_text",
    "headrace/connectors/bad_records.py": "takes back what is half written: test_bad_record_files",
    "headrace/connectors/_discarded.py": "opens a file to lock it",
    "headrace/connectors/file/_sink.py": "a lock without content",
    "headrace/connectors/file/disk.py": "transactions: test_file_sink_full_disks",
    "headrace/connectors/stdout/_sink.py": "a lock without content",
    "headrace/engine/applications/stages/call_files.py": "a page that is read by its length",
    "headrace/engine/applications/states/spill_file.py": "removed before it is used: lives as long as its process",
    "headrace/engine/checkpoint/copy.py": "a folder that counts once its last file is there",
    "headrace/engine/checkpoint/trees.py": "a folder that counts once its last file is there: headrace-backup.json",
    "headrace/gateway_cli/gateway.py": "a line into a descriptor; a file by replace_text",
    "headrace/cli/install_service.py": "a temporary file for systemd-analyze; the unit by replace_text",
    "headrace/deploy/lock.py": "the supervisor's number, for people",
    "headrace/deploy/log_pipes.py": "pipes",
    "headrace/log_writer/file.py": "logs: test_survival and test_log_machine",
    "headrace/preparation/background.py": "a log",
    "headrace/preparation/prepare.py": "a folder that is removed at the end",
    "headrace/processes/owned.py": "a log",
    "headrace/scaffold/project.py": "a folder that is renamed once it is whole",
}
"""Every module that writes files, and why none of them is left half written."""


def writers() -> Iterator[str]:
    """The modules of the product that create, change or truncate a file of the operating system."""
    for parent in ("base/src", "src", "gateway/src", "connectors/src", "engine/src", "pipelines/src", "sdk/python/src"):
        for path in sorted((ROOT / parent).rglob("*.py")):
            text = path.read_text()
            if not any(word in text for word in ("open(", "write_", "copy", "TemporaryFile(", "mkstemp(")):
                continue
            if any(writes(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
                yield str(path.relative_to(ROOT / parent))


def writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "write_text":
        return not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call))
    if name in ("open", "fdopen"):
        texts = [one.value for one in (*call.args, *(word.value for word in call.keywords)) if isinstance(one, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and 0 < len(text) <= 3 and not set(text) - set("rwxabt+")]
        return any(set(mode) & set("wxa+") for mode in modes) or any(flag in ast.dump(call) for flag in ("O_WRONLY", "O_RDWR"))
    return name in ("write_bytes", "copyfile", "copytree", "copy2", "NamedTemporaryFile", "mkstemp")


def test_every_module_that_writes_files_is_in_the_table() -> None:
    # Of these, one opens the null device, and the other writes help.
    elsewhere = {"headrace/terminal/program.py", "headrace/terminal/examples.py"}
    assert set(writers()) - elsewhere == WRITES.keys()


OLD, NEW = "before\n" * 3, "what is new\n" * 5


@pytest.mark.parametrize("before", [None, OLD])
def test_a_file_is_replaced_as_a_whole_or_is_as_it_was(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "file"
    for size in range(len(NEW) + 1):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before)
        try:
            with room(size):
                replace_text(path, NEW)
            now: str | None = NEW
        except OSError:
            now = before
        assert (path.read_text() if path.exists() else None) == now
        assert [one.name for one in tmp_path.iterdir()] == ([] if now is None else ["file"])
    assert path.read_text() == NEW


@pytest.mark.parametrize("operation", ["open", "fsync", "replace"])
def test_a_file_is_as_it_was_whichever_operation_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    path = tmp_path / "file"
    path.write_text(OLD)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(OSError, match="Input/output error"):
        replace_text(path, NEW)
    monkeypatch.undo()
    assert (path.read_text(), [one.name for one in tmp_path.iterdir()]) == (OLD, ["file"])


def contexts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[], int], Path]:
    """A command that adds a context beside another one."""
    file = folder / "contexts.toml"
    monkeypatch.setenv("HEADRACE_CONTEXTS", str(file))
    assert CliRunner().invoke(cli, ["context", "add", "first", "--gateway", "127.0.0.1:7433"]).exit_code == 0
    add = ["context", "add", "second", "--gateway", "gateway.example:7433"]
    return lambda: CliRunner().invoke(cli, add).exit_code, file


def unit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[], int], Path]:
    """A command that replaces a unit of systemd."""
    monkeypatch.setattr("headrace.deploy.unit._PRIVATE", ())
    monkeypatch.setattr("headrace.cli.install_service._verify", lambda name, text: None)
    (folder / "deploy.toml").write_text('[connectors.out]\nconnector = "stdout-sink"\nsink = "s"\n')
    (folder / "headrace.service").write_text(OLD)
    words = ["install-service", str(folder / "deploy.toml"), "--user", "root", "--folder", str(folder), "--replace"]
    return lambda: CliRunner().invoke(cli, words).exit_code, folder / "headrace.service"


@pytest.mark.parametrize("make", [contexts, unit])
def test_what_a_command_writes_is_whole_or_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path, pytest.MonkeyPatch], tuple[Callable[[], int], Path]],
) -> None:
    if make is unit and os.geteuid() != 0:
        absent("only root has a unit for root")
    command, file = make(tmp_path, monkeypatch)
    before = file.read_text()
    for size in (0, 1, len(before), len(before) + 1):
        with room(size):
            code = command()
        if code:
            assert file.read_text() == before
        assert not list(tmp_path.glob(".*.new"))
    assert command() == 0
    assert file.read_text() != before
    if make is contexts:
        assert set(tomllib.loads(file.read_text())["contexts"]) == {"first", "second"}
