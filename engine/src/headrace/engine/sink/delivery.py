"""Delivers a part to a sink, in as many calls as necessary, and requests the sink's vote."""

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import grpc
import pyarrow as pa

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import GatewayAway, GatewayError, NotAtOnce, OlderCheckpoint, SinkAway, SinkFailed, SinkLost
from headrace.engine.checkpoint.votes import WHAT_TO_DO
from headrace.engine.codec import frames
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.spool import Spool
from headrace.engine.wire.connection import Connection, has_reason, to_error
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import sink_pb2

MAX_PAUSE_S = 1.0
LOOKS_EVERY_S = 0.2
"""How often somebody who waits for a vote looks whether the query was stopped, in seconds."""
FRAMES_AHEAD = 4
"""The number of frames that are queued while another one is being sent."""

log = logging.getLogger("headrace.engine")


class VoteGivenUp(HeadraceError):
    """The query was stopped while it waited for a sink."""


@dataclass(frozen=True)
class Attempt:
    """The attempt at a part that the sink has staged."""

    name: str
    instance: str
    """The sink's instance that has staged it."""


class Delivery:
    """The delivery of one part to a sink: rows are sent as they arrive, and sent again if the gateway or the sink fails.

    Each call is a new attempt, so that a sink never combines two incomplete parts.
    """

    def __init__(
        self,
        options: SinkOptions,
        connection: Connection,
        transaction: sink_pb2.Transaction,
        partition: int,
        run_id: str,
        run_number: int,
    ) -> None:
        self._options = options
        self._connection = connection
        self._transaction = transaction
        self._partition = partition
        self._run_id = run_id
        self._run_number = run_number
        self._retry = Retry(options.gateway_timeout_s, MAX_PAUSE_S, fields=_fields(options, transaction))
        self._call: _Call | None = None
        self._farthest = 0
        """The most requests that a call has sent: a call that sends more shows progress, and resets the timeout."""
        self._instance = ""
        self._part = self._next_part()
        self.spool = Spool()

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._call is not None:
            self._call.cancel()
        self.spool.close()

    def send(self, batch: pa.RecordBatch) -> None:
        """Sends the next rows.

        Raises:
            HeadraceError: The sink cannot accept the part, or there was no progress until the timeout.
            SchemaError: The rows have columns that sinks do not accept.
        """
        first = self.spool.messages
        self.spool.append(batch)
        try:
            if self._call is None:
                self._call = self._dial()
            self._call.send_rows(batch, first)
        except grpc.RpcError as error:
            self._send_again(error)

    @property
    def attempt(self) -> Attempt:
        """The attempt that the sink has staged, after `finish`."""
        return Attempt(self._part.attempt, self._instance)

    def finish(self) -> Sequence[sink_pb2.Staged.Refused]:
        """Waits until the sink has staged the part, and returns the messages that it rejects.

        Raises:
            HeadraceError: The sink cannot accept the part, or there was no progress until the timeout.
        """
        while True:
            assert self._call is not None, "a part without frames is not delivered"
            try:
                response = self._call.finish(self.spool.messages)
            except grpc.RpcError as error:
                self._send_again(error)
            else:
                self._retry.reset()
                self._instance = response.instance
                return response.refused

    def _send_again(self, error: grpc.RpcError) -> None:
        """Sends all rows again, as a new attempt, until a call accepts them.

        Raises:
            HeadraceError: The error is not temporary, or there was no progress until the timeout.
        """
        while True:
            meaning = sink_error(error, self._connection, self._options.sink, self._transaction.batch)
            if not isinstance(meaning, GatewayAway) or isinstance(meaning, SinkAway):
                raise meaning from None
            if self._call is not None and self._call.taken > self._farthest:
                self._farthest = self._call.taken
                self._retry.reset()
            self._retry.wait(meaning)
            self._part = self._next_part()
            try:
                self._call = self._dial()
                first = 0
                for batch in self.spool:
                    self._call.send_rows(batch, first)
                    first += batch.num_rows
                return
            except grpc.RpcError as again:
                error = again

    def _next_part(self) -> sink_pb2.Part:
        return sink_pb2.Part(
            transaction=self._transaction, partition=self._partition, attempt=f"{self._run_id}/{uuid.uuid4().hex}"
        )

    def _dial(self) -> "_Call":
        start = delivery_start(self._options, self._part, self._run_number)
        return _Call(self._connection, start, self._options.gateway_timeout_s)


def delivery_start(options: SinkOptions, part: sink_pb2.Part, run_number: int) -> pb.DeliveryStart:
    """How the delivery of a part begins."""
    return pb.DeliveryStart(
        sink=options.sink,
        part=part,
        accept_older=options.accept_older,
        accept_lost=options.accept_lost,
        wait_ms=max(1, int(min(options.sink_timeout_s, options.gateway_timeout_s) * 1000)),
        run_number=run_number,
        dead_letters=options.sink == options.failed,
    )


class _Call:
    """One call, with a bounded queue of requests."""

    def __init__(self, connection: Connection, start: pb.DeliveryStart, timeout_s: float) -> None:
        self._sink = start.sink
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting = deque([pb.DeliverRequest(start=start)])
        self._ended = False
        self.taken = 0
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
                self.taken += 1
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


def vote(
    options: SinkOptions,
    connection: Connection,
    transaction: sink_pb2.Transaction,
    parts: Sequence[tuple[sink_pb2.Part, str]],
    run_number: int,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Waits for the sink's vote for a transaction.

    Args:
        options: The options of the sink.
        connection: The gateway.
        transaction: The transaction of the batch.
        parts: The parts of the transaction, each with the instance that has staged it.
        run_number: The number of the run that asks.
        is_over: Whether nobody waits for the vote; asked while it waits.

    Raises:
        VoteGivenUp: Nobody waits for the vote.
        HeadraceError: The sink votes against it, has lost a part, or did not answer until the timeout.
    """
    retry = Retry(options.gateway_timeout_s, MAX_PAUSE_S, fields=_fields(options, transaction))
    request = pb.VoteRequest(
        sink=options.sink,
        transaction=transaction,
        parts=[part for part, _ in parts],
        instances=[instance for _, instance in parts],
        run_number=run_number,
    )
    while True:
        try:
            _answered(
                connection.stub().Vote.future(request, timeout=options.gateway_timeout_s, metadata=connection.metadata), is_over
            )
        except grpc.RpcError as error:
            meaning = sink_error(error, connection, options.sink, transaction.batch)
            if isinstance(meaning, SinkAway):
                raise SinkAway(
                    f"sink {options.sink} has not answered for {options.gateway_timeout_s:g} s. Is its connector running? "
                    "The option gatewayTimeout sets how long to wait"
                ) from None
            if not isinstance(meaning, GatewayAway):
                raise meaning from None
            if is_over():
                raise VoteGivenUp from None
            retry.wait(meaning)
        else:
            retry.reset()
            return


def _answered(call: "grpc.Future[pb.VoteResponse]", is_over: Callable[[], bool]) -> None:
    """Waits for the answer to a call, or cancels it.

    Raises:
        grpc.RpcError: The call has failed.
        VoteGivenUp: Nobody waits for the answer.
    """
    while True:
        try:
            call.result(timeout=LOOKS_EVERY_S)
        except grpc.FutureTimeoutError:
            if is_over():
                call.cancel()
                raise VoteGivenUp from None
        else:
            return


def sink_error(error: grpc.RpcError, connection: Connection, sink: str, batch: int) -> HeadraceError:
    """The error for a failed call that concerns a sink."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call) else None) or code.name
    if has_reason(error, "sink-mode"):
        return NotAtOnce(details)
    if has_reason(error, "stopped"):
        return VoteGivenUp(
            f"the query was stopped before sink {sink} had voted for batch {batch}; its next start runs the batch again"
        )
    if has_reason(error, "older-checkpoint"):
        return OlderCheckpoint(
            f"sink {sink} has already committed batch {batch}, which is not in the checkpoint: {details}. The checkpoint must be "
            "an older one; restore the newer one, or set onOlderCheckpoint to accept to write the batch again"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return SinkAway(
            f"{details}. Start the connector of sink {sink} and restart the query; sinkTimeout sets how long tasks wait"
        )
    if code is grpc.StatusCode.DATA_LOSS:
        return SinkLost(f"{details}. {WHAT_TO_DO}")
    if code is grpc.StatusCode.ABORTED and not has_reason(error, "superseded"):
        return SinkFailed(f"sink {sink} cannot write batch {batch}: {details}; restart the query to run the batch again")
    return to_error(error, connection)


def _fields(options: SinkOptions, transaction: sink_pb2.Transaction) -> dict[str, object]:
    """The fields of log lines about a transaction."""
    return {"pipeline": transaction.pipeline, "batch": transaction.batch, "sink": options.sink}
