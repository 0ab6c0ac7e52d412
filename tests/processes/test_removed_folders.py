"""Folders that a process removes when it ends: a disk that fails neither ends it nor hides why it ends."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.owned_folder import OwnedFolder, abandoned, remove

OPERATIONS = ("close", "fstat", "lstat", "open", "rmdir", "scandir", "stat", "unlink")


def _filled(folder: Path) -> Path:
    (folder / "kept" / "inner").mkdir(parents=True)
    (folder / "kept" / "inner" / "file").write_text("x")
    return folder / "kept"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_folder_is_removed_without_an_error_whichever_operation_fails_for_good(
    operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _filled(tmp_path)
    real: Callable[..., Any] = getattr(os, operation)

    def fails(*args: Any, **named: Any) -> Any:
        if operation == "close":
            real(*args, **named)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        failing.setattr(os, operation, fails)
        remove(folder)
    remove(folder)
    assert not folder.exists()


def test_a_folder_that_nobody_has_made_is_removed_without_an_error(tmp_path: Path) -> None:
    remove(tmp_path / "none")


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINTR, errno.EIO])
def test_a_folder_where_nothing_can_be_locked_is_named_and_nothing_is_left_there(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as refusing:
        refusing.setattr(fcntl, "flock", refuse)
        with pytest.raises(OSError, match=os.strerror(error)) as told:
            OwnedFolder(tmp_path, "calls-")
        assert list(abandoned(tmp_path)) == []
    assert told.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    OwnedFolder(tmp_path, "calls-").release()
