"""What the fake gateways for connectors share: a real gRPC server, and calls whose answers a test scripts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc

from headrace.conformance.core import server, session_checks
from headrace.conformance.core.server import GatewayServer as FakeServer

__all__ = ["DEADLINE", "FakeServer", "ScriptedCall", "until"]

DEADLINE = 90.0
"""How long a test waits for a connector, in seconds."""

Request = TypeVar("Request")
Response = TypeVar("Response")


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that only shows in a connector's own state."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.002)


@dataclass(eq=False, kw_only=True)
class ScriptedCall(server.ScriptedCall[Request, Response]):
    """One call of a connector, from the gateway's side: a test takes what it sends, and puts what it is to be told."""

    def close_because(
        self, status: grpc.StatusCode, reason: str, details: str = "as the test says", domain: str = "headrace", **metadata: str
    ) -> None:
        """Ends the call with a reason for programs."""
        self.close(status, details, session_checks.details(status, details, reason, domain, metadata))
