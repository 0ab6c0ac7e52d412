"""One run of the log writer, as its supervisor sees it: what is sent to it, what it answers, and whether it still does."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from headrace.log_writer import MAX_MESSAGE_BYTES, send
from headrace.processes import hangups_held

ASK_EVERY_S = 1.0
STOPPED_FOR_S = 10.0
"""For how long it may be stopped, such as by SIGSTOP, before it is killed: processes wait once their pipes are full."""
SILENT_FOR_S = 60.0
"""For how long it may not answer otherwise, or not be ready: the machine may be busy."""
_MAX_LOOK_S = 1.0
"""How much of the time between two looks counts: a supervisor that was suspended itself must not blame the log writer."""
_CATCHES_UP_WITHIN_S = 5.0
_ENDS_WITHIN_S = 5.0
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "COVERAGE_PROCESS_START")
"""What the log writer needs of the environment: it must not have the secrets of others."""


class WriterProcess:
    """A log writer that was started. No method but `catch_up` and `end` waits for it.

    Attributes:
        is_ready: Whether it has begun to work.
        state: Its report about its logs.
    """

    def __init__(self, largest_bytes: int, *, to_stderr: bool, now: Callable[[], float] = time.monotonic) -> None:
        """Starts it.

        Args:
            largest_bytes: When a log is renamed.
            to_stderr: Whether all lines go to standard error too, with the names of their processes.
            now: A monotonic clock, in seconds.

        Raises:
            OSError: The system has no room for another process.
        """
        self.is_ready = False
        self.state: dict[str, Any] = {"faults": {}, "lost": {}}
        self._now = now
        self._questions = self._answers = 0
        self._asked_at = self._looked_at = now()
        self._silent_s = 0.0
        self._is_late = False
        self._fault: str | None = None
        self._is_killed = False
        options = ["--largest-bytes", str(largest_bytes), *(["--to-stderr"] if to_stderr else [])]
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            with other:
                self._process = self._started(other.fileno(), options)
        except OSError:
            self._control.close()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Returns its exit code; None while it runs."""
        return self._process.poll()

    def look(self) -> str | None:
        """Takes what it says, asks it for an answer from time to time, and kills it if it has been stopped for too long.

        Returns:
            Why it does not work; None if it does.
        """
        self._hear()
        now = self._now()
        passed_s, self._looked_at = min(now - self._looked_at, _MAX_LOOK_S), now
        if not self.is_ready or self._answers < self._questions:
            self._silent_s += passed_s
        elif now - self._asked_at < ASK_EVERY_S or self._ask(catches_up=False):
            self._silent_s, self._fault = 0.0, None
        else:
            self._silent_s += passed_s
        if self._silent_s >= STOPPED_FOR_S and not self._is_killed:
            self._judge()
        return self._fault

    def give(self, name: str, path: str, pipe: int, *, shows: bool) -> None:
        """Lets it read a pipe, too, whose lines go to standard error if it `shows` them.

        Raises:
            OSError: It takes nothing at the moment.
        """
        socket.send_fds(self._control, [json.dumps({"add": name, "path": path, "shows": shows}).encode()], [pipe])

    def leave(self, name: str) -> None:
        """Lets it forget a process, after its last words."""
        send(self._control, {"leave": name})

    def catch_up(self) -> bool:
        """Waits until it has written what processes have printed, for at most five seconds; one that was late, for none.

        Returns:
            Whether it still runs.
        """
        self._hear()
        if self.is_ready and not self._is_late and self._ask(catches_up=True):
            deadline = self._now() + _CATCHES_UP_WITHIN_S
            while self._answers < self._questions and not self._is_late:
                if self.exit_code() is not None:
                    return False
                self._wait_for_word(deadline - self._now())
                self._hear()
                self._is_late = self._answers < self._questions and self._now() >= deadline
        return True

    def end(self) -> bool:
        """Lets it write what is left, and ends it; returns whether it has written all."""
        if not self.is_ready:
            # It has nothing to write.
            self._process.kill()
        else:
            send(self._control, {"end": True})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        if self._process.returncode is None:
            self._process.kill()
            # One that waits for a disk may not even end by that.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS_WITHIN_S)
        return self._process.returncode == 0

    def close(self) -> None:
        """Closes the connection to it."""
        self._control.close()

    def _started(self, control: int, options: list[str]) -> "subprocess.Popen[bytes]":
        with hangups_held():
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "headrace.log_writer", "--control", str(control), *options],
                env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(control,),
            )

    def _judge(self) -> None:
        """Decides about one that has not answered for long."""
        does, silent = self._does(), f"the log writer, process {self.pid}, has not answered for {self._silent_s:.0f} s"
        if does == psutil.STATUS_DISK_SLEEP:
            # To kill it would lose what it has read, and another one would wait for the same disk.
            self._fault = f"{silent.rpartition(' for ')[0]}: it waits for the disk of the logs"
        elif does in _STOPPED or self._silent_s >= SILENT_FOR_S:
            self._fault = f"{silent}: it is {'stopped' if does in _STOPPED else 'stuck'}, and is killed"
            self._is_killed = True
            self._process.kill()

    def _does(self) -> str:
        """Returns what the system says of it; empty if it has ended."""
        try:
            return str(psutil.Process(self.pid).status())
        except psutil.Error:
            return ""

    def _ask(self, *, catches_up: bool) -> bool:
        """Asks for an answer; returns whether the question could be sent."""
        if not send(self._control, {"ask": self._questions + 1, "catches_up": catches_up}):
            return False
        self._questions += 1
        self._asked_at = self._now()
        return True

    def _hear(self) -> None:
        while True:
            try:
                packet = self._control.recv(MAX_MESSAGE_BYTES)
            except (BlockingIOError, ConnectionError):
                return
            if not packet:
                return
            # It works, whatever it says.
            self._silent_s = 0.0
            message = json.loads(packet)
            if "answered" in message:
                self._answers = message["answered"]
                self._is_late = self._is_late and self._answers < self._questions
            elif "faults" in message:
                self.is_ready = True
                self.state = message

    def _wait_for_word(self, within_s: float) -> None:
        self._control.settimeout(max(0.001, min(within_s, 0.1)))
        with contextlib.suppress(TimeoutError):
            self._control.recv(1, socket.MSG_PEEK)
        self._control.setblocking(False)
