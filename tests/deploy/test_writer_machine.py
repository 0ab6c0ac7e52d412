"""The log writer stops, continues and is killed while processes print: every line arrives once, and nobody waits for ever."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.machines import find_fault, run

from headrace.deploy import log_pipes as log_pipes_module
from headrace.deploy import writer_process
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes
from headrace.deploy.writer_process import WriterProcess
from headrace.log_writer import Writer
from headrace.log_writer.service import Service

PIPE_BYTES = 4096


class Stepped:
    """Stands in for the process of the log writer, and works only when the test calls it."""

    def __init__(self, control: int) -> None:
        self.pid = os.getpid()
        self.returncode: int | None = None
        self.is_stopped = False
        self.silent_s = 0.0
        """For how long the supervisor has looked since it worked last."""
        self._connection = socket.socket(fileno=os.dup(control))
        self._writer = Writer(1 << 30)
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
        """What the supervisor does, to one that has stopped."""
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
    """One process that prints through a pipe to its log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.log = self.folder / "source.log"
        self.now = 0.0
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

        self.real = log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES
        log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES = Process, PIPE_BYTES  # type: ignore[misc]
        self.pipes = LogPipes(Comfort(self.told.append), now=lambda: self.now)
        self.pipe = self.pipes.open("source", self.log)
        # Opened anew, since its descriptor shares its flags with that of the supervisor.
        self.descriptor = os.open(f"/proc/self/fd/{self.pipe.fileno()}", os.O_WRONLY | os.O_NONBLOCK)

    @rule(lines=st.integers(1, 400))
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

    @rule()
    def the_writer_stops(self) -> None:
        assert self.writer is not None
        self.writer.is_stopped = True

    @rule()
    def the_writer_continues(self) -> None:
        assert self.writer is not None
        self.writer.is_stopped = False

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
            self.writer.silent_s += min(passed_s, 1.0)
        self.pipes.look()

    @invariant()
    def nothing_fails(self) -> None:
        assert not any("cannot" in line for line in self.told)

    def teardown(self) -> None:
        try:
            # One that stays stopped is killed, and the next one works.
            for _ in range(100):
                self._look(0.9)
                assert self.writer is not None
                self.writer.step()
                self._print()
            assert self.output == b""
            self.pipes.close()
            assert self.log.read_bytes() == self.printed
        finally:
            log_pipes_module.WriterProcess, log_pipes_module._PIPE_BYTES = self.real  # type: ignore[misc]
            os.close(self.descriptor)
            self.pipe.close()
            if self.writer is not None:
                self.writer.end()
            shutil.rmtree(self.folder)


def test_every_line_arrives_whatever_happens_to_the_log_writer(request: pytest.FixtureRequest) -> None:
    run(Printing, request.config, 1.0)


def _forgets_the_pipes(pipes: LogPipes) -> None:
    pipes._process = None


FAULTS = {
    "waits for a log writer that has stopped": (WriterProcess, "_judge", lambda _: None),
    "blames a log writer for its own suspension": (writer_process, "_LONGEST_LOOK_S", float("inf")),
    "kills a log writer that answers": (WriterProcess, "_hear", lambda self: setattr(self, "is_ready", True)),
    "forgets the pipes of a log writer that has ended": (LogPipes, "_read_all_ourselves", _forgets_the_pipes),
    "reads pipes that the log writer reads": (LogPipes, "_hand_over", lambda self: hand_over_twice(self)),
}


def hand_over_twice(pipes: LogPipes) -> None:
    real_hand_over(pipes)
    for name, pipe in pipes._pipes.items():
        if pipe.is_read and not pipes._own.waits_for(name):
            pipes._add_own(name, pipe)
            pipe.is_read = False


real_hand_over = LogPipes._hand_over


@pytest.mark.parametrize("fault", FAULTS)
def test_the_machine_finds(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, name, value = FAULTS[fault]
    monkeypatch.setattr(target, name, value)
    with pytest.raises(AssertionError):
        find_fault(Printing, examples=400)
