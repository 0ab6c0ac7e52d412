"""The log writer stops, continues and is killed, and its disk hangs, while processes print and the supervisor tells: every line
arrives once, or is counted, and nobody waits for ever.
"""

import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.machines import find_fault, run
from tests.selection.turns import in_turns

from headrace.deploy import log_pipes as log_pipes_module
from headrace.deploy import supervisor_log, writer_process
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes
from headrace.deploy.supervisor_log import SupervisorLog
from headrace.deploy.writer_process import WriterProcess
from headrace.log_writer import Disk, Writer
from headrace.log_writer import writer as writer_module
from headrace.log_writer.service import Service
from headrace.log_writer.writer import NO_ANSWER

PIPE_BYTES = 4096
WAITING_LINES = 20
LEFT_OUT = re.compile(r"there was no room here for ([\d,]+) lines? of the supervisor")


class SteppedDisk(Disk):
    """Works at once, or, while it hangs, not at all."""

    def __init__(self) -> None:
        super().__init__()
        self._hangs = False

    @property
    def hangs(self) -> bool:
        return self._hangs and bool(self._due)

    @property
    def is_late(self) -> bool:
        return self.hangs

    def hang(self, *, hangs: bool) -> None:
        self._hangs = hangs
        while self._due and not hangs:
            action = next(iter(self._due))
            del self._due[action]
            action()

    def do(self, action: Callable[[], None]) -> None:
        self._due[action] = None
        self.hang(hangs=self._hangs)

    def catch_up(self, late_s: float = 0.0) -> bool:
        return not self._due

    def close(self, within_s: float | None) -> bool:
        self.hang(hangs=False)
        return True


class Stepped:
    """Stands in for the process of the log writer, and works only when the test calls it."""

    def __init__(self, control: int) -> None:
        self.pid = os.getpid()
        self.returncode: int | None = None
        self.is_stopped = False
        self.silent_s = 0.0
        """For how long the supervisor has looked since it worked last."""
        self._connection = socket.socket(fileno=os.dup(control))
        self.disk = SteppedDisk()
        self._writer = Writer(1 << 30, disk=self.disk)
        self.service = Service(self._connection, self._writer)
        self._has_begun = False

    def step(self) -> None:
        if self.returncode is not None or self.is_stopped:
            return
        if not self._has_begun:
            self._has_begun = True
            self.service.begin()
        self.silent_s = 0.0
        if not self.service.step(0.0):
            self.service.close()
            self._connection.close()
            self.returncode = 0

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        """The supervisor ends a writer that has stopped."""
        # The same sum, but of differences of a clock instead of steps.
        assert self.silent_s >= writer_process.STOPPED_FOR_S - 0.001
        self.end()

    def end(self) -> None:
        """Ends it as SIGKILL does."""
        if self.returncode is None:
            self.returncode = -9
            for key in list(self._writer._pipes.get_map().values()):
                os.close(key.fd)
            for file in self._writer._files.values():
                file._leave()
            self._writer._pipes.close()
            self.service._selector.close()
            self._connection.close()

    def wait(self, timeout_s: float) -> None:
        if self.is_stopped:
            # The deployment has ended.
            self.silent_s = writer_process.STOPPED_FOR_S
            raise subprocess.TimeoutExpired("log writer", timeout_s)
        for _ in range(1_000):
            self.step()


class Printing(RuleBasedStateMachine):
    """One process that prints through a pipe to its log, and a supervisor that tells lines for its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.log = self.folder / "source.log"
        self.now = self.looked_at = 0.0
        self.printed = b""
        self.numbers = 0
        self.output = b""
        """What the process waits to print."""
        self.writer: Stepped | None = None
        self.told: list[str] = []
        machine = self

        class Process(WriterProcess):
            def _started(self, control: int, options: list[str]) -> Any:
                machine.writer = Stepped(control)
                return machine.writer

            def _does(self) -> str:
                assert machine.writer is not None
                return psutil.STATUS_STOPPED if machine.writer.is_stopped else psutil.STATUS_RUNNING

            def _wait_for_word(self, within_s: float) -> None:
                machine.now += 0.1
                assert machine.writer is not None
                machine.writer.step()

        self.tells = 0
        self.max_lines = supervisor_log.MAX_WAITING_LINES
        supervisor_log.MAX_WAITING_LINES = WAITING_LINES
        self.own = SupervisorLog(logging.Formatter("%(message)s"))
        self.real = log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES, log_pipes_module.Writer
        log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES = Process, PIPE_BYTES  # type: ignore[misc]
        log_pipes_module.Writer = partial(Writer, disk=SteppedDisk())  # type: ignore[assignment,misc]
        self.pipes = LogPipes(Comfort(self._tell), now=lambda: self.now)
        self.pipe = self.pipes.open("source", self.log)
        # Opened anew, since its descriptor shares its flags with the supervisor's.
        self.descriptor = os.open(f"/proc/self/fd/{self.pipe.fileno()}", os.O_WRONLY | os.O_NONBLOCK)

    def _tell(self, line: str) -> None:
        """The log pipes report to a log that they write."""
        self.told.append(line)
        self.own.write(line)

    @rule(lines=st.integers(1, 400), length=st.integers(0, 100))
    def the_supervisor_tells(self, lines: int, length: int) -> None:
        for _ in range(lines):
            self.tells += 1
            self.own.write(f"told {self.tells} {'x' * length}")

    @rule(lines=st.integers(1, 1_000))
    def prints(self, lines: int) -> None:
        for _ in range(lines):
            self.numbers += 1
            self.output += b"line %d\n" % self.numbers
        self._print()

    def _print(self) -> None:
        while self.output:
            try:
                written = os.write(self.descriptor, self.output[:512])
            except BlockingIOError:
                return
            self.printed, self.output = self.printed + self.output[:written], self.output[written:]

    @rule(steps=st.integers(1, 5))
    def the_writer_works(self, steps: int) -> None:
        assert self.writer is not None
        for _ in range(steps):
            self.writer.step()

    @property
    def disk(self) -> SteppedDisk:
        assert self.writer is not None
        return self.writer.disk

    @precondition(lambda self: self.writer.returncode is None and not self.writer.is_stopped)
    @rule()
    def the_disk_hangs(self) -> None:
        self.disk.hang(hangs=True)

    @precondition(lambda self: self.disk.hangs)
    @rule()
    def no_process_waits_for_a_disk_that_hangs(self) -> None:
        for _ in range(200):
            self.writer.step()  # type: ignore[union-attr]
            self._print()
            self._look(0.1)
        assert self.output == b""
        assert any(NO_ANSWER in line for line in self.told)

    @rule()
    def the_disk_answers(self) -> None:
        self.disk.hang(hangs=False)

    @precondition(lambda self: not self.disk._hangs)
    @rule()
    def the_writer_stops(self) -> None:
        assert self.writer is not None
        self.writer.is_stopped = True

    @rule()
    def the_writer_continues(self) -> None:
        assert self.writer is not None
        self.writer.is_stopped = False

    @precondition(lambda self: not self.disk._hangs)
    @rule()
    def the_writer_is_killed(self) -> None:
        assert self.writer is not None
        self.writer.end()

    @rule(every_s=st.sampled_from([0.1, 1.0]), times=st.integers(1, 15))
    def the_supervisor_looks(self, every_s: float, times: int) -> None:
        for _ in range(times):
            self._look(every_s)

    @rule()
    def the_supervisor_is_suspended(self) -> None:
        self._look(1_000.0)

    @rule()
    def a_process_has_ended(self) -> None:
        self.pipes.catch_up()

    def _look(self, passed_s: float) -> None:
        self.now += passed_s
        if self.writer is not None:
            # Time has also passed while the supervisor waited for a word.
            self.writer.silent_s += min(self.now - self.looked_at, 1.0)
        self.looked_at = self.now
        self.pipes.look()
        self.own.flush(partial(self.pipes.open_own, "supervisor", self.folder / "supervisor.log"))

    @invariant()
    def nothing_fails(self) -> None:
        assert not any("cannot" in line and NO_ANSWER not in line for line in self.told)

    def teardown(self) -> None:
        try:
            self.disk.hang(hangs=False)
            # One that stays stopped is killed, and the next one works.
            for _ in range(100):
                self._look(0.9)
                assert self.writer is not None
                self.writer.step()
                self._print()
            assert self.output == b""
            self.pipes.close()
            assert self.log.read_bytes() == self.printed
            self._check_own()
        finally:
            log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES, log_pipes_module.Writer = self.real  # type: ignore[misc]
            supervisor_log.MAX_WAITING_LINES = self.max_lines
            self.own.close()
            os.close(self.descriptor)
            self.pipe.close()
            if self.writer is not None:
                self.writer.end()
            shutil.rmtree(self.folder)

    def _check_own(self) -> None:
        """The supervisor's log has what it has told, in order, and how many lines are missing."""
        lines = (self.folder / "supervisor.log").read_text().splitlines()
        told = [line for line in lines if LEFT_OUT.match(line) is None]
        numbers = [int(line.split()[1]) for line in told if line.startswith("told ")]
        assert numbers == sorted(set(numbers))
        missing = sum(int(found[1].replace(",", "")) for line in lines if (found := LEFT_OUT.match(line)) is not None)
        assert len(told) + missing == self.tells + len(self.told)


def test_every_line_arrives_whatever_happens_to_the_log_writer(request: pytest.FixtureRequest) -> None:
    run(Printing, request.config, 1.0)


def _forgets_the_pipes(pipes: LogPipes) -> None:
    pipes._process = None


FAULTS = {
    "waits for a log writer that has stopped": (WriterProcess, "_judge", lambda _: None),
    "blames a log writer for its own suspension": (writer_process, "_MAX_LOOK_S", float("inf")),
    "kills a log writer that answers": (WriterProcess, "_hear", lambda self: setattr(self, "is_ready", True)),
    "forgets the pipes of a log writer that has ended": (LogPipes, "_read_all_ourselves", _forgets_the_pipes),
    "does not name a disk that hangs": (writer_module, "NO_ANSWER", "cannot"),
    "waits for a disk that hangs": (Writer, "_read", lambda self, key: 0 if self._disk.is_late else read(self, key)),
    "does not tell that it has left lines out": (SupervisorLog, "_tell_left_out", lambda self: setattr(self, "_left_out", 0)),
    "reads pipes that the log writer reads": (LogPipes, "_hand_over", lambda self: hand_over_twice(self)),
}


def hand_over_twice(pipes: LogPipes) -> None:
    real_hand_over(pipes)
    for name, pipe in pipes._pipes.items():
        if pipe.is_read and not pipes._own.waits_for(name):
            pipes._add_own(name, pipe)
            pipe.is_read = False


real_hand_over = LogPipes._hand_over
read = Writer._read


@pytest.mark.parametrize("fault", in_turns(FAULTS))
def test_the_machine_finds(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, name, value = FAULTS[fault]
    monkeypatch.setattr(target, name, value)
    with pytest.raises(AssertionError):
        find_fault(Printing, examples=400)
