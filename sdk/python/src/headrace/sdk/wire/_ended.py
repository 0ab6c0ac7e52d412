"""The error for a call that ended: by the reason that the gateway gives, and by the status if it gives none."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from headrace.contract.proxies import through
from headrace.sdk._errors import GatewayRefused, GatewayUnavailable, SessionEnded, SessionTakenOver, StreamNotPermitted

DOMAIN = "headrace"

BY_REASON: Mapping[str, type[SessionEnded]] = MappingProxyType(
    {
        "MALFORMED_MESSAGE": GatewayRefused,
        "PROTOCOL_VERSION_UNSUPPORTED": GatewayRefused,
        "MESSAGE_OUT_OF_ORDER": GatewayRefused,
        "MESSAGE_UNKNOWN": GatewayRefused,
        "UNKNOWN_STREAM": GatewayRefused,
        "SEQUENCE_OUT_OF_RANGE": GatewayRefused,
        "FRAME_TOO_LARGE": GatewayRefused,
        "CREDIT_OVERRUN": GatewayRefused,
        "TOO_MANY_STREAMS": GatewayRefused,
        "TOO_MANY_SESSIONS": GatewayUnavailable,
        "TOO_MANY_NAMES": GatewayRefused,
        "LIST_TOO_LONG": GatewayRefused,
        "HELLO_TIMEOUT": GatewayUnavailable,
        "READ_TIMEOUT": GatewayUnavailable,
        "UNAUTHENTICATED": GatewayRefused,
        "TOKEN_REVOKED": GatewayRefused,
        "NOT_PERMITTED": StreamNotPermitted,
        "TAKEN_OVER": SessionTakenOver,
        "GATEWAY_STOPPING": GatewayUnavailable,
        "SINK_MODE_MISMATCH": GatewayRefused,
    }
)
"""What each reason means. The SDK reconnects after `GatewayUnavailable`, and after nothing else."""

_BY_STATUS: Mapping[grpc.StatusCode, type[SessionEnded]] = MappingProxyType(
    {
        grpc.StatusCode.UNAVAILABLE: GatewayUnavailable,
        grpc.StatusCode.DEADLINE_EXCEEDED: GatewayUnavailable,
        # gRPC reports broken transports and internal gateway failures in these ways.
        grpc.StatusCode.CANCELLED: GatewayUnavailable,
        grpc.StatusCode.INTERNAL: GatewayUnavailable,
        grpc.StatusCode.UNKNOWN: GatewayUnavailable,
        grpc.StatusCode.OK: GatewayUnavailable,
        grpc.StatusCode.ABORTED: SessionTakenOver,
        grpc.StatusCode.PERMISSION_DENIED: StreamNotPermitted,
    }
)
"""What a status without a known reason means, which comes from a proxy or from gRPC itself. Any other is a refusal."""

# The error of a server, or a proxy before it, with a stricter ping limit. Its status is the same as for the gateway's limits.
_PINGED_TOO_OFTEN = re.compile(r"too[ _]many[ _]pings|ENHANCE_YOUR_CALM", re.IGNORECASE)


async def call_ended(gateway: str, call: Any) -> SessionEnded:
    """Returns the error for a call that the gateway has ended."""
    try:
        status = await rpc_status.aio.from_call(call)
    except (ValueError, DecodeError):  # Something on the way has changed the status.
        status = None
    return session_ended(gateway, await call.code(), await call.details() or "", _info(status))


def call_broke(gateway: str, error: grpc.aio.AioRpcError) -> SessionEnded:
    """Returns the error for a call that gRPC reports as failed."""
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        status = None
    return session_ended(gateway, error.code(), error.details() or "", _info(status))


def session_ended(gateway: str, status: grpc.StatusCode, details: str, info: ErrorInfo | None) -> SessionEnded:
    """Returns the error for a call that ended with a status, and with a reason unless `info` is None."""
    # Without a reason, the gateway may never have been reached.
    proxied = through(gateway) if info is None else ""
    text = f"gateway {gateway}{proxied}: {details or 'no reason given'} ({status.name})"
    kind = None if info is None else BY_REASON.get(info.reason)
    if kind is None:
        pinged = status is grpc.StatusCode.RESOURCE_EXHAUSTED and _PINGED_TOO_OFTEN.search(details)
        kind = GatewayUnavailable if pinged else _BY_STATUS.get(status, GatewayRefused)
    if status is grpc.StatusCode.UNIMPLEMENTED:
        text = f"{text}; either this is not a Headrace gateway, or it is too old for this connector: upgrade it"
    if kind is SessionTakenOver:
        text = f"{text}; give each running copy of a connector an instance of its own"
    return kind(text, status.name) if info is None else kind(text, status.name, info.reason, dict(info.metadata))


def _info(status: Status | None) -> ErrorInfo | None:
    """Returns the gateway's reason in a status."""
    info = ErrorInfo()
    for detail in () if status is None else status.details:
        try:
            if detail.Unpack(info) and info.domain == DOMAIN:
                return info
        except DecodeError:
            continue
    return None
