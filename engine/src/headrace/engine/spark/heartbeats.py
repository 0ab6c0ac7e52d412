"""Tells gateways that the driver runs. Planners cannot: they are other processes, which renew leases while it is frozen."""

import logging
import os
import threading
import time
import uuid
from collections.abc import Sequence
from functools import cache, partial

import grpc

from headrace.engine.source.options import Options
from headrace.engine.wire.connection import Connection, to_error
from headrace.protocol.v1 import engine_pb2 as pb

CALL_TIMEOUT_S = 2.0
MIN_INTERVAL_S = 0.5
"""Each query of a session calls `send`; one heartbeat serves them all."""

log = logging.getLogger("headrace.engine")


def driver_id() -> str:
    """The unique id of this process as a driver."""
    return _id_of(os.getpid())


@cache
def _id_of(pid: int) -> str:
    # A process that was forked from a driver is another driver.
    del pid
    return uuid.uuid4().hex


class Heartbeats:
    """Sends the heartbeats for all queries of a session. No call waits for a gateway."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gateways: dict[str, tuple[Connection, ...]] = {}
        """The gateways of each run's sources."""
        self._calls: dict[Connection, grpc.Future[pb.HeartbeatResponse]] = {}
        """The last call to each gateway."""
        self._sent_at = 0.0

    def add(self, run: str, sources: Sequence[Options]) -> None:
        """Sends heartbeats to the gateways of a run that has started.

        Raises:
            OptionError: A TLS file cannot be read.
        """
        gateways = tuple({Connection.of(source): None for source in sources})
        with self._lock:
            self._gateways[run] = gateways

    def remove(self, run: str) -> None:
        """Sends no more heartbeats for a run that has ended."""
        with self._lock:
            self._gateways.pop(run, None)
            left = {connection for gateways in self._gateways.values() for connection in gateways}
            self._calls = {connection: call for connection, call in self._calls.items() if connection in left}

    def send(self) -> None:
        """Sends a heartbeat to each gateway whose last call is over, answered or not."""
        with self._lock:
            if time.monotonic() - self._sent_at < MIN_INTERVAL_S:
                return
            self._sent_at = time.monotonic()
            for connection in {connection for gateways in self._gateways.values() for connection in gateways}:
                before = self._calls.get(connection)
                if before is None or before.done():
                    self._send(connection)

    def _send(self, connection: Connection) -> None:
        request = pb.HeartbeatRequest(driver=driver_id())
        try:
            # A gateway that refuses it today may be replaced by one that expects it.
            call = connection.stub().Heartbeat.future(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
            self._calls[connection] = call
            call.add_done_callback(partial(_note, connection))
        except Exception as error:
            log.info("cannot tell the gateway at %s that the driver runs: %s", connection.target, error)


def _note(connection: Connection, call: "grpc.Future[pb.HeartbeatResponse]") -> None:
    error = None if call.cancelled() else call.exception()
    if isinstance(error, grpc.RpcError):
        log.debug("the gateway was not told that the driver runs: %s", to_error(error, connection))
