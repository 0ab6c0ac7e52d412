"""Renews a run's lease at the gateway while the run makes no other calls: a batch may take longer than a lease."""

import logging
import threading
from collections.abc import Callable

import grpc

from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb

CALLS_IN_A_LEASE = 4
CALL_TIMEOUT_S = 5.0
END_WAIT_S = 1.0

log = logging.getLogger("headrace.engine")


class LeaseRenewal:
    """Renews the lease of one run in a thread of the planner process, which lives as long as the query."""

    def __init__(self, connection: Connection, pipeline: Callable[[], pb.Pipeline]) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._interval_s = 0.0

    def start(self, lease_ms: int) -> None:
        """Starts to renew, several times per lease.

        Args:
            lease_ms: The duration of a lease, in milliseconds; 0 if the gateway does not require renewal.
        """
        self._interval_s = lease_ms / 1000 / CALLS_IN_A_LEASE
        if lease_ms and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headrace-lease", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stops renewing, and waits briefly for a call in progress."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(END_WAIT_S)
            self._thread = None

    def _run(self) -> None:
        # At once, too: from the first renewal on, the gateway names a planner that is frozen.
        while True:
            request = pb.RenewRequest(pipeline=self._pipeline())
            timeout_s = min(CALL_TIMEOUT_S, max(1.0, self._interval_s))
            try:
                self._connection.stub().Renew(request, timeout=timeout_s, metadata=self._connection.metadata)
            except grpc.RpcError as error:
                # The gateway is unavailable or has restarted: the next plan or fetch waits for it and attaches.
                log.debug("the lease was not renewed: %s", error)
            if self._stopped.wait(self._interval_s):
                return
