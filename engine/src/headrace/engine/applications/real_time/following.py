"""Follows streams of the gateway: receives what arrives, in a thread of its own."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc

from headrace.contract.counts import counted
from headrace.engine._errors import FrameError, GatewayAway, NotAttached
from headrace.engine.checkpoint.position import Position, to_wire
from headrace.engine.codec import Columns, columns, cut
from headrace.engine.wire.connection import Connection, to_error
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2

MAX_PAUSE_S = 1.0


class Arrived(NamedTuple):
    """The messages of a frame that are new.

    Attributes:
        frame: The messages.
        end: The position after them; without a cursor if the frame has none.
    """

    frame: Columns
    end: Position


class Following:
    """Follows streams until it is stopped.

    Args:
        connection: The gateway.
        pipeline: Who follows: the run that plans.
        timeout_s: How long to wait for an unavailable gateway, in seconds.
        arrived: Called with new messages; may block, so that the gateway sends no more.
        failed: Called with the error if following fails permanently.
    """

    def __init__(
        self,
        connection: Connection,
        pipeline: pb.Pipeline,
        timeout_s: float,
        arrived: Callable[[Sequence[Arrived]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._arrived = arrived
        self._failed = failed
        self._retry = Retry(timeout_s, MAX_PAUSE_S, fields={"pipeline": pipeline.name})
        self._changed = threading.Condition()
        self._at: dict[str, Position | None] = {}
        self._call: Any = None
        """The present call; what another one still receives is ignored."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="headrace-following", daemon=True)

    def add(self, positions: Mapping[str, Position | None]) -> None:
        """Also follows these streams, each after a position; None for all of its messages. Known ones are ignored."""
        with self._changed:
            new = {stream: at for stream, at in positions.items() if stream not in self._at}
            if not new:
                return
            self._at.update(new)
            self._call_again()
            if self._thread.ident is None:
                self._thread.start()

    def forget(self, streams: Iterable[str]) -> None:
        """Follows these streams no more. One of the same name that is added later is another stream."""
        with self._changed:
            known = [stream for stream in streams if stream in self._at]
            for stream in known:
                del self._at[stream]
            if known:
                self._call_again()

    def stop(self) -> None:
        """Ends following, and waits for the thread. What `arrived` blocks for must have ended before."""
        with self._changed:
            self._stopped = True
            self._call_again()
        if self._thread.ident is not None:
            self._thread.join()

    def _call_again(self) -> None:
        """Ends the present call: a call names its streams, so others need another call."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._follow()
        except Exception as error:
            self._failed(error)

    def _follow(self) -> None:
        """Makes one call, until it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._at)
            if self._stopped:
                return
            names = list(self._at)
            wire = [frame_pb2.StreamPosition(stream=name, position=to_wire(self._at[name])) for name in names]
            request = pb.FollowRequest(pipeline=self._pipeline, positions=wire)
            call = self._call = self._connection.stub().Follow(request, metadata=self._connection.metadata)
        try:
            for response in call:
                self._retry.reset()
                with self._changed:
                    if self._call is not call:
                        return
                    arrived = [found for frame in response.frames for found in self._new(names, frame)]
                self._arrived(arrived)
        except grpc.RpcError as error:
            if self._stopped or error.code() is grpc.StatusCode.CANCELLED:
                return
            meaning = to_error(error, self._connection)
            if isinstance(meaning, NotAttached):
                # The gateway has restarted, and the planner attaches again.
                meaning = GatewayAway(str(meaning))
            if not isinstance(meaning, GatewayAway):
                raise meaning from None
            self._retry.wait(meaning)

    def _new(self, names: Sequence[str], range_frame: pb.RangeFrame) -> Sequence[Arrived]:
        """The messages of a frame after the position of its stream."""
        if range_frame.range >= len(names):
            raise FrameError(f"received a frame of stream {range_frame.range}, but follows only {counted(len(names), 'stream')}")
        stream = names[range_frame.range]
        frame, before = columns(stream, range_frame.frame), self._at[stream]
        part = cut(frame, -1 if before is None else before.sequence, frame.last)
        if part is None:
            return ()
        # Not an earlier cursor: a micro-batch may have committed a later one since, which no frame has.
        after = Position(0, frame.last, range_frame.frame.cursor if range_frame.frame.HasField("cursor") else None)
        self._at[stream] = after
        return (Arrived(part, after),)
