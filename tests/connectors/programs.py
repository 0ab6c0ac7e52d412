"""The programs of a page, run as they stand there, but for ports and the like."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from scripts.brokers._broker import choose
from tests.docs.pages import blocks
from tests.gateway.wire import DEADLINE_S


def free_port() -> int:
    """A port that stays free while a program that is killed is away."""
    return choose(None, ())


class Page:
    """A page, whose programs are started one by one and end with it."""

    def __init__(self, page: str, folder: Path, instead: Mapping[str, object], stack: AsyncExitStack) -> None:
        self._page = page
        self._folder = folder
        self._instead = instead
        self._stack = stack
        self._written = 0

    async def connector(self, name: str, gateway: str) -> asyncio.subprocess.Process:
        """Runs the command of the first example that runs a connector."""
        lines = [line for block in blocks(self._page, "bash") for line in block.text.splitlines()]
        (line,) = [line for line in lines if line.startswith(f"headrace connector run {name} ")]
        words = shlex.split(self._adapted(line))[1:]
        return await self._start(sys.executable, "-m", "headrace.cli", *words, "--gateway", gateway)

    async def program(self, number: int) -> asyncio.subprocess.Process:
        """Runs the Python program that is the n-th on the page."""
        return await self.other_side(blocks(self._page, "python")[number].text)

    async def other_side(self, program: str) -> asyncio.subprocess.Process:
        """Runs a Python program of the system that the page connects to."""
        self._written += 1
        path = self._folder / f"{self._written}.py"
        path.write_text(self._adapted(program))
        return await self._start(sys.executable, str(path))

    def _adapted(self, text: str) -> str:
        for shown, other in self._instead.items():
            text = text.replace(shown, str(other))
        return text

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=self._folder, env=environ)

        async def end() -> None:
            if process.returncode is None:
                process.kill()
            await process.wait()

        self._stack.push_async_callback(end)
        return process


@asynccontextmanager
async def page(name: str, folder: Path, instead: Mapping[str, object]) -> AsyncIterator[Page]:
    """A page, with other texts in the place of some."""
    async with AsyncExitStack() as stack:
        yield Page(name, folder, instead, stack)


async def line(process: asyncio.subprocess.Process) -> str:
    """The next line that a program prints."""
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        return (await process.stdout.readline()).decode().rstrip("\n")


async def listening(port: int) -> None:
    """Waits until somebody listens."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
