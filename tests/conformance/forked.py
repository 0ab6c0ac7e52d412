"""Bundled connectors as processes that are forked instead of started: most of the work of a start is its imports."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conformance import fork_server

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("python", "-m", fork_server.PROGRAM, "run")


class Forked:
    """A connector; stands in for `ConnectorProcess`."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.exit_code: int | None = None
        self.pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._ended = ended

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    async def kill(self) -> None:
        self._send(signal.SIGKILL)
        await self._over.wait()

    def _send(self, number: signal.Signals) -> None:
        if self.running:
            # Its end may not be known here yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid.result(), number)

    def note(self, pid: int | None = None, code: int | None = None) -> None:
        """Takes note of a line of the process that has forked it."""
        if pid is not None:
            self.pid.set_result(pid)
        if code is not None:
            self.exit_code = code
            self._over.set()
            self._ended()


class Forks:
    """A process that has loaded a connector, and forks it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._connectors: dict[int, Forked] = {}

    async def start(
        self, command: Sequence[str], environ: Mapping[str, str], output: Path, log: Path, ended: Callable[[], None]
    ) -> Forked:
        """Starts what `COMMAND ARGUMENT...` would start."""
        number = next(self._numbers)
        connector = self._connectors[number] = Forked(ended)
        arguments = command[len(COMMAND) - 1 :]
        request = {"number": number, "arguments": arguments, "environ": dict(environ), "output": str(output), "log": str(log)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await connector.pid
        return connector

    async def listen(self) -> None:
        """Tells connectors what becomes of them, until the process has ended."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            self._connectors[said.pop("number")].note(**said)
        for connector in self._connectors.values():
            if not connector.pid.done():
                connector.pid.set_exception(RuntimeError("the process that forks connectors has ended"))


@asynccontextmanager
async def forks(module: str) -> AsyncIterator[Forks]:
    """Loads a module, and forks connectors of it in the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", fork_server.__name__, module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdin is not None
    found = Forks(process)
    listening = asyncio.create_task(found.listen())
    try:
        yield found
    finally:
        process.stdin.close()
        await listening
        await process.wait()
