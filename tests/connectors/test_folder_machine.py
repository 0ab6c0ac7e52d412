"""What programs write to a folder at random, rotate, compress and touch, and what the file source reads: the same, in order."""

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests import machines
from tests.connectors.file_reading import Reading
from tests.connectors.logging_program import PACK, SCHEMES, Program

from headrace.connectors import FileSource
from headrace.sdk import Position

SECONDS_PER_EXAMPLE = 1.0
ODD = ("a named pipe", "a socket", "a link to nothing", "a device", "a link to the log", "a second name of the log", "a loop")


class FolderMachine(RuleBasedStateMachine):
    """Writes, rotates, compresses, copies, touches, links and removes files, and stops, restarts and kills what reads them."""

    @initialize(schemes=st.lists(st.sampled_from(SCHEMES), min_size=1, max_size=2), whole=st.booleans())
    def begin(self, schemes: list[str], whole: bool) -> None:
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.programs = [
            Program(self.folder / f"{name}.log", scheme) for name, scheme in zip(("app", "web"), schemes, strict=False)
        ]
        self.patterns = [self.folder / "*"] if whole else [program.log for program in self.programs]
        self.positions: dict[str, Position] = {}
        self.kept: dict[str, int] = {}
        self.kept_positions: dict[str, Position] = {}
        self.reading: Reading | None = None
        self.number = 0
        for program in self.programs:
            program.write(1)
        self._start({})
        self.drain()
        self.commit()

    def _start(self, found: dict[str, list[bytes]]) -> None:
        self.reading = Reading(FileSource("s", self.patterns, rotated_seconds=0.0), self.positions)
        self.reading.found = found

    @property
    def _reads(self) -> Reading:
        assert self.reading is not None
        return self.reading

    program = st.integers(0, 1)

    def _program(self, number: int) -> Program:
        return self.programs[number % len(self.programs)]

    @rule(number=program, count=st.sampled_from([0, 1, 3, 40, 4000]), end=st.sampled_from([b"", b"", b"begun "]))
    def write(self, number: int, count: int, end: bytes) -> None:
        self._program(number).write(count, end)

    @rule(number=program, times=st.integers(1, 3))
    def rotate(self, number: int, times: int) -> None:
        for _ in range(times):
            self._program(number).rotate()
            self._program(number).write(1)

    @rule(number=program, lost=st.booleans())
    def restart_in_a_rotation(self, number: int, lost: bool) -> None:
        """Stops or kills the connector while a log is renamed and the new one does not exist."""

        def between() -> None:
            if lost:
                self.kill()
            else:
                self.restart()
            self.read(3)

        self._program(number).rotate(between)
        self._program(number).write(1)

    @rule(number=program, which=st.integers(0, 9), suffix=st.sampled_from(sorted(PACK)))
    def compress(self, number: int, which: int, suffix: str) -> None:
        plain = [path for path in self._program(number).rotated() if path.suffix not in PACK]
        if plain:
            Program.pack(plain[which % len(plain)], suffix)

    @rule(number=program, which=st.integers(0, 9), hours=st.sampled_from([-48, -1, 0, 1]))
    def touch(self, number: int, which: int, hours: int) -> None:
        path = self._rotated(number, which)
        if path is not None:
            at = path.stat().st_mtime + hours * 3600
            os.utime(path, (at, at))

    @rule(number=program, which=st.integers(0, 9))
    def copy(self, number: int, which: int) -> None:
        path = self._rotated(number, which)
        if path is not None:
            shutil.copyfile(path, self.folder / ".new")
            (self.folder / ".new").replace(path)

    def _rotated(self, number: int, which: int) -> Path | None:
        found = self._program(number).rotated()
        return found[which % len(found)] if found else None

    @rule(number=program, odd=st.sampled_from(ODD))
    def add(self, number: int, odd: str) -> None:
        self.number += 1
        path, log = self.folder / f"odd{chr(97 + self.number)}", self._program(number).log
        match odd:
            case "a named pipe":
                os.mkfifo(path)
            case "a socket":
                with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
                    made.bind(str(path))
            case "a link to nothing":
                path.symlink_to("nowhere")
            case "a device":
                path.symlink_to("/dev/zero")
            case "a link to the log":
                path.symlink_to(log)
            case "a loop":
                path.symlink_to(self.folder)
            case _ if self._program(number).scheme in ("copy and truncate", "hole"):
                # Another name of a file that was renamed would be a copy of it.
                os.link(log, path)

    @precondition(lambda self: self._reads.values)
    @rule(number=program)
    def remove(self, number: int) -> None:
        """Removes the oldest rotated files, once all of them were read and are in the checkpoint."""
        self.drain()
        self.commit()
        for path in self._program(number).rotated()[2:]:
            path.unlink()

    @rule(count=st.integers(1, 5))
    def read(self, count: int) -> None:
        self.runner.run(self._reads.looks(count))

    @rule()
    def commit(self) -> None:
        self.kept_positions = dict(self.positions)
        self.kept = {stream: len(values) for stream, values in self._reads.found.items()}

    @rule()
    def restart(self) -> None:
        """Stops the connector in order: what it has read is in the checkpoint."""
        self.runner.run(self._reads.stop())
        self._start(self._reads.found)

    @rule()
    def kill(self) -> None:
        """Kills the gateway: what is not in the checkpoint is read again."""
        self.runner.run(self._reads.stop())
        self.positions = dict(self.kept_positions)
        self._start({stream: values[: self.kept.get(stream, 0)] for stream, values in self._reads.found.items()})

    @rule()
    def drain(self) -> None:
        expected = {program.log.name: program.lines for program in self.programs}
        self.runner.run(
            self._reads.until(
                lambda reading: all(len(reading.found.get(name, ())) >= len(lines) for name, lines in expected.items())
            )
        )
        assert {name: values for name, values in self._reads.found.items() if values} == expected

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            if self.reading is not None:
                self.drain()
                self.runner.run(self.reading.looks(10))
                self.drain()
        finally:
            if self.reading is not None:
                self.runner.run(self.reading.stop())
            self.runner.close()
            for program in self.programs:
                program.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def test_what_is_read_is_what_was_written(pytestconfig):
    machines.run(FolderMachine, pytestconfig, SECONDS_PER_EXAMPLE)
