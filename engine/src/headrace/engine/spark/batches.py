"""Reports the numbers of micro-batches to the gateway, and to one that has restarted also the numbers in the checkpoint.

Nothing depends on it: reports are sent by a thread of their own, and are dropped while the gateway is away or too slow.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import grpc

from headrace.contract.limits import MAX_BATCH_STREAMS
from headrace.engine.checkpoint.position import Offset, Position, moved, to_wire
from headrace.engine.source.options import Options
from headrace.engine.wire.connection import Connection, to_error
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Position as Place

CALL_TIMEOUT_S = 10.0
MAX_WAITING = 100
"""How many micro-batches wait to be reported; further ones are not."""
MAX_HISTORY = 100
"""How many earlier micro-batches are reported to a gateway that asks for them: as many as Spark keeps by default."""
_IDLE_S = 30.0
REFUSED_FOR_S = 60.0
"""How long a gateway that does not permit reports gets none of a run: the token may have got the right by then."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class Logged:
    """A micro-batch of a checkpoint: between which offsets it reads, and when its logs were written, in ms since 1970."""

    number: int
    start: Offset | None
    end: Offset
    planned_ms: int | None = None
    committed_ms: int | None = None

    @cached_property
    def after(self) -> Mapping[str, Position]:
        """The positions that it begins after."""
        return self.start.streams if self.start is not None else {}

    @cached_property
    def ends(self) -> Mapping[str, Position]:
        """Where it ends in each stream that it reads or that has ended. A start reads nothing, nor does a cursor that moves."""
        news = moved(self.end.streams, self.after)
        return {name: at for name, at in news.items() if not at.start and at.sequence >= 0 and not self._moves_only(name, at)}

    def _moves_only(self, name: str, at: Position) -> bool:
        before = self.after.get(name)
        return before == at and before is not None and before.ended == at.ended


@dataclass(eq=False)
class BatchedRun:
    """A run whose micro-batches are reported, of one Headrace source."""

    options: Options
    history: Callable[[str, int], Sequence[Logged]]
    """Returns what the checkpoint contains of a pipeline's last micro-batches, at most `limit`, by ascending number."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time, in seconds."""
    _refused_until: float = field(default=float("-inf"), init=False)

    @property
    def is_refused(self) -> bool:
        """Whether the gateway would refuse reports: for ever if another run has taken over, or for a while if it permits none."""
        return self.clock() < self._refused_until

    def note_refusal(self, code: grpc.StatusCode) -> None:
        """Notes with which status a report has failed."""
        if code is grpc.StatusCode.ABORTED:
            self._refused_until = float("inf")
        elif code is grpc.StatusCode.PERMISSION_DENIED:
            self._refused_until = self.clock() + REFUSED_FOR_S


def offsets_of(progress: Any) -> Iterator[tuple[Offset | None, Offset]]:
    """Between which offsets a micro-batch reads each Headrace source, from a progress event of the JVM.

    A trigger without data also causes progress events, of sources that have not moved: they are left out.
    """
    for source in progress.sources():
        start, end = source.startOffset(), source.endOffset()
        if end is not None and end != start and (found := _offset(end)) is not None:
            yield _offset(start) if start is not None else None, found


def _offset(text: str) -> Offset | None:
    """An offset of a Headrace source; None if it is of another source, which may write what it likes."""
    try:
        return Offset.parse(text)
    except ValueError:
        return None


class BatchReporter:
    """Reports the micro-batches of all queries of a session."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[BatchedRun, Logged]] = queue.Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def report(self, run: BatchedRun, batch: Logged) -> None:
        """Reports a micro-batch soon, unless too many wait already. Returns at once."""
        if run.is_refused:
            return
        with self._lock:
            try:
                self._waiting.put_nowait((run, batch))
            except queue.Full:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-batches", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Sends reports until there have been none for a while."""
        while True:
            try:
                run, batch = self._waiting.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._thread = None
                        return
                continue
            try:
                _send(run, batch)
            except Exception:
                fields = {"pipeline": batch.end.pipeline, "batch": batch.number}
                log.warning("cannot report a micro-batch for the timeline", exc_info=True, extra=fields)


def _send(run: BatchedRun, batch: Logged) -> None:
    if run.is_refused or not batch.ends:
        return
    connection = Connection.of(run.options)
    try:
        response = _call(connection, batch.end, [batch], history=False)
        if response.wants_history:
            earlier = [logged for logged in run.history(batch.end.pipeline, MAX_HISTORY) if logged.ends]
            _call(connection, batch.end, earlier, history=True)
    except grpc.RpcError as error:
        code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
        run.note_refusal(code)
        fields = {"pipeline": batch.end.pipeline, "batch": batch.number}
        log.info("micro-batch %d is not on the timeline: %s", batch.number, to_error(error, connection), extra=fields)


def _call(connection: Connection, of_run: Offset, batches: Iterable[Logged], *, history: bool) -> pb.ReportBatchesResponse:
    request = pb.ReportBatchesRequest(
        pipeline=of_run.pipeline,
        checkpoint=of_run.checkpoint,
        run_number=of_run.run_number or 0,
        run=of_run.run_id,
        batches=[_to_proto(batch) for batch in batches],
        history=history,
    )
    response = connection.stub().ReportBatches(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    assert isinstance(response, pb.ReportBatchesResponse)
    return response


def _to_proto(batch: Logged) -> pb.LoggedBatch:
    return pb.LoggedBatch(
        batch=batch.number,
        ranges=[
            pb.LoggedRange(stream=name, after=_without_cursor(batch.after.get(name)), end=_without_cursor(batch.ends[name]))
            for name in sorted(batch.ends)[:MAX_BATCH_STREAMS]
        ],
        streams=len(batch.ends),
        planned_ms=batch.planned_ms,
        committed_ms=batch.committed_ms,
    )


def _without_cursor(position: Position | None) -> Place | None:
    """A position as the timeline needs it: the cursors of many micro-batches do not fit into a message."""
    return None if position is None else to_wire(Position(position.epoch, position.sequence))
