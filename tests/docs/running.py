"""Runs a program of a page as it is printed."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.docs.pages import Block


@asynccontextmanager
async def running(block: Block, folder: Path, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program in a process of its own."""
    (folder / "program.py").write_text(block.text)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "program.py",
        cwd=folder,
        env={**environ, "HEADRACE_GATEWAY": address, "GRPC_VERBOSITY": "NONE"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
