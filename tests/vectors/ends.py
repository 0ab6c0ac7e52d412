"""How a gateway ended a session."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status
from tests.gateway.wire import DEADLINE_S


class End(NamedTuple):
    """The end of a call."""

    status: str
    reason: str | None
    """The ErrorReason, without its prefix; None if the call has none of Headrace."""
    text: str


async def end_of(call: Any) -> End:
    """Waits for the end of a call, and passes over the messages before it."""
    async with asyncio.timeout(DEADLINE_S):
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        details = await rpc_status.aio.from_call(call)
        code, text = await call.code(), await call.details()
    info = ErrorInfo()
    for detail in details.details if details is not None else ():
        detail.Unpack(info)
    return End(code.name, info.reason if info.domain == "headrace" else None, text or "")
