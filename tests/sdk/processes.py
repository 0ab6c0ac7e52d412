"""Connectors and gateways that a test kills and starts again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

DEADLINE_S = 150.0


class Connector:
    """A connector, started again with the same arguments after it was killed."""

    def __init__(self, gateway: str, log: Path, *command: str | Path) -> None:
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        self._environ["HEADRACE_GATEWAY"] = gateway
        self._log = log
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> str:
        """Everything that it has logged."""
        return self._log.read_text()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        with self._log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=out, stderr=out, env=self._environ)

    async def end(self, number: signal.Signals) -> int:
        """Sends a signal, and returns the exit code. SIGHUP comes before SIGTERM, and ends no connector."""
        assert self._process is not None
        if self._process.returncode is None:
            if number is signal.SIGTERM:
                self.hang_up()
            self._process.send_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            return await self._process.wait()

    def hang_up(self) -> None:
        """Sends SIGHUP, unless it has ended."""
        assert self._process is not None
        if self._process.returncode is None:
            # Not send_signal: it would take the exit code of one that has just ended, and asyncio would not find it.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGHUP)

    async def restart(self) -> None:
        """Kills it with SIGKILL, and starts it again."""
        assert await self.end(signal.SIGKILL) == -signal.SIGKILL
        await self.start()


@asynccontextmanager
async def connector(gateway: str, log: Path, *command: str | Path) -> AsyncIterator[Connector]:
    """A connector that runs; it is killed at the end of the block."""
    found = Connector(gateway, log, *command)
    await found.start()
    try:
        yield found
    finally:
        await found.end(signal.SIGKILL)
