"""Why a gateway ends a session, for programs: `google.rpc.ErrorInfo` in the details of the status."""

from collections.abc import Mapping

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

DOMAIN = "headrace"
_KEY = "grpc-status-details-bin"


def details(
    status: grpc.StatusCode, text: str, reason: str, domain: str = DOMAIN, metadata: Mapping[str, str] | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Returns the trailing metadata of a call that ends with a status and a reason."""
    info = AnyMessage()
    info.Pack(ErrorInfo(reason=reason, domain=domain, metadata=metadata or {}))
    return ((_KEY, Status(code=status.value[0], message=text, details=[info]).SerializeToString()),)
