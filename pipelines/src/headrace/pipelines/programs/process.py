"""The process of a program: its start, its handshake, and its answers to blocks.

This process starts one for each step, which lives as long as this process.
"""

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path

from google.protobuf.message import DecodeError

from headrace.pipelines._errors import ProgramError
from headrace.pipelines.programs.pipes import Broken, Pipes
from headrace.pipelines.programs.program import Program
from headrace.protocol.v1.program_pb2 import (
    ProgramBlock,
    ProgramHello,
    ProgramReady,
    ProgramRequest,
    ProgramResponse,
    ProgramResults,
)

PROGRAM_PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 64 * 2**20
"""The maximum size of a message in either direction, in bytes."""


class Process:
    """A process that runs a program. It ends when its standard input ends, and so with this process.

    Args:
        program: The program.
        folder: The folder that has its files.

    Raises:
        ProgramError: It cannot be started, or the handshake fails.
    """

    def __init__(self, program: Program, folder: Path | None) -> None:
        self.program, self.folder = program, folder
        self.is_usable = True
        # In real-time mode, the threads of several queries share a process, and an ending one may overlap with its successor.
        self._lock = threading.Lock()
        program.check_files(folder)
        try:
            # A group of its own, so that whatever a script starts is killed with it.
            self._process = subprocess.Popen(
                program.command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            raise ProgramError(f"{program.where} cannot be started: {error}") from error
        self._pipes = Pipes(self._process, program.step)
        self._block = 0
        self._doing = "at its start"
        self._handshake()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def process(self, block: ProgramBlock, messages: int) -> ProgramResults:
        """Sends a block, which gets its number here, and returns the results.

        Args:
            block: The block.
            messages: How many messages it has, for errors.

        Raises:
            ProgramError: There are none. The process has been killed.
        """
        with self._lock:
            self._block += 1
            block.block = self._block
            of = f"{messages} message{'s' * (messages > 1)} of {block.stream}"
            self._doing = f"while it had block {self._block} with {of}"
            request = ProgramRequest(block=block)
            if request.ByteSize() > MAX_MESSAGE_BYTES:
                raise self.failed(
                    f"cannot receive {of} with the states of the keys: {request.ByteSize():,} bytes, and the limit is "
                    f"{MAX_MESSAGE_BYTES:,}; keep less in a state, or divide the message before this step"
                )
            response = self._exchange(request)
            if response.WhichOneof("response") != "results":
                raise self.failed("did not answer with ProgramResults")
            if response.results.block != self._block:
                raise self.failed(f"answered block {response.results.block}")
            return response.results

    def failed(self, what: str) -> ProgramError:
        """Kills the process, and returns the error that says what it has done."""
        self.end()
        lines = self._pipes.last_lines()
        said = f"\n  The last lines of its standard error:{lines}" if lines else "; it wrote nothing to standard error"
        return ProgramError(
            f"{self.program.where} {what}, {self._doing}. Correct it and start the query again, which then continues after the "
            f"last committed micro-batch{said}"
        )

    def end(self) -> None:
        """Kills the process. It keeps nothing that is needed."""
        self.is_usable = False
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _handshake(self) -> None:
        program = self.program
        hello = ProgramHello(
            protocol_version=PROGRAM_PROTOCOL_VERSION,
            pipeline=program.pipeline,
            step=program.step,
            state_fields=program.fields,
            max_message_bytes=MAX_MESSAGE_BYTES,
        )
        response = self._exchange(ProgramRequest(hello=hello))
        if response.WhichOneof("response") != "ready":
            raise self.failed("did not answer ProgramHello with ProgramReady")
        self._check(response.ready)

    def _check(self, ready: ProgramReady) -> None:
        if ready.protocol_version != PROGRAM_PROTOCOL_VERSION:
            raise self.failed(
                f"speaks version {ready.protocol_version} of the protocol for programs, and this worker speaks version "
                f"{PROGRAM_PROTOCOL_VERSION}: update the older one"
            )
        if sorted(ready.state_fields) != sorted(self.program.fields):
            raise self.failed(
                f"keeps the fields {', '.join(ready.state_fields) or '(none)'} in its states, and state= of the step names "
                f"{', '.join(self.program.fields)}: both must name the same"
            )

    def _exchange(self, request: ProgramRequest) -> ProgramResponse:
        try:
            answer = self._pipes.exchange(request.SerializeToString(), self.program.timeout_s, MAX_MESSAGE_BYTES)
            return ProgramResponse.FromString(answer)
        except Broken as broken:
            raise self.failed(str(broken)) from None
        except DecodeError:
            raise self.failed(
                f"wrote something else than messages to standard output, beginning with {answer[:40]!r}; log to standard error"
            ) from None


_RUNNING: dict[tuple[str, str], Process] = {}
_LOCK = threading.Lock()


def running(program: Program, folder: Path | None) -> Process:
    """The process of a program, which is started if there is none.

    Raises:
        ProgramError: It cannot be started.
    """
    at = program.pipeline, program.step
    with _LOCK:
        process = _RUNNING.pop(at, None)
        if process is None or not process.is_usable or (process.program, process.folder) != (program, folder):
            if process is not None:
                process.end()
            process = Process(program, folder)
        _RUNNING[at] = process
        return process
