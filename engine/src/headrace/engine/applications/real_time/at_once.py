"""Delivers results to one sink before their micro-batch is planned, if the sink is at-least-once."""

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import grpc

from headrace.engine._errors import GatewayAway, NotAtOnce, SinkAway, SinkFailed
from headrace.engine.applications.real_time.parts import PartsCall, Run
from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.applications.stages.results import blocks_of
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.sink_calls import sink_error
from headrace.engine.sink.spool import Spool
from headrace.engine.sink.writer import Refused, Task, TaskWriter, Written
from headrace.engine.wire.connection import Connection
from headrace.engine.wire.retry import Retry

MAX_WAITING_BYTES = 32 * 2**20
"""The size of the results that wait for an at-least-once sink, in bytes, at which processing waits, too."""
MAX_KEPT_BYTES = 128 * 2**20
"""The size of the results that are kept for the next micro-batch, in bytes, at which processing waits for it."""
PART_BYTES = 2**20
"""The size of the results in one part, in bytes, beyond which further ones are in the next part."""
MAX_UNANSWERED = 2
"""How many parts are sent before the sink has answered the first of them: one that it writes, and one that waits there.

Further results wait for the next part, which is larger the slower the sink is. With more small parts, a result would wait for as
many flushes of the sink.
"""
MAX_PAUSE_S = 1.0

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class _Part:
    """Consecutive results of one micro-batch."""

    task: Task
    rows: tuple[BlockRow, ...]


class AtOnce:
    """Delivers the results for one sink, in a thread of its own, in order.

    Results for a sink of another mode are kept for their micro-batch.

    Args:
        options: The options of the sinks.
        sink: The name of the sink.
        run: The run of the query.
        freed: Called after there is room for results again, or the sink has failed. It must not wait for the sink.
    """

    def __init__(self, options: SinkOptions, sink: str, run: Run, freed: Callable[[], None]) -> None:
        self._options = options.for_sink(sink)
        self._run_of_query = run
        self._freed = freed
        self._connection = Connection.of(self._options)
        self._fields: dict[str, object] = {"query": run.query, "sink": sink}
        self._retry = Retry(self._options.gateway_timeout_s, MAX_PAUSE_S, fields=self._fields)
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, BlockRow]] = deque()
        self._waiting_bytes = 0
        self._unanswered: deque[_Part] = deque()
        self._rows_by_batch: defaultdict[int, list[BlockRow]] = defaultdict(list)
        self._kept_bytes = 0
        self._rejected: defaultdict[int, list[Written]] = defaultdict(list)
        self._is_at_once = True
        self._has_answered = False
        self._failure: Exception | None = None
        self._stopped = False
        self._call: PartsCall | None = None
        self._has_ended = False
        """Whether the present call has ended."""
        self._error: Exception | None = None
        """Why it has."""
        self._thread = threading.Thread(target=self._run, name=f"headrace-sink-{sink}", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether results may be put. The caller looks before it makes some: it could not be paused while it waits with them."""
        return self._is_over or (self._waiting_bytes < MAX_WAITING_BYTES and self._kept_bytes < MAX_KEPT_BYTES)

    def put(self, batch: int, row: BlockRow) -> None:
        """Takes over a row of a micro-batch.

        Raises:
            HeadraceError: The sink cannot accept the results, or was unavailable until the timeout.
        """
        with self._changed:
            self._check()
            if self._is_at_once:
                self._waiting.append((batch, row))
                self._waiting_bytes += row.size
                self._changed.notify_all()
            else:
                self._keep(batch, row)

    def await_mode(self, timeout_s: float) -> bool:
        """Waits until it is known which results are kept for their micro-batch; returns False if it is not known in time.

        Raises:
            HeadraceError: The sink cannot accept the results, or was unavailable until the timeout.
        """
        with self._changed:
            known = self._changed.wait_for(lambda: self._is_over or self._knows_mode, timeout_s)
            self._check()
            return known

    def kept(self, batch: int) -> list[BlockRow]:
        """The rows that are to be delivered with their micro-batch, after all of its rows were put, and the mode is known."""
        with self._changed:
            rows = self._rows_by_batch.pop(batch, [])
            self._kept_bytes -= sum(row.size for row in rows)
        self._freed()
        return rows

    def await_delivered(self, batch: int, timeout_s: float) -> bool:
        """Waits until all results of a micro-batch are delivered; returns False if it takes longer.

        Raises:
            HeadraceError: The sink cannot accept the results, or was unavailable until the timeout.
        """
        with self._changed:
            delivered = self._changed.wait_for(lambda: self._is_over or not self._has(batch), timeout_s)
            self._check()
            return delivered

    def rejected(self, batch: int) -> list[Written]:
        """The messages of a micro-batch that the sink has rejected during the delivery."""
        with self._changed:
            return self._rejected.pop(batch, [])

    def stop(self) -> None:
        """Ends delivering, and waits for the thread."""
        with self._changed:
            self._stopped = True
            if self._call is not None:
                self._call.cancel()
            self._changed.notify_all()
        self._thread.join()

    @property
    def _is_over(self) -> bool:
        return self._stopped or self._failure is not None

    @property
    def _knows_mode(self) -> bool:
        """Whether the sink has answered, or nothing needs an answer."""
        return not self._is_at_once or self._has_answered or not (self._waiting or self._unanswered)

    def _has(self, batch: int) -> bool:
        """Whether results of a micro-batch, or of one before it, are not delivered yet."""
        waiting = bool(self._waiting) and self._waiting[0][0] <= batch
        return waiting or (bool(self._unanswered) and self._unanswered[0].task.batch <= batch)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopped and self._is_at_once:
                self._deliver()
        except Exception as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        self._freed()

    def _deliver(self) -> None:
        """Makes one call, which delivers everything that is not answered again, and then what comes, until it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting or self._unanswered)
            if self._stopped:
                return
            self._has_ended, self._error = False, None
            again = list(self._unanswered)
            call = self._call = PartsCall(self._connection, self._answered, self._ended)
        try:
            for part in again:
                call.send(self._options, part.task, blocks_of(part.rows))
            while (new := self._next()) is not None:
                call.send(self._options, new.task, blocks_of(new.rows))
        finally:
            call.close()
        if self._error is not None and not self._stopped:
            self._recover(self._error)

    def _next(self) -> _Part | None:
        """The next part; None once the call has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or self._has_ended or (self._waiting and len(self._unanswered) < MAX_UNANSWERED)
            )
            if self._stopped or self._has_ended:
                return None
            batch, rows, size = self._waiting[0][0], list[BlockRow](), 0
            while self._waiting and self._waiting[0][0] == batch and size < PART_BYTES:
                rows.append(self._waiting.popleft()[1])
                size += rows[-1].size
            self._waiting_bytes -= size
            part = _Part(self._run_of_query.task(batch), tuple(rows))
            self._unanswered.append(part)
            self._changed.notify_all()
        self._freed()
        return part

    def _answered(self, refused: Refused) -> None:
        """The sink has written the first part that was not answered."""
        part = self._unanswered[0]
        written = self._rejected_of(part, refused) if refused else None
        with self._changed:
            self._retry.reset()
            self._has_answered = True
            self._unanswered.popleft()
            if written is not None:
                self._rejected[part.task.batch].append(written)
            self._changed.notify_all()

    def _rejected_of(self, part: _Part, refused: Refused) -> Written | None:
        """Handles what the sink rejects; returns the part at the dead-letter sink, for the vote."""
        with closing(Spool()) as spool, TaskWriter(self._options, self._connection, part.task) as writer:
            for block in blocks_of(part.rows):
                spool.append(block)
            dead_attempt = writer.handle_refused(refused, part.task, spool)
        return None if dead_attempt is None else Written(part.task, None, 0, refused, dead_attempt)

    def _ended(self, error: Exception | None) -> None:
        with self._changed:
            self._has_ended, self._error = True, error
            self._changed.notify_all()

    def _recover(self, error: Exception) -> None:
        """Waits before the next call, or keeps everything for its micro-batch.

        Raises:
            HeadraceError: The error is not temporary, or there was no progress until the timeout.
        """
        if not isinstance(error, grpc.RpcError):
            raise error
        batch = self._unanswered[0].task.batch if self._unanswered else 0
        meaning = sink_error(error, self._connection, self._options.sink, batch)
        if isinstance(meaning, NotAtOnce):
            self._keep_all()
        elif isinstance(meaning, GatewayAway) and not isinstance(meaning, SinkAway):
            self._retry.wait(meaning)
        else:
            raise meaning from None

    def _keep_all(self) -> None:
        """Keeps everything for its micro-batch, from now on."""
        sink = self._options.sink
        with self._changed:
            if self._has_answered:
                raise SinkFailed(f"sink {sink} is no longer at-least-once; start the application again")
            text = "sink %s is not at-least-once: its results are visible once their micro-batch is committed"
            log.info(text, sink, extra=self._fields)
            self._is_at_once = False
            for part in self._unanswered:
                for row in part.rows:
                    self._keep(part.task.batch, row)
            for batch, row in self._waiting:
                self._keep(batch, row)
            self._unanswered.clear()
            self._waiting.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()

    def _keep(self, batch: int, row: BlockRow) -> None:
        self._rows_by_batch[batch].append(row)
        self._kept_bytes += row.size
