"""Futures for what a sink answers: a result, or the error that it stands for."""

import asyncio
from typing import TypeVar

from headrace.gateway.core.base.errors import ProtocolError

_T = TypeVar("_T")


def answer(future: "asyncio.Future[_T]", result: _T) -> None:
    """Sets the result of a future, unless it has one."""
    if not future.done():
        future.set_result(result)


async def outcome(future: "asyncio.Future[_T | ProtocolError]") -> _T:
    """Returns the answer; raises a copy of the error that was set instead of it.

    The future's own error is never raised: its traceback would keep the callers' frames alive.
    """
    result = await asyncio.shield(future)
    if isinstance(result, ProtocolError):
        raise type(result)(str(result), **result.metadata)
    return result
