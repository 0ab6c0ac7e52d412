"""What the fake gateways for connectors share: a real gRPC server, and calls whose answers a test scripts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from headrace.conformance.core import server
from headrace.conformance.core.server import GatewayServer as FakeServer

__all__ = ["DEADLINE", "FakeServer", "ScriptedCall", "until"]

DEADLINE = 30.0
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
        info = AnyMessage()
        info.Pack(ErrorInfo(reason=reason, domain=domain, metadata=metadata))
        rich = rpc_status.to_status(Status(code=status.value[0], message=details, details=[info]))
        self.close(status, details, rich.trailing_metadata)
