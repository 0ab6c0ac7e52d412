"""The Go source as a process of its own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 150.0


@dataclass(frozen=True)
class GoSource:
    """A go-source that runs."""

    process: asyncio.subprocess.Process
    log_file: Path

    @property
    def log(self) -> str:
        """Everything that it has logged."""
        return self.log_file.read_text()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.returncode is None

    async def wait(self, timeout_s: float = DEADLINE_S) -> int:
        """Its exit code."""
        async with asyncio.timeout(timeout_s):
            return await self.process.wait()

    async def wait_for_log(self, text: str) -> None:
        """Waits until it has logged something."""
        async with asyncio.timeout(DEADLINE_S):
            while text not in self.log:
                assert self.running, f"ended without logging {text!r}: {self.log}"
                await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Program:
    """The built binary, and where its logs go."""

    binary: Path
    logs: Path

    @asynccontextmanager
    async def run(self, gateway: str, **flags: object) -> AsyncIterator[GoSource]:
        """Runs it against a gateway; it is killed at the end of the block where it still runs."""
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in {"gateway": gateway, **flags}.items()]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        log = self.logs / f"go-source-{len(list(self.logs.iterdir()))}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(self.binary, *arguments, stdout=out, stderr=out, env=environ)
        try:
            yield GoSource(process, log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
