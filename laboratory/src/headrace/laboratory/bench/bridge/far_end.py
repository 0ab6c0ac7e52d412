"""The far end of the bridge: reads a stream from the gateway as Spark does, and acknowledges it, at little cost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import engine_pb2_grpc
from headrace.protocol.v1.frame_pb2 import Frame, Position, StreamPosition

_WAIT_MS = 1_000
_READS_EVERY_S = 0.05
"""As often as Spark begins a small micro-batch, so that messages cause the gateway's work, and not many reads."""
_MAX_S = 300.0
_MAX_BYTES = 64 << 20


class FarEnd:
    """A query that reads one stream.

    Attributes:
        arrived: The number of the last message that it has read.
    """

    def __init__(self, engine: engine_pb2_grpc.EngineServiceStub, stream: str) -> None:
        self._engine = engine
        self._stream = stream
        self._pipeline = pb.Pipeline(name=stream.replace("/", "-"), run=1, streams=[stream])
        self._at: Position | None = None
        self.arrived = 0
        engine.Attach(pb.AttachRequest(pipeline=self._pipeline))

    def plan(self, wait_ms: int = _WAIT_MS) -> list[pb.PlannedRange]:
        """Says what is in the checkpoint, and returns what can be read."""
        committed = [] if self._at is None else [StreamPosition(stream=self._stream, position=self._at)]
        return list(self._engine.Plan(pb.PlanRequest(pipeline=self._pipeline, committed=committed, wait_ms=wait_ms)).ranges)

    def read(self) -> bool:
        """Runs a micro-batch; returns whether there were messages for it."""
        planned = self.plan()
        if not planned:
            return False
        end = planned[0].end
        before = self.arrived
        if end.sequence > self.arrived:
            self._fetch(end)
        self._at = end
        return self.arrived > before

    def _fetch(self, end: Position) -> None:
        wanted = pb.Range(stream=self._stream, committed=self._at, start=self._at, end=end, batch_end=end)
        for response in self._engine.Fetch(pb.FetchRequest(pipeline=self._pipeline, ranges=[wanted])):
            for ranged in response.frames:
                frame = ranged.frame
                if frame.first_sequence > self.arrived + 1:
                    raise RuntimeError(f"message {self.arrived + 1} of {self._stream} is missing")
                self.take(frame, end.sequence)
                self.arrived = max(self.arrived, min(frame.first_sequence + frame.count - 1, end.sequence))
        if self.arrived != end.sequence:
            raise RuntimeError(f"message {self.arrived + 1} of {self._stream} is missing")

    def take(self, frame: Frame, last: int) -> None:
        """Takes the messages of a frame, up to the last one of the micro-batch; by default, they are of no interest."""


Kind = TypeVar("Kind", bound=FarEnd)


@contextmanager
def far_end(address: str, stream: str, kind: type[Kind]) -> Iterator[Kind]:
    """Begins to read a stream of the gateway at an address, by a kind of far end."""
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", _MAX_BYTES)]) as channel:
        yield kind(engine_pb2_grpc.EngineServiceStub(channel), stream)


def arrivals(address: str, stream: str, total: int, must_run: Callable[[], None]) -> Iterator[int]:
    """Reads the messages 1 to `total`; yields how many have arrived whenever some have, after their acknowledgement.

    Args:
        address: The gateway's.
        stream: The stream's name.
        total: The number of messages.
        must_run: Raises if the source has ended.

    Raises:
        RuntimeError: A message is missing.
        TimeoutError: They did not arrive in time.
    """
    deadline = time.monotonic() + _MAX_S
    with far_end(address, stream, FarEnd) as query:
        while query.arrived < total:
            must_run()
            due = time.monotonic() + _READS_EVERY_S
            if due > deadline:
                raise TimeoutError(f"{query.arrived:,} of {total:,} messages arrived in {_MAX_S:.0f} s")
            if query.read():
                yield query.arrived
            time.sleep(max(0.0, due - time.monotonic()))
        query.plan(wait_ms=0)
