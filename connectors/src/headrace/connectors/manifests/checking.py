"""Runs the check command of a connector, with a deadline."""

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import IO

from headrace.connectors._errors import CheckFailed
from headrace.connectors.manifests._program import Program

CHECK_S = 30.0
"""How long a check command may take."""
_KEPT_BYTES = 4096
_LOOK_EVERY_S = 0.05
_READ_BYTES = 1 << 16


def checked(program: Program) -> str:
    """Runs a check command, and returns the first line of its output.

    Raises:
        ConnectorUnavailable: The program cannot be executed.
        CheckFailed: It exits with another code than 0, or does not end in time.
    """
    executable = program.executable()
    try:
        process = subprocess.Popen(
            (executable, *program.words[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=program.environ(),  # A check is about the connector's system, and needs nothing of the gateway.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise program.not_started(error) from None
    with process:
        try:
            code, output, errors = _ended(process, time.monotonic() + CHECK_S)
        finally:
            # It may have left processes behind, which hold the pipes open.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code is None:
        raise CheckFailed(f"the check command did not end within {CHECK_S:g} s")
    if code != 0:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise CheckFailed(_first_line(program, errors or output) or f"the check command ended with {how}, and said nothing")
    return _first_line(program, output) or "the check command said nothing, and ended with exit code 0"


def _ended(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[int | None, bytes, bytes]:
    """Waits for a process. Returns its exit code, None if it did not end in time, and the beginning of what it printed."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept: dict[IO[bytes], bytes] = {process.stdout: b"", process.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            has_ended = process.poll() is not None
            ready = selector.select(0.0 if has_ended else _LOOK_EVERY_S)
            if has_ended and not ready:
                break
            for key, _ in ready:
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                data = os.read(stream.fileno(), _READ_BYTES)
                kept[stream] = (kept[stream] + data)[:_KEPT_BYTES]
                if not data:
                    selector.unregister(stream)
    return process.poll(), kept[process.stdout], kept[process.stderr]


def _first_line(program: Program, output: bytes) -> str:
    """Returns the first line of an output, without secrets and control characters."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines()]
    line = "".join(filter(str.isprintable, next(filter(None, lines), "")))
    for secret in program.secrets.values():
        line = line.replace(secret, "***") if secret else line
    return line
