"""The connector as a process: started by any command, stopped and killed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from headrace.conformance.core.errors import CannotStart


class ConnectorProcess:
    """One start of the command. Its output goes to files."""

    def __init__(self, process: asyncio.subprocess.Process, ended: Callable[[], None]) -> None:
        """Watches a process that has just been started, and calls `ended` once it has ended."""
        self._process = process
        self._waiting = asyncio.create_task(self._wait(ended))

    @classmethod
    async def start(
        cls, command: Sequence[str], environ: Mapping[str, str], output: Path, log: Path, ended: Callable[[], None]
    ) -> "ConnectorProcess":
        """Starts the command, as the leader of a process group of its own.

        Args:
            command: The program and its arguments.
            environ: Its environment.
            output: The file that its standard output is appended to.
            log: The file that its standard error is appended to.
            ended: Called once the process has ended.

        Raises:
            CannotStart: There is no such program, or it cannot be executed.
        """
        with output.open("ab") as out, log.open("ab") as errors:
            return cls(await _spawned(command, environ, out, errors), ended)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None

    def terminate(self) -> None:
        """Sends SIGTERM to the process that was started."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """Sends SIGKILL to the process and to all that it has started, and waits for its end."""
        kill_group(self._process)
        await self._waiting

    async def _wait(self, ended: Callable[[], None]) -> None:
        await self._process.wait()
        ended()


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Sends SIGKILL to a process that leads a group, and to all in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _spawned(
    command: Sequence[str], environ: Mapping[str, str], out: BinaryIO, errors: BinaryIO
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=errors, env=dict(environ), start_new_session=True
        )
    except OSError as error:
        raise CannotStart(f"cannot start {command[0]}: {error.strerror}") from None
