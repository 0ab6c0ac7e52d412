"""The statuses with which calls end: a code, a text for humans, and a reason for programs in the rich error model."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from headrace.protocol.v1 import connector_pb2

DOMAIN = "headrace"
"""The domain of the reasons in `google.rpc.ErrorInfo`."""
MAX_TEXT_BYTES = 1_200
"""The size in bytes of a status's text. gRPC drops a status whose trailers have more than some 8 kB. They contain the text
twice: percent-encoded, which makes up to three bytes of one, and in base64."""
_END_BYTES = 300
Reason: TypeAlias = connector_pb2.ErrorReason.ValueType


def reason_name(reason: Reason) -> str:
    """Returns the name of a reason in ErrorInfo."""
    return connector_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


def cut(text: str) -> str:
    """Returns a text that fits into a status: of a longer one the beginning, and the end, which tells what to do."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= MAX_TEXT_BYTES:
        return text
    gap = f" ... ({len(encoded):,} bytes, cut) ... "
    begin, end = encoded[: MAX_TEXT_BYTES - _END_BYTES - len(gap)], encoded[-_END_BYTES:]
    return begin.decode(errors="ignore") + gap + end.decode(errors="ignore")


Context = grpc.aio.ServicerContext[Any, Any]
"""A call."""


async def abort(
    context: Context,
    code: grpc.StatusCode,
    text: str,
    reason: Reason | None = None,
    metadata: Mapping[str, str] | None = None,
    trailing: tuple[tuple[str, str], ...] = (),
) -> NoReturn:
    """Ends a call.

    Args:
        context: The call.
        code: Its status.
        text: The error, its place, and the remedy. It is cut if it is too long for a status.
        reason: The reason for programs; None if the status is enough.
        metadata: What programs may need to know besides the reason, as its comment in the protocol says.
        trailing: Trailing metadata besides the details of the status.

    Raises:
        grpc.aio.AbortError: always.
    """
    text = cut(text)
    if reason is not None:
        details = AnyMessage()
        details.Pack(ErrorInfo(reason=reason_name(reason), domain=DOMAIN, metadata=metadata or {}))
        status = rpc_status.to_status(Status(code=code.value[0], message=text, details=[details]))
        trailing = (*status.trailing_metadata, *trailing)
    await context.abort(code, text, trailing)
