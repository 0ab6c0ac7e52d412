"""Tells the gateway what commit logs hold, so that sinks make it visible, and which run is the present one.

Spark writes `commits/N` after the writer's last word, so that somebody else must say it: the driver, which sees the commit log.
The driver also looks whether another one has started on the checkpoint: of two, one ends its query.
"""

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from headrace.engine._connection import Connection, to_error
from headrace.engine._errors import GatewayAway, HeadraceError, Replaced, TakenOver
from headrace.engine._patience import Patience
from headrace.engine._runs import Run, RunLog, Segment, covering
from headrace.engine._sink_options import SinkOptions
from headrace.engine._votes import Votes
from headrace.protocol.v1 import engine_pb2 as pb

CALL_TIMEOUT_S = 2.0
INTERVAL_S = 1.0
"""How often the gateway is told again while a query runs: it may have restarted, or a sink may have come back."""
READERS_INTERVAL_S = 0.5
"""The same while it is not known under which names the query reads: the gateway keeps a batch from tasks by them."""
AWAY_INTERVAL_S = 0.1
"""The same while it is away: nothing is delivered to a gateway that has restarted before it knows the run."""
LAST_INTERVAL_S = 0.1
PATIENCE_AT_END_S = 5.0
"""So long after a query's end its last transactions are waited for; what is pending then is settled at its next start."""
LONGEST_PAUSE_S = 0.5
LAST_SEGMENTS = 8
"""So many segments are told every time; others where the gateway asks for them."""
MOST_ASKED = 200
"""Of so many batches at once."""

log = logging.getLogger("headrace.engine")


@dataclass(eq=False, kw_only=True)
class Log:
    """A commit log, and how to look at the query that writes it. What these functions raise ends only a query that starts."""

    last: Callable[[], int | None]
    """The last batch in the commit log; None where it is empty."""
    first_run: Callable[[], int | None]
    """The first batch that the present run has executed; None where it has not yet executed any."""
    fail: Callable[[str], None]
    """Ends the query with an error."""


@dataclass(eq=False)
class Settled:
    """A run of a query, and what is known of its commit log."""

    pipeline: str
    """The query's id, which its checkpoint keeps."""
    run: Run
    options: SinkOptions | None
    """The sinks that it writes to; None where those are not Headrace's."""
    log: Log | None = None
    """None where nobody writes the commit log any more."""
    runs: RunLog | None = None
    votes: Votes = field(default_factory=lambda: Votes(lambda: None, lambda text: None))
    """What its sinks have voted for."""
    committed: int | None = None
    readers: set[str] = field(default_factory=set)
    """The names of the query's own sources at the gateway."""
    find_readers: Callable[[], set[str]] | None = None
    """Finds those names in the checkpoint, as long as not all are known: a query's first batch gives them."""
    due: float = 0.0
    """When the gateway is told next, on the monotonic clock."""
    ends: float | None = None
    """Once the query has ended: when to give up."""
    replaced: bool = False
    """Whether another run has taken over, so that this one has nothing more to tell."""
    is_away: bool = False

    def __post_init__(self) -> None:
        self._connection = Connection.of(self.options) if self.options is not None else None
        self._is_sure = self.log is None
        self._asked: set[int] = set()
        self._look_due = 0.0

    def announce(self) -> None:
        """Tells the gateway that the run begins, and waits until it has heard.

        Raises:
            HeadraceError: another run is the present one, the gateway refuses, or it has been away for too long; or an instance
                of a sink has come back without what is committed.
            Exception: the commit log cannot be read. To call it empty would have the sink drop what is committed.
        """
        if self._connection is None or self.options is None:
            return
        self._read_again()
        self.votes.recall()
        self.look_for_readers()
        patience = Patience(self.options.gateway_timeout_s, LONGEST_PAUSE_S)
        while True:
            try:
                self._tell(self._connection, self.options)
                break
            except GatewayAway as away:
                patience.wait(away)
        patience.answered()
        # The gateway takes no votes of older runs any more; what they were given one for may be in the log by now.
        if self._read_again():
            self._tell(self._connection, self.options)
        self.votes.check()

    def _read_again(self) -> bool:
        """Reads the commit log of a query that has not begun; True where it has moved since the run's file was written."""
        if self.log is None or self.runs is None:
            return False
        last = self.log.last()
        self.committed, first = last, 0 if last is None else last + 1
        if first == self.run.first_batch:
            return False
        self.run = self.runs.correct(self.run, first)
        return True

    def settle(self) -> int | None:
        """Tells the gateway, and returns how many transactions are pending; None where it was not reached."""
        if self.replaced:
            return 0
        try:
            self._look()
            if self._connection is None or self.options is None:
                return 0
            pending = self._tell(self._connection, self.options)
        except (Replaced, TakenOver) as error:
            self._end(error)
            return 0
        except Exception as error:
            if not self.is_away:
                log.warning("query %s is not settled: %s", self.pipeline, error, exc_info=not isinstance(error, HeadraceError))
            self.is_away = True
            return None
        self.is_away = False
        return pending

    def _look(self) -> None:
        """Looks at the checkpoint.

        Raises:
            Replaced: another run has begun on it.
        """
        now = time.monotonic()
        try:
            if self.runs is not None and self.ends is None and now >= self._look_due:
                self._look_due = now + INTERVAL_S
                self.runs.check(self.run)
            self._find_first_batch()
        except Replaced:
            raise
        except Exception:
            log.warning("cannot look for other runs of query %s", self.pipeline, exc_info=True)

    def _tell(self, connection: Connection, options: SinkOptions) -> int:
        """Tells the gateway; returns how many transactions are pending.

        Raises:
            GatewayError: it refused, or was not reached.
        """
        request = pb.SettleRequest(
            pipeline=self.pipeline,
            committed=self.committed,
            readers=sorted(self.readers),
            sinks=options.sinks,
            run=self.run.id,
            first_batch=self.run.first_batch,
            run_number=self.run.number,
            segments=[_to_proto(segment) for segment in self._segments()],
            closed=self.log is None,
            accept_older=options.accept_older or self.log is None,
            votes=self.votes.of(options.sinks, self.committed),
            accept_lost=options.accept_lost,
            awaited=options.awaited,
            former_sinks=[sink for sink in self.run.sinks if sink not in options.sinks],
        )
        try:
            response = connection.stub().Settle(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
        except grpc.RpcError as error:
            raise to_error(error, connection) from None
        self._asked = {*self._asked, *response.undecided} if response.pending else set()
        self.votes.take(response)
        return response.pending

    def look_for_readers(self) -> None:
        """Looks for the names of the sources where they are not known."""
        if self.find_readers is None:
            return
        try:
            found = self.find_readers()
        except Exception:
            log.info("cannot read the offset log of query %s", self.pipeline, exc_info=True)
            return
        if found:
            self.readers |= found
            self.find_readers = None

    @property
    def interval_s(self) -> float:
        """How long until the gateway is told again."""
        if self.ends is not None:
            return LAST_INTERVAL_S
        return INTERVAL_S if self.find_readers is None else READERS_INTERVAL_S

    def _segments(self) -> list[Segment]:
        earlier = self.run.earlier
        wanted = {*earlier[-LAST_SEGMENTS:], *covering(earlier, sorted(self._asked)[:MOST_ASKED])}
        return sorted(wanted, key=lambda segment: segment.first_batch)

    def _find_first_batch(self) -> None:
        """Learns which batch the run began with: the run before it may have committed one more after this one had looked."""
        if self._is_sure or self.log is None or self.runs is None or (first := self.log.first_run()) is None:
            return
        if first != self.run.first_batch:
            self.run = self.runs.correct(self.run, first)
        self._is_sure = True

    def _end(self, error: Exception) -> None:
        self.replaced = True
        log.error("query %s: %s", self.pipeline, error)
        if self.log is not None and self.ends is None:
            self.log.fail(str(error))

    def note(self, batch: int | None) -> None:
        """Notes that a batch is in the commit log."""
        if batch is not None and (self.committed is None or batch > self.committed):
            self.committed = batch

    def read(self) -> None:
        """Notes what the commit log holds, once the run is known to have executed something of it."""
        try:
            self._find_first_batch()
            if self._is_sure and self.log is not None:
                self.note(self.log.last())
        except Exception:
            log.info("cannot read the commit log of query %s", self.pipeline, exc_info=True)


class Settling:
    """Settles the queries of one session, in a thread that lives as long as there are any."""

    def __init__(self, session_ended: Callable[[], bool]) -> None:
        self._session_ended = session_ended
        self._changed = threading.Condition()
        self._queries: dict[str, Settled] = {}
        self._thread: threading.Thread | None = None
        _settlings.add(self)

    def start(self, query: Settled) -> None:
        """Announces a query that starts, before its first batch, and settles it from now on.

        Raises:
            HeadraceError: the query must not start.
            Exception: the commit log cannot be read.
        """
        query.announce()
        with self._changed:
            query.due = time.monotonic() + query.interval_s
            self._queries[query.pipeline] = query
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-settling", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def committed(self, query: Settled, batch: int) -> None:
        """Notes that a batch is in the commit log, and tells the gateway at once."""
        with self._changed:
            query.note(batch)
            query.due = 0.0
            self._changed.notify_all()

    def end(self, query: Settled) -> None:
        """Notes that a query has ended: its last transactions are settled, for a while."""
        query.read()
        query.votes.save()
        with self._changed:
            query.ends = time.monotonic() + PATIENCE_AT_END_S
            query.due = 0.0
            self._changed.notify_all()

    def finish(self) -> None:
        """Settles what every query has committed, right here, since the process ends."""
        with self._changed:
            queries = list(self._queries.values())
            self._queries.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + PATIENCE_AT_END_S
        for query in queries:
            query.ends = query.ends or deadline
            query.read()
        while (queries := [query for query in queries if query.settle() != 0]) and time.monotonic() < deadline:
            time.sleep(LAST_INTERVAL_S)

    def _run(self) -> None:
        while (query := self._next()) is not None:
            query.look_for_readers()
            pending = query.settle()
            with self._changed:
                over = query.replaced or (query.ends is not None and (pending == 0 or time.monotonic() > query.ends))
                if over and self._queries.get(query.pipeline) is query:
                    del self._queries[query.pipeline]
                elif query.is_away and query.ends is None:
                    query.due = min(query.due, time.monotonic() + AWAY_INTERVAL_S)

    def _next(self) -> Settled | None:
        """Waits for the next query that is due; None once there are none."""
        with self._changed:
            while self._queries:
                now = time.monotonic()
                if self._session_ended():
                    for query in self._queries.values():
                        query.ends = query.ends or now + PATIENCE_AT_END_S
                query = min(self._queries.values(), key=lambda q: q.due)
                if query.due <= now:
                    query.due = now + query.interval_s
                    return query
                self._changed.wait(query.due - now)
            self._thread = None
            return None


def _to_proto(segment: Segment) -> pb.RunSegment:
    return pb.RunSegment(run=segment.run, first_batch=segment.first_batch, last_batch=segment.last_batch)


_settlings: "weakref.WeakSet[Settling]" = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """A program may end as soon as `awaitTermination` returns, before Spark has told its listeners that the query did."""
    for settling in list(_settlings):
        settling.finish()
