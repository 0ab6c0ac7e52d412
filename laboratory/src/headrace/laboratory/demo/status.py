"""Asks the gateway for its status, again and again."""

import grpc

from headrace.protocol.v1.admin_pb2 import GetStatusRequest, GetStatusResponse
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_CALL_TIMEOUT_S = 1.0
# A gateway that was killed is back within a second; gRPC's own backoff would look for it much later.
_CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]


class GatewayStatus:
    """A gateway's status, also after its restarts."""

    def __init__(self) -> None:
        self._channel: grpc.Channel | None = None

    def connect(self, address: str) -> None:
        """Where the gateway is."""
        self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)

    def close(self) -> None:
        """Leaves the gateway, which is away from now on."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def get(self) -> GetStatusResponse | None:
        """Its status; None while it is away."""
        if self._channel is None:
            return None
        try:
            return AdminServiceStub(self._channel).GetStatus(GetStatusRequest(), timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError:
            return None
