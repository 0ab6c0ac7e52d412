"""Tells the gateway what commit logs hold, so that sinks make it visible.

Spark writes `commits/N` after the writer's last word, so that somebody else must say it: the driver, which sees the commit log.
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
from headrace.engine._sink_options import SinkOptions
from headrace.engine._votes import Votes
from headrace.protocol.v1 import engine_pb2 as pb

CALL_TIMEOUT_S = 2.0
INTERVAL_S = 1.0
"""How often the gateway is told again while a query runs: it may have restarted, or a sink may have come back."""
READERS_INTERVAL_S = 0.5
"""The same while it is not known under which names the query reads: the gateway keeps a batch from tasks by them."""
LAST_INTERVAL_S = 0.1
PATIENCE_AT_END_S = 5.0
"""So long after a query's end its last transactions are waited for; what is pending then is settled at its next start."""

log = logging.getLogger("headrace.engine")


@dataclass(eq=False)
class Settled:
    """A run of a query that writes to a sink, and what is known of its commit log."""

    pipeline: str
    """The query's id, which its checkpoint keeps."""
    run: str
    options: SinkOptions
    read_commit_log: Callable[[], int | None]
    """The last batch in the commit log; None where it is empty. What it raises ends nothing but a query that starts."""
    votes: Votes = field(default_factory=lambda: Votes(lambda: None, lambda text: None))
    """What its sinks have voted for."""
    first_batch: int = 0
    """The first batch that the run executes."""
    committed: int | None = None
    readers: set[str] = field(default_factory=set)
    """The names of the query's own sources at the gateway."""
    find_readers: Callable[[], set[str]] | None = None
    """Finds those names in the checkpoint, as long as not all are known: a query's first batch gives them."""
    due: float = 0.0
    """When the gateway is told next, on the monotonic clock."""
    ends: float | None = None
    """Once the query has ended: when to give up."""

    def __post_init__(self) -> None:
        self._connection = Connection.of(self.options)
        self._away = False

    def settle(self) -> int | None:
        """Tells the gateway, and returns how many transactions are pending; None where it was not reached."""
        request = pb.SettleRequest(
            pipeline=self.pipeline,
            committed=self.committed,
            readers=sorted(self.readers),
            sinks=self.options.sinks,
            run=self.run,
            first_batch=self.first_batch,
            votes=self.votes.of(self.options.sinks, self.committed),
            accept_lost=self.options.accept_lost,
        )
        connection = self._connection
        try:
            response = connection.stub().Settle(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
        except grpc.RpcError as error:
            if not self._away:
                log.warning("sink %s is not told what is committed: %s", self.options.sink, to_error(error, connection))
            self._away = True
            return None
        self._away = False
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

    def note(self, batch: int | None) -> None:
        """Notes that a batch is in the commit log."""
        if batch is not None and (self.committed is None or batch > self.committed):
            self.committed = batch

    def read(self) -> None:
        """Notes what the commit log holds."""
        try:
            self.note(self.read_commit_log())
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
            SinkLost: an instance of a sink has come back without what is committed.
            Exception: the commit log cannot be read. To call it empty would have the sink drop what is committed.
        """
        query.note(query.read_commit_log())
        query.votes.recall()
        query.look_for_readers()
        query.first_batch = 0 if query.committed is None else query.committed + 1
        query.settle()
        query.votes.check()
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
        for query in queries:
            query.read()
        deadline = time.monotonic() + PATIENCE_AT_END_S
        while (queries := [query for query in queries if query.settle() != 0]) and time.monotonic() < deadline:
            time.sleep(LAST_INTERVAL_S)

    def _run(self) -> None:
        while (query := self._next()) is not None:
            query.look_for_readers()
            pending = query.settle()
            with self._changed:
                over = query.ends is not None and (pending == 0 or time.monotonic() > query.ends)
                if over and self._queries.get(query.pipeline) is query:
                    del self._queries[query.pipeline]

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


_settlings: "weakref.WeakSet[Settling]" = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """A program may end as soon as `awaitTermination` returns, before Spark has told its listeners that the query did."""
    for settling in list(_settlings):
        settling.finish()
