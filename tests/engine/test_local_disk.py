"""The content of a local disk after each step of a write, when the process dies there, the disk is full, or the power fails."""

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.state_files import LocalFiles

STEPS = ("open", "writev", "fsync", "close", "link", "rename", "mkdir", "unlink")


class Steps:
    """Counts the calls that change a disk, and has one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.calls: list[str] = []
        self.fails_at: int | None = None
        self.durable: list[str] = []
        """What was forced to the disk, in order."""
        self._root = root
        for name in STEPS:
            patch.setattr(os, name, self._step(name, getattr(os, name)))

    def _step(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **words: Any) -> Any:
            self.calls.append(name)
            if self.fails_at is not None and len(self.calls) - 1 == self.fails_at and name not in ("close", "unlink"):
                if name == "writev":
                    os.write(arguments[0], bytes(arguments[1][0])[:2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if name == "fsync":
                self.durable.append(os.path.relpath(os.readlink(f"/proc/self/fd/{arguments[0]}"), self._root))
            return real(*arguments, **words)

        return step


def fails(write: Callable[[Path], None], root: Path) -> bool:
    try:
        write(root)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    return False


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


WRITERS: list[Callable[[Path], None]] = [
    lambda root: LocalFolder(root / "a" / "b", sync=True).write("7.1", "abcdef"),
    lambda root: LocalFiles(root / "a" / "b", sync=True).write("7.1", [b"abc", b"def"]),
]


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / str(number) for number in count())


@pytest.mark.parametrize("write", WRITERS)
def test_a_write_that_fails_leaves_nothing_and_can_be_repeated(
    roots: Iterator[Path], monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    failed = 0
    for number, root in enumerate(roots):
        root.mkdir()
        with monkeypatch.context() as patch:
            steps = Steps(patch, root)
            steps.fails_at = number
            if fails(write, root):
                failed += 1
                assert left(root) == []
                steps.fails_at = None
                write(root)
        assert left(root) == ["a/b/7.1"]
        assert (root / "a/b/7.1").read_text() == "abcdef"
        if number > len(steps.calls):
            break
    assert failed >= 4


@pytest.mark.parametrize("write", WRITERS)
def test_a_write_that_is_synced_forces_the_content_and_then_the_names_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    with monkeypatch.context() as patch:
        steps = Steps(patch, tmp_path)
        write(tmp_path)
    assert set(steps.durable[:2]) == {".", "a"}
    content, *names = steps.durable[2:]
    assert content.startswith("a/b/")
    assert set(names) == {"a/b"}
    last = len(steps.calls) - 1 - steps.calls[::-1].index("fsync")
    assert "link" not in steps.calls[last:]
    assert "writev" not in steps.calls[last:]


def test_nothing_is_forced_to_the_disk_unless_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        steps = Steps(patch, tmp_path)
        LocalFolder(tmp_path / "a").write("7.1", "abc")
        LocalFiles(tmp_path / "b").write("x", [b"abc"])
    assert steps.durable == []


def test_a_folder_without_links_has_files_that_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuses)
    folder = LocalFolder(tmp_path)
    folder.write("7.1", "abc")
    with pytest.raises(FileExistsError):
        folder.write("7.1", "def")
    assert (folder.names(), folder.read("7.1")) == (["7.1"], "abc")
