"""A call that delivers parts to an at-least-once sink, each without waiting for the answer to the one before."""

import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from headrace.engine.codec import frames
from headrace.engine.sink.delivery import delivery_start
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.writer import Refused, Task
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import sink_pb2

_partitions = count(1)
"""The partition of each part: Spark's task, which delivers the other results, has partition 0."""


@dataclass(frozen=True)
class Run:
    """The run of a query, as sinks know it.

    Attributes:
        query: Spark's id of the query.
        id: Spark's id of the run.
        number: The number of the run in the checkpoint.
    """

    query: str
    id: str
    number: int

    def task(self, batch: int) -> Task:
        """A new part of a micro-batch, as if a task delivered it."""
        return Task(self.query, self.id, batch, next(_partitions), self.number)


class PartsCall:
    """One call. A thread of its own receives the answers.

    Args:
        connection: The gateway.
        answered: Called with what the sink refuses of each part, in order. If it raises, the call ends.
        ended: Called once when the call has ended, with the error if there is one.
    """

    def __init__(
        self, connection: Connection, answered: Callable[[Refused], None], ended: Callable[[Exception | None], None]
    ) -> None:
        self._answered = answered
        self._ended = ended
        self._requests: queue.SimpleQueue[pb.DeliverAtOnceRequest | None] = queue.SimpleQueue()
        self._call = connection.stub().DeliverAtOnce(self._sent(), metadata=connection.metadata)
        self._thread = threading.Thread(target=self._receive, name="headrace-sink-answers", daemon=True)
        self._thread.start()

    def send(self, options: SinkOptions, task: Task, blocks: Iterable[pa.RecordBatch]) -> None:
        """Sends a part, as a new attempt."""
        attempt = f"{task.run_id}/{uuid.uuid4().hex}"
        part = sink_pb2.Part(transaction=task.transaction, partition=task.partition, attempt=attempt)
        start, messages = delivery_start(options, part, task.run_number), 0
        sent = list[pb.DeliverAtOnceRequest]()
        for block in blocks:
            sent += (pb.DeliverAtOnceRequest(frame=frame) for frame in frames(block, messages))
            messages += block.num_rows
        if len(sent) == 1:
            # One message instead of three: gRPC takes longer for each than everything else for a few rows.
            self._requests.put(pb.DeliverAtOnceRequest(part=pb.DeliveryPart(start=start, frame=sent[0].frame)))
            return
        self._requests.put(pb.DeliverAtOnceRequest(start=start))
        for request in sent:
            self._requests.put(request)
        self._requests.put(pb.DeliverAtOnceRequest(end=pb.DeliveryEnd(messages=messages)))

    def cancel(self) -> None:
        """Ends the call, in any state."""
        self._call.cancel()
        self._requests.put(None)

    def close(self) -> None:
        """Ends the call, and waits for its thread."""
        self.cancel()
        self._thread.join()

    def _sent(self) -> Iterator[pb.DeliverAtOnceRequest]:
        while (request := self._requests.get()) is not None:
            yield request

    def _receive(self) -> None:
        failure: Exception | None = None
        try:
            for response in self._call:
                self._answered(tuple((refused.sequence, refused.reason) for refused in response.refused))
        except Exception as error:
            failure = error
        self._requests.put(None)
        self._ended(failure)
