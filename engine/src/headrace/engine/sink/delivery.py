"""Delivers a part to a sink, in as many calls as necessary, and requests the sink's vote."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import grpc
import pyarrow as pa

from headrace.engine._errors import GatewayAway, SinkAway
from headrace.engine.sink.delivery_call import DeliveryCall
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.sink_calls import sink_error, sink_retry
from headrace.engine.sink.spool import Spool
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import sink_pb2

log = logging.getLogger("headrace.engine")


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
        self._retry = sink_retry(options, transaction)
        self._call: DeliveryCall | None = None
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
            if self._call is not None and self._call.requests_sent > self._farthest:
                self._farthest = self._call.requests_sent
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

    def _dial(self) -> "DeliveryCall":
        start = delivery_start(self._options, self._part, self._run_number)
        return DeliveryCall(self._connection, start, self._options.gateway_timeout_s)


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
