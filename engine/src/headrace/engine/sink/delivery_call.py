"""One call that delivers a part, with a bounded queue of requests."""

import threading
from collections import deque
from collections.abc import Iterator

import grpc
import pyarrow as pa

from headrace.engine._errors import GatewayAway, GatewayError
from headrace.engine.codec import frames
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb

FRAMES_AHEAD = 4
"""The number of frames that are queued while another one is being sent."""


class DeliveryCall:
    """One call, with a bounded queue of requests."""

    def __init__(self, connection: Connection, start: pb.DeliveryStart, timeout_s: float) -> None:
        self._sink = start.sink
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting = deque([pb.DeliverRequest(start=start)])
        self._ended = False
        self.requests_sent = 0
        """The number of requests of the call that were sent."""
        self._future = connection.stub().Deliver.future(self._requests(), metadata=connection.metadata)
        self._future.add_done_callback(self._end)

    def send(self, request: pb.DeliverRequest) -> None:
        """Queues a request, as soon as there is room.

        Raises:
            grpc.RpcError: The call has failed.
            GatewayError: There was no room until the timeout, or the gateway ended the call early.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended or len(self._waiting) < FRAMES_AHEAD, self._timeout_s):
                raise self._timed_out()
            if not self._ended:
                self._waiting.append(request)
                self._changed.notify_all()
                return
        error = self._future.exception()
        if isinstance(error, grpc.RpcError):
            raise error
        raise GatewayError(f"sink {self._sink}: the gateway answered before the end of the part")

    def send_rows(self, batch: pa.RecordBatch, first: int) -> None:
        """Queues rows, as `send` does; `first` is the index of the first one in the part."""
        for frame in frames(batch, first):
            self.send(pb.DeliverRequest(frame=frame))

    def finish(self, messages: int) -> pb.DeliverResponse:
        """Ends the part and waits for the response.

        Raises:
            grpc.RpcError: The call has failed.
            GatewayError: There was no progress until the timeout.
        """
        self.send(pb.DeliverRequest(end=pb.DeliveryEnd(messages=messages)))
        try:
            return self._future.result(timeout=self._timeout_s)
        except grpc.FutureTimeoutError:
            raise self._timed_out() from None

    def cancel(self) -> None:
        """Cancels the call, in any state."""
        self._future.cancel()

    def _requests(self) -> Iterator[pb.DeliverRequest]:
        last = False
        while not last:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._waiting)
                if self._ended:
                    return
                request = self._waiting.popleft()
                self.requests_sent += 1
                self._changed.notify_all()
            last = request.HasField("end")
            yield request

    def _end(self, future: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _timed_out(self) -> GatewayAway:
        return GatewayAway(
            f"sink {self._sink}: no progress for {self._timeout_s:g} s. Is its connector running? "
            "The option gatewayTimeout sets how long to wait"
        )
