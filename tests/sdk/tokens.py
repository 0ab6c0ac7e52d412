"""What every SDK does with a token in a file: one that is replaced, and then revoked, ends no connector."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, connector

from headrace.gateway import token_digest


async def replace_a_token(command: Sequence[str | Path], folder: Path) -> None:
    """Runs a connector whose token is in a file, replaces the token, and revokes the first one."""
    file = folder / "token"
    _write(file, "first\n")
    with gateway_process("--config", _configured(folder, "first")) as gateway:
        variables = [f"HEADRACE_TOKEN_FILE={file}", "HEADRACE_TOKEN=unknown"]
        async with connector(gateway.address, folder / "log", "env", *variables, *command) as running:
            await asyncio.to_thread(gateway.wait_for_log, "session opened")
            _configured(folder, "first", "second")
            await asyncio.to_thread(gateway.wait_for_log, '"calls_ended": 0')
            _write(file, "second\n")
            _configured(folder, "second")
            await asyncio.to_thread(gateway.wait_for_log, '"calls_ended": 1')
            async with asyncio.timeout(DEADLINE_S):
                while gateway.log.count("session opened") < 2:
                    assert running.runs, running.log
                    await asyncio.sleep(0.02)
            assert await running.end(signal.SIGTERM) == 0, running.log


def _configured(folder: Path, *tokens: str) -> Path:
    digests = [token_digest(token) for token in tokens]
    _write(folder / "gateway.toml", f'[[tokens]]\nname = "all"\nsha256 = {digests}\nsources = ["*/*"]\nsinks = ["*"]\n')
    return folder / "gateway.toml"


def _write(file: Path, text: str) -> None:
    """Replaces a file as a whole, so that nobody reads half of it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(file)
