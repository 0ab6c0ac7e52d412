"""Keeps a run attached to the gateway while nothing else of it calls: a batch may take longer than a lease."""

import logging
import threading
from collections.abc import Callable

import grpc

from headrace.engine._connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb

CALLS_IN_A_LEASE = 4
CALL_TIMEOUT_S = 5.0
END_WAIT_S = 1.0

log = logging.getLogger("headrace.engine")


class Lease:
    """Renews the lease of one run from a thread, in the planner's process: it lives as long as the query does."""

    def __init__(self, connection: Connection, pipeline: Callable[[], pb.Pipeline]) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._interval_s = 0.0

    def keep(self, lease_ms: int) -> None:
        """Renews from now on, several times in each lease; 0 is a gateway that wants no renewal."""
        self._interval_s = lease_ms / 1000 / CALLS_IN_A_LEASE
        if lease_ms and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headrace-lease", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Renews no more, and waits a moment for a call that is on its way."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(END_WAIT_S)
            self._thread = None

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            request = pb.RenewRequest(pipeline=self._pipeline())
            timeout_s = min(CALL_TIMEOUT_S, max(1.0, self._interval_s))
            try:
                self._connection.stub().Renew(request, timeout=timeout_s, metadata=self._connection.metadata)
            except grpc.RpcError as error:
                # The gateway is away, or restarted: the next plan or fetch waits for it and attaches.
                log.debug("the lease is not renewed: %s", error)
