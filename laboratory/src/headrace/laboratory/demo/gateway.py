"""What a demo asks of its gateway: the address, the status, and why a process has failed."""

import time
from collections.abc import Callable
from pathlib import Path

import grpc

from headrace.laboratory.errors import DemoError
from headrace.processes import OwnedProcess
from headrace.protocol.v1.admin_pb2 import GetStatusRequest, GetStatusResponse
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_CALL_TIMEOUT_S = 1.0
# A killed gateway is back within a second; gRPC's default backoff would reconnect much later.
_CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
_LOOK_EVERY_S = 0.04
_LISTENS_WITHIN_S = 120.0


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


def address_in(file: Path, gateway: OwnedProcess, check: Callable[[], object]) -> str:
    """Waits for the address that a gateway writes into its ready file. Meanwhile, `check` raises if waiting is pointless.

    Raises:
        DemoError: The gateway did not listen in time.
    """
    deadline = time.monotonic() + _LISTENS_WITHIN_S
    while not file.exists():
        check()
        if time.monotonic() > deadline:
            raise failed(gateway, f"the gateway did not listen within {_LISTENS_WITHIN_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
    return file.read_text().strip()


def failed(process: OwnedProcess, what: str) -> DemoError:
    """Returns the error for a process that has failed, with the last line of its log."""
    tail = process.tail()
    return DemoError(f"{what}: {tail[-1].strip()}" if tail else what, tail[:-1])
