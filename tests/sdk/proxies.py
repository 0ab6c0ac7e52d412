"""A connector behind a proxy that is the cause of why it does not connect."""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from tests.sdk.processes import DEADLINE_S, connector

_ELSEWHERE = "192.0.2.1:7433"
"""An address that is not this machine's, where connectors use no proxy."""


async def names_its_proxy(command: Callable[[str, int], list[str | Path]], named: str, log: Path) -> None:
    """Runs a connector until its log names the proxy, which refuses connections.

    Args:
        command: Returns the connector's command for a proxy, given as host and port.
        named: A part of the log, with the fields `host` and `port`.
        log: The file of the log.
    """
    with socket.socket() as bound:
        # As long as nobody listens on it, connections to its port are refused.
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        async with connector(_ELSEWHERE, log, *command(host, port)) as running:
            async with asyncio.timeout(DEADLINE_S):
                while named.format(host=host, port=port) not in running.log:  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.02)
            await running.end(signal.SIGTERM)
