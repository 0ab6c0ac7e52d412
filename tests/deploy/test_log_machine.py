"""A log whose file is rotated by every scheme of logrotate, removed, truncated and obstructed, on a disk that fills up and hangs.

Every line that was printed ends whole in one file, once, unless the scheme itself loses it, or it had no room and is counted: for
the supervisor, and by a line in the file.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.machines import find_fault, run

from headrace.log_writer import LogFile, opened
from headrace.log_writer import file as file_module

MAX_BYTES = 400
WAITING_BYTES = 300
READ_BYTES = 100
LINE = re.compile(rb"(\d+):x*:(\d+)")
MISSING = re.compile(rb"missing (\d+)")


class Log(RuleBasedStateMachine):
    """Keeps a descriptor of each file that was ever the log, so that nothing is missed which somebody has removed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "orders.log"
        self.now = 0.0
        self.room: int | None = None
        self.hangs = False
        self.during = 0
        """How many bytes arrive during the next write."""
        self.told: set[bytes] = set()
        """Lines that stand for what is missing, as far as there was room for them."""
        self.has_cut = False
        """Whether somebody may have cut such a line."""
        self.real = file_module.os, file_module.MAX_WAITING_BYTES, file_module.told_missing
        file_module.os = SimpleNamespace(**{**vars(os), "write": self._write})  # type: ignore[assignment]
        file_module.MAX_WAITING_BYTES = WAITING_BYTES
        file_module.told_missing = self._told_missing  # type: ignore[assignment]
        self.files: dict[int, int] = {}
        self.copies: list[bytes] = []
        self.removed: list[bytes] = []
        self.printed: list[bytes] = []
        self.output = b""
        """What was printed, and not given to the log."""
        self.in_progress = b""
        """What was written of a line that has no end yet."""
        self.excused: set[int] = set()
        """Lines that somebody has removed or cut, by number."""
        self.lost = 0
        self.names = 0
        self.log = LogFile(self.path, MAX_BYTES, lambda: self.now)

    def _told_missing(self, size: int, *, as_json: bool) -> bytes:
        assert not as_json
        self.told.add(b"missing %d" % size)
        return b"missing %d\n" % size

    def _write(self, descriptor: int, data: bytes) -> int:
        if self.during:
            self.output, part = self.output[self.during :], self.output[: self.during]
            self.during = 0
            self.log.take(part)
        size = len(data) if self.room is None else min(len(data), self.room)
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room is not None:
            self.room -= size
        written = os.write(descriptor, data[:size])
        self.in_progress = (self.in_progress + bytes(data[:written])).rpartition(b"\n")[2]
        if not os.fstat(descriptor).st_nlink:
            # On a full disk, the line may end in the next file.
            self._excuse_last()
        return written

    @rule(lengths=st.lists(st.integers(0, MAX_BYTES // 2), min_size=1, max_size=5), parts=st.integers(1, 4))
    def prints(self, lengths: list[int], parts: int) -> None:
        for length in lengths:
            number = len(self.printed)
            self.printed.append(b"%d:%b:%d" % (number, b"x" * length, number))
            self.output += self.printed[-1] + b"\n"
        for _ in range(parts):
            self._give(len(self.output) // parts)

    @rule(size=st.integers(1, 50))
    def prints_a_part(self, size: int) -> None:
        self._give(size)

    def _give(self, size: int) -> None:
        """Prints the next bytes, of which a pipe passes on a few at a time."""
        while size > 0 and self.output:
            part = self.output[: min(size, READ_BYTES)]
            size, self.output = size - len(part), self.output[len(part) :]
            begins, lost = self.log._begins_line and not self.log.waits, self.log.lost_bytes
            self.log.take(part)
            self._flush()
            self._see()
            if begins and not self.log.waits and self.log.lost_bytes == lost:
                # Nobody writes a file that was renamed or removed.
                assert self._ends_with(part)

    def _ends_with(self, part: bytes) -> bool:
        """Whether the log ends with something, or is empty since it was renamed after that."""
        contents = [path.read_bytes() for path in (self.path, self.path.with_suffix(".1.log")) if path.exists()]
        return any(content.endswith(part) for content in contents[: 1 if contents and contents[0] else 2])

    @rule(seconds=st.sampled_from([0.1, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self._flush()
        self._see()

    def _flush(self) -> None:
        """The thread of the disk acts once output was taken."""
        if not self.hangs:
            self.log.flush()

    @rule()
    def the_disk_hangs(self) -> None:
        self.hangs = True

    @rule()
    def the_disk_answers(self) -> None:
        self.hangs = False
        self._flush()
        self._see()

    @rule(size=st.integers(1, 50))
    def prints_during_a_write(self, size: int) -> None:
        """What arrives while the disk works on what was there."""
        self.during = size
        self._flush()
        self.during = 0
        self._see()

    @rule(creates=st.booleans())
    def is_renamed(self, creates: bool) -> None:
        """logrotate with `create` or `nocreate`: the process is not told."""
        if self.path.is_file():
            self.path.rename(self._name())
            if creates:
                self.path.touch()
                self._see()

    @rule()
    def is_copied_and_truncated(self) -> None:
        if self.path.is_file():
            self.copies.append(self.path.read_bytes())
            os.truncate(self.path, 0)
            # logrotate itself cuts the line in progress.
            self._excuse_last()

    @rule()
    def is_truncated(self) -> None:
        if self.path.is_file():
            self.removed.append(self.path.read_bytes())
            self._excuse(self.removed[-1])
            os.truncate(self.path, 0)
            self._excuse_last()

    @rule()
    def is_removed(self) -> None:
        """The lines are gone, but for the descriptor that is kept here; the line in progress may end in the next file."""
        self.path.unlink(missing_ok=True) if not self.path.is_dir() else None
        self._excuse_last()

    @precondition(lambda self: not self.path.is_dir())
    @rule()
    def a_folder_is_in_its_place(self) -> None:
        if self.path.exists():
            self.path.rename(self._name())
        self.path.mkdir()

    @precondition(lambda self: self.path.is_dir())
    @rule()
    def the_folder_is_removed(self) -> None:
        self.path.rmdir()

    @rule(room=st.integers(0, 500))
    def the_disk_fills_up(self, room: int) -> None:
        self.room = room

    @rule()
    def the_disk_has_room(self) -> None:
        self.room = None

    @precondition(lambda self: not self.log.waits)
    @rule()
    def another_writer_continues(self) -> None:
        """One that does not know whether the file ends in the middle of a line, or the rest of a line is to be dropped."""
        self._excuse_last()
        given, end = sum(len(line) + 1 for line in self.printed) - len(self.output), 0
        for number, line in enumerate(self.printed):
            begin, end = end, end + len(line) + 1
            if begin < given < end:
                self.excused.add(number)
        self._close()
        self.log = LogFile(self.path, MAX_BYTES, lambda: self.now)

    @invariant()
    def nothing_waits_without_bounds(self) -> None:
        # One more for the end of a line that lost its own, and for the line that stands for what is missing.
        assert len(self.log._waiting) <= WAITING_BYTES + 1 + len(b"missing \n") + 8

    def teardown(self) -> None:
        try:
            self._check()
        finally:
            file_module.os, file_module.MAX_WAITING_BYTES, file_module.told_missing = self.real
            for descriptor in self.files.values():
                os.close(descriptor)
            shutil.rmtree(self.folder)

    def _check(self) -> None:
        self.room, self.hangs, self.now = None, False, self.now + 10.0
        if self.path.is_dir():
            self.path.rmdir()
        self.log.flush()
        while self.output:
            self._give(len(self.output))
        self.prints([1], parts=1)
        assert self._ends_with(self.printed[-1] + b"\n")
        assert self.log.fault is None
        assert not self.log.waits
        self._close()
        contents = [*(os.pread(descriptor, 1 << 30, 0) for descriptor in self.files.values()), *self.copies]
        found: Counter[int] = Counter()
        torn = [
            line
            for content in (*contents, *self.removed)
            for line in content.split(b"\n")
            if line and self._whole(line) is None and MISSING.fullmatch(line) is None
        ]
        told = [
            int(match[1])
            for content in (*contents, *self.removed)
            for line in content.split(b"\n")
            if (match := MISSING.fullmatch(line)) is not None
        ]
        assert sum(told) == self.lost or (self.has_cut and sum(told) <= self.lost)
        for content in contents:
            numbers = [number for line in content.split(b"\n") if (number := self._whole(line)) is not None]
            assert numbers == sorted(numbers)
            found.update(numbers)
        assert [number for number, count in found.items() if count > 1] == []
        missing = [number for number in range(len(self.printed)) if number not in found and number not in self.excused]
        assert sum(len(self.printed[number]) + 1 for number in missing) <= self.lost + sum(len(line) + 1 for line in torn)
        assert self.lost <= sum(len(self.printed[number]) + 1 for number in {*missing, *self.excused})
        for line in torn:
            # It has lost its end, or somebody has cut it.
            excused = [*(self.printed[number] for number in self.excused), *(self.told if self.has_cut else ())]
            assert any(printed.startswith(line) for printed in self.printed) or any(line in printed for printed in excused)

    def _whole(self, line: bytes) -> int | None:
        """The number of a line that is whole."""
        match = LINE.fullmatch(line)
        number = int(match[1]) if match is not None and match[1] == match[2] else None
        return number if number is not None and self.printed[number] == line else None

    def _see(self) -> None:
        """Notes the files that are there."""
        for path in self.folder.iterdir():
            if path.is_file() and path.stat().st_ino not in self.files:
                self.files[path.stat().st_ino] = os.open(path, os.O_RDONLY)

    def _name(self) -> Path:
        self.names += 1
        return self.folder / f"orders.log.{self.names}"

    def _close(self) -> None:
        self.log.close()
        self.lost += self.log.lost_bytes
        self._see()

    def _excuse(self, content: bytes) -> None:
        self.excused |= {number for line in content.split(b"\n") if (number := self._whole(line)) is not None}

    def _excuse_last(self) -> None:
        """Whoever cuts a file cuts the line that is being written."""
        if self.in_progress:
            self.has_cut = self.has_cut or b"missing".startswith(self.in_progress[:7])
            self.excused |= {number for number, line in enumerate(self.printed) if line.startswith(self.in_progress)}


def test_no_line_is_lost_that_the_scheme_permits(request: pytest.FixtureRequest) -> None:
    run(Log, request.config, 0.1)


def _not_at_the_end(path: Path) -> int:
    descriptor = opened(path)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_APPEND)
    return descriptor


def _says_it_wrote_all(log: Log, descriptor: int, data: memoryview) -> int:
    write(log, descriptor, data)
    return len(data)


def _all_at_once(file: LogFile) -> bytes:
    part = next_part(file)
    file._waiting.clear()
    return part


write = Log._write
next_part = LogFile._next_part
FAULTS = {
    "writes where it was before a truncation": (file_module, "opened", _not_at_the_end),
    "changes the file in the middle of a line": (LogFile, "_must_look", lambda self: True),
    "does not look for another file": (LogFile, "_look", lambda self: self._open() if self._descriptor is None else None),
    "drops what a write has left": (Log, "_write", _says_it_wrote_all),
    "does not count what has no room": (LogFile, "lost_bytes", property(lambda self: 0, lambda self, value: None)),
    "does not tell in the file what is missing": (LogFile, "_put", lambda self, missing: None),
    "forgets what arrives during a write": (LogFile, "_next_part", lambda self: _all_at_once(self)),
    "tears a line that has no room": (LogFile, "_skips", property(lambda self: False, lambda self, value: None)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_machine_finds(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, name, value = FAULTS[fault]
    monkeypatch.setattr(target, name, value, raising=False)
    with pytest.raises(AssertionError):
        find_fault(Log, examples=400)
