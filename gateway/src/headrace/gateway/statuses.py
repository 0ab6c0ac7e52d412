"""The statuses with which calls end: a code, a text for humans, and a reason for programs in the rich error model."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from headrace.protocol.v1 import connector_pb2

DOMAIN = "headrace"
"""The domain of the reasons in `google.rpc.ErrorInfo`."""
Reason: TypeAlias = connector_pb2.ErrorReason.ValueType


def reason_name(reason: Reason) -> str:
    """Returns the name of a reason in ErrorInfo."""
    return connector_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


async def abort(
    context: "grpc.aio.ServicerContext[Any, Any]",
    code: grpc.StatusCode,
    text: str,
    reason: Reason | None = None,
    metadata: Mapping[str, str] | None = None,
    trailing: tuple[tuple[str, str], ...] = (),
) -> None:
    """Ends a call.

    Args:
        context: The call.
        code: Its status.
        text: What was wrong, where, and what to do.
        reason: The reason for programs; None if the status is enough.
        metadata: What programs may need to know besides the reason, as its comment in the protocol says.
        trailing: Trailing metadata besides the details of the status.

    Raises:
        grpc.aio.AbortError: always.
    """
    if reason is not None:
        details = AnyMessage()
        details.Pack(ErrorInfo(reason=reason_name(reason), domain=DOMAIN, metadata=metadata or {}))
        status = rpc_status.to_status(Status(code=code.value[0], message=text, details=[details]))
        trailing = (*status.trailing_metadata, *trailing)
    await context.abort(code, text, trailing)
