"""The worker of a query in real-time mode, in the driver: processes what arrives, and stops where the planner wants to plan."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headrace.engine._errors import CheckpointError, SinkAway
from headrace.engine.applications.real_time.arrivals import Arrivals
from headrace.engine.applications.real_time.at_once import AtOnce
from headrace.engine.applications.real_time.bucket_process import BucketProcess, crossing
from headrace.engine.applications.real_time.following import Arrived, Following
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.real_time.processor import Processor
from headrace.engine.applications.stages.call_files import record_calls
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.position import Position
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.writer import Written
from headrace.engine.source.ranges import Ends
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb

MAX_ARRIVED_BYTES = 32 * 2**20
"""The size of the messages that wait to be processed, in bytes, at which no more are received."""
PAUSE_S = 1.0
"""How long the planner waits for the worker, in seconds: Spark cannot stop the query during this time."""
STOP_S = 10.0
"""How long to wait for a function that runs when the query ends, in seconds."""
MAX_MISSED = 3
"""How often in a row the worker may not have stopped in time before it waits for the planner's next call."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class Reached:
    """How far the worker is in a stream.

    Attributes:
        position: The position after the last processed message, with the last cursor that has come since the last micro-batch.
        messages: The number of messages since the last micro-batch.
    """

    position: Position
    messages: int


class RealTimeWorker:
    """Processes messages before their micro-batch is planned. The planner pauses it, and then resumes or closes.

    Args:
        plan: The plan.
        files: The files of states in the checkpoint.
        options: The options of the sinks.
        connection: The gateway.
        timeout_s: How long to wait for an unavailable gateway, in seconds.
        asks_for_present: Whether a step needs the present time.
        workers: The most processes that run steps after a shuffle, this one included.
    """

    def __init__(
        self,
        plan: Plan,
        files: StateFiles,
        options: SinkOptions,
        connection: Connection,
        timeout_s: float,
        *,
        asks_for_present: bool,
        workers: int = 1,
    ) -> None:
        self._plan = plan
        self._files = files
        self._options = options
        self._connection = connection
        self._timeout_s = timeout_s
        self._asks_for_present = asks_for_present
        self._changed = threading.Condition()
        self._arrivals = Arrivals()
        self._opened: frozenset[str] = frozenset()
        self._moved: dict[str, Position] = {}
        self._messages: Counter[str] = Counter()
        self._is_busy = False
        self._is_paused = False
        self._missed = 0
        """How often in a row it has not stopped in time."""
        self._is_stopped = False
        self._failure: Exception | None = None
        self._processor: Processor | None = None
        self._following: Following | None = None
        self._sinks: list[AtOnce] = []
        # They start while Spark starts the query.
        wanted = min(workers, plan.buckets) if workers > 1 and plan.graph.shuffles else 1
        self._processes = [BucketProcess(plan, files) for _ in range(wanted - 1)]
        self._thread = threading.Thread(target=self._run, name="headrace-real-time", daemon=True)

    @property
    def has_begun(self) -> bool:
        """Whether it processes messages."""
        return self._processor is not None

    def begin(self, batch: int, continued: Manifest, run: Run, pipeline: bytes) -> None:
        """Reads the states, and begins to process what arrives.

        Args:
            batch: The next micro-batch.
            continued: The states that it continues from.
            run: The run of the query.
            pipeline: The run of the planner, as a serialized message.

        Raises:
            StateError: Stored states do not match the classes of the pipeline.
        """
        self._sinks = [AtOnce(self._options, sink, run, self._look_again) for sink in self._plan.graph.sinks]
        who = pb.Pipeline.FromString(pipeline)
        self._following = Following(self._connection, who, self._timeout_s, self._take_over, self._fail)
        self._processor = Processor(self._plan, self._files, continued, batch, run.number, self._processes)
        self._thread.start()

    def pause(self, follow: Mapping[str, Position | None], awaited: Collection[str] = ()) -> dict[str, Reached] | None:
        """Stops between two messages, until `resume` or `close`; returns how far it is in the streams that have moved.

        Returns None if it has not stopped in time, since one message takes long. It then continues, and after the third time
        in a row stops and waits for the next call.

        Args:
            follow: The streams of the planner, each with the position after which it is read. New ones are followed from now on.
            awaited: The streams that event time waits for, although they have no message yet.

        Raises:
            HeadraceError: A function has raised, or a sink, the gateway or a process has failed.
        """
        for process in self._processes:
            process.check()
        assert self._following is not None, "it has begun"
        self._following.add(follow)
        with self._changed:
            self._is_paused = True
            stopped = self._changed.wait_for(lambda: not self._is_busy or self._is_over, PAUSE_S)
            self._check()
            reached = {stream: Reached(position, self._messages[stream]) for stream, position in self._moved.items()}
        if not stopped:
            self._missed += 1
            if self._missed < MAX_MISSED:
                self.resume()
            return None
        self._missed = 0
        self._open({*follow, *awaited})
        if all(sink.await_mode(PAUSE_S) for sink in self._sinks):
            return reached
        self.resume()
        return None

    def resume(self) -> None:
        """Goes on without having planned."""
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def close(self, ends: Ends) -> list[BlockRow]:
        """Ends the micro-batch where the worker is paused, and continues with the next one.

        Returns:
            The rows of the micro-batch: reports and counts, and results for sinks that write nothing before their vote.

        Raises:
            HeadraceError: A function raises, or a sink has failed.
            OSError: The file system failed.
        """
        assert self._processor is not None, "it has begun"
        assert self._following is not None, "it has begun"
        assert self._is_paused, "the planner closes only while the worker is paused"
        processor, batch = self._processor, self._processor.batch
        record_calls(self._plan.calls)
        # Before the gateway learns that the checkpoint omits them: it then opens new streams of these names.
        self._following.forget(ends.forgotten)
        self._deliver(processor.end(ends))
        for name, sink in zip(self._plan.graph.sinks, self._sinks, strict=True):
            if not sink.await_mode(self._timeout_s):
                raise SinkAway(f"sink {name} has not answered for {self._timeout_s:g} s. Is its connector running?")
        rows = [*processor.save(), *(row for sink in self._sinks for row in sink.kept(batch))]
        with self._changed:
            self._moved, self._messages = {}, Counter()
        self.resume()
        return rows

    def finish(self, batch: int, timeout_s: float) -> list[Mapping[str, Written]] | None:
        """Waits until the results of a micro-batch are delivered that need no vote; returns what sinks have rejected.

        Returns None if it takes longer.

        Raises:
            HeadraceError: A sink cannot accept the results, or was unavailable until the timeout.
        """
        if not self.has_begun:
            return []
        # It asks once for what a sink has rejected, when all sinks have finished.
        if not all(sink.await_delivered(batch, timeout_s) for sink in self._sinks):
            return None
        named = zip(self._plan.graph.sinks, self._sinks, strict=True)
        return [{name: written} for name, sink in named for written in sink.rejected(batch)]

    def stop(self) -> None:
        """Ends everything, and waits for all threads; for one in which a function of the application runs only STOP_S."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for sink in self._sinks:
            sink.stop()
        if self._following is not None:
            self._following.stop()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
            if self._thread.is_alive():
                name = self._plan.graph.name
                log.warning("a function of application %s still runs; its result is discarded", name, extra={"pipeline": name})
        for process in self._processes:
            process.end()
        for process in self._processes:
            process.await_end()

    def _open(self, streams: Collection[str]) -> None:
        """Has windows and timers wait for streams before their first messages are processed."""
        assert self._processor is not None, "it has begun"
        news = tuple(sorted(set(streams) - self._opened))
        self._opened = frozenset(streams)
        if news:
            self._deliver(self._processor.end(Ends(opened=news)))

    @property
    def _is_over(self) -> bool:
        return self._is_stopped or self._failure is not None

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_stopped:
            raise CheckpointError("the query has ended; start the application again")

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _take_over(self, arrived: Sequence[Arrived]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._arrivals.bytes < MAX_ARRIVED_BYTES or self._is_over)
            self._arrivals.put(arrived)
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            record_calls(self._plan.calls)
            while slice_ := self._next():
                self._process(slice_)
        except BaseException as error:  # Whatever ends this thread must end the query.
            self._fail(crossing(error))

    def _next(self) -> list[Arrived]:
        """The next messages; none at the end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or (self._arrivals and not self._is_paused and self._have_room()))
            if self._is_over:
                return []
            self._is_busy = True
            return self._arrivals.take()

    def _have_room(self) -> bool:
        return all(sink.has_room for sink in self._sinks)

    def _look_again(self) -> None:
        """A sink has room, or has failed."""
        with self._changed:
            self._changed.notify_all()

    def _process(self, arrived: Sequence[Arrived]) -> None:
        assert self._processor is not None, "it has begun"
        now = time.time_ns() // 1000 if self._asks_for_present else None
        begun = time.perf_counter()
        self._deliver(self._processor.process((each.frame for each in arrived), now))
        self._arrivals.took(sum(each.frame.rows for each in arrived), time.perf_counter() - begun)
        for frame, end in arrived:
            before = self._moved.get(frame.stream)
            self._moved[frame.stream] = end if before is None else end.with_cursor_of(before)
            self._messages[frame.stream] += frame.rows

    def _deliver(self, rows: Sequence[BlockRow]) -> None:
        assert self._processor is not None, "it has begun"
        for row in rows:
            self._sinks[-1 - row.target].put(self._processor.batch, row)
