"""Polls the gateway's status."""

import grpc

from headrace.protocol.v1.admin_pb2 import GetStatusRequest, GetStatusResponse
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_CALL_TIMEOUT_S = 1.0
# A killed gateway is back within a second; gRPC's default backoff would reconnect much later.
_CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]


class GatewayStatus:
    """A client of the gateway's status that survives restarts of the gateway."""

    def __init__(self) -> None:
        self._channel: grpc.Channel | None = None

    def connect(self, address: str) -> None:
        """Sets the gateway's address."""
        self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)

    def close(self) -> None:
        """Closes the connection; from now on, `get` returns None."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def get(self) -> GetStatusResponse | None:
        """Returns the gateway's status; None while it is unavailable."""
        if self._channel is None:
            return None
        try:
            return AdminServiceStub(self._channel).GetStatus(GetStatusRequest(), timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError:
            return None
