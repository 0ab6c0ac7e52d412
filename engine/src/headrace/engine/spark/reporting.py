"""What a query reports to the gateway: committed batches, so that sinks make them visible, and which run is the current one.

Spark writes `commits/N` after the writer's last call, so the driver reports it, from the commit log. The driver also checks
whether another driver has started on the same checkpoint: one of the two ends its query.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import GatewayAway, Replaced, TakenOver
from headrace.engine.checkpoint.runs import Owner, Run, RunLog, Segment, covering, extended
from headrace.engine.checkpoint.votes import Votes
from headrace.engine.sink.options import SinkOptions
from headrace.engine.wire.connection import Connection, to_error
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.metrics_pb2 import RunFault, RunMetrics, StageTime

CALL_TIMEOUT_S = 2.0
INTERVAL_S = 1.0
"""How often to report while a query runs: the gateway may have restarted, or a sink may have reconnected."""
READERS_INTERVAL_S = 0.5
"""The same while the names of the query's sources are unknown: the gateway needs them to delay a batch until sinks are there."""
LAST_INTERVAL_S = 0.1
"""The same after the query's end, until no transaction is pending."""
MAX_PAUSE_S = 0.5
LAST_SEGMENTS = 8
"""The number of segments in every report; earlier ones are sent if the gateway asks for them."""
MAX_UNDECIDED = 200
"""The largest number of batches for which a report contains the segments that the gateway asked for."""

log = logging.getLogger("headrace.engine")


class StoppedAtStart(HeadraceError):
    """The query was stopped before it had begun."""


@dataclass(eq=False, kw_only=True)
class CommitLog:
    """Access to the commit log of a running query. Errors of these functions end a query only while it starts."""

    last: Callable[[], int | None]
    """The last batch in the commit log; None if the log is empty."""
    owner: Owner
    """Who wrote the entry of a batch."""
    fail: Callable[[str], None]
    """Ends the query with an error."""
    is_stopped: Callable[[], bool]
    """Whether the query was stopped or has ended."""


@dataclass(eq=False)
class ReportedRun:
    """A run of a query whose commits are reported."""

    query_id: str
    """Spark's id of the query, which is the same for the life of its checkpoint."""
    run: Run
    options: SinkOptions | None
    """The options of its sinks; None if it does not write to Headrace sinks. An application may write to lakes only."""
    log: CommitLog | None = None
    """None if the commit log is complete, because the query has been replaced."""
    runs: RunLog | None = None
    votes: Votes = field(default_factory=lambda: Votes(lambda: None, lambda text: None))
    """The votes of its sinks."""
    committed: int | None = None
    readers: set[str] = field(default_factory=set)
    """The pipeline names under which the query's sources attach to the gateway."""
    find_readers: Callable[[], set[str]] | None = None
    """Finds those names in the checkpoint, while not all are known: they are there after the query's first batch."""
    measure: Callable[[int | None], RunMetrics] | None = None
    """Returns what the run has done since it started; None if it is not measured."""
    hindered: Callable[[], RunFault | None] | None = None
    """Returns what keeps the run from making progress; None if nothing does."""
    beat: Callable[[], None] | None = None
    """Tells the gateways of its sources that the driver runs. Returns at once."""
    failure: RunFault | None = None
    """Why the query has ended, if by an error."""
    find_failure: Callable[[], RunFault | None] | None = None
    """Finds that: the process may end before Spark has notified its listeners."""
    stages_ms: Counter[str] = field(default_factory=Counter)
    """The time that its micro-batches have spent on each stage."""
    due: float = 0.0
    """When to report next, on the monotonic clock."""
    ends: float | None = None
    """When to give up, on the monotonic clock; None while the query runs."""
    replaced: bool = False
    """Whether another run has taken over, so that this one reports nothing more."""
    is_unavailable: bool = False

    def __post_init__(self) -> None:
        self._connection = None if self.options is None else Connection.of(self.options)
        self._segments = self.run.earlier
        """The runs that have committed the batches up to `committed`."""
        self._own: tuple[int, int] | None = None
        """The first and the last batch that this run has committed itself."""
        self._own_lock = threading.Lock()
        self._undecided: set[int] = set()
        self._check_due = 0.0

    def announce(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Reports the start of the run to the gateway, and waits for its response.

        Args:
            is_stopped: Whether the query was stopped meanwhile, which waits for the query's thread, and so for this.

        Raises:
            StoppedAtStart: The query was stopped while the gateway was unavailable.
            HeadraceError: Another run is the current one, the gateway rejected the call or was unavailable until the timeout,
                or an instance of a sink has lost committed rows.
            Exception: The commit log cannot be read. If it were taken to be empty, the sink would drop committed rows.
        """
        if self._connection is None or self.options is None:
            return
        self._read_again()
        self.votes.load()
        self.look_for_readers()
        retry = Retry(self.options.gateway_timeout_s, MAX_PAUSE_S, fields=self._fields)
        while True:
            try:
                self._report_commits(self._connection, self.options)
                break
            except GatewayAway as away:
                if is_stopped():
                    raise StoppedAtStart(f"the query was stopped while {away}") from None
                retry.wait(away)
        retry.reset()
        # From now on, the gateway rejects votes of older runs. Batches that they had votes for may be in the log by now.
        if self._read_again():
            self._report_commits(self._connection, self.options)
        self.votes.check()

    def _read_again(self) -> bool:
        """Reads the commit log before the query's first batch; True if it has grown since the run's file was written."""
        if self.log is None:
            return False
        before, last = self.committed, self.log.last()
        self._attribute(-1 if last is None else last)
        return self.committed != before

    def report(self) -> int | None:
        """Reports to the gateway; returns the number of pending transactions, or None if the report failed."""
        if self.replaced:
            return 0
        try:
            # This waits for the JVM, so that a heartbeat tells that it runs, too.
            self._check_current()
            if self.beat is not None and self.ends is None:
                self.beat()
            self._attribute_own()
            if self._connection is None or self.options is None:
                self._record_first()
                return 0
            pending = self._report_commits(self._connection, self.options)
            self._record_first()
        except (Replaced, TakenOver) as error:
            self._end(error)
            return 0
        except Exception as error:
            if not self.is_unavailable:
                self._log_unreported(error)
            self.is_unavailable = True
            return None
        self.is_unavailable = False
        return pending

    def _log_unreported(self, error: Exception) -> None:
        has_sinks = self.options is not None and bool(self.options.sinks or self.run.sinks)
        is_expected = isinstance(error, HeadraceError)
        if self.ends is None:
            then = "it tries again, and sinks show what they have staged once it can"
        elif has_sinks:
            then = "if that lasts, sinks show what they have staged at its next start"
        else:
            then = "nothing waits for them, since the query has ended and has no sinks"
        level = logging.INFO if is_expected and self.ends is not None and not has_sinks else logging.WARNING
        text = "cannot report the commits of query %s: %s; %s"
        log.log(level, text, self.query_id, error, then, exc_info=not is_expected, extra=self._fields)

    def is_replaced(self) -> bool:
        """Whether another run has taken over the checkpoint, by the run log.

        Raises:
            Exception: The run log cannot be read.
        """
        try:
            if self.runs is not None and not self.replaced:
                self.runs.check(self.run)
        except Replaced:
            self.replaced = True
        return self.replaced

    def save_votes(self) -> None:
        """Writes the votes of the sinks to the checkpoint at the query's end, unless another run has taken it over."""
        try:
            if not self.is_replaced():
                self.votes.save()
        except Exception:
            log.warning("cannot check for other runs of query %s", self.query_id, exc_info=True, extra=self._fields)

    def _check_current(self) -> None:
        """Checks that this run is still the current one of the checkpoint.

        Raises:
            Replaced: Another run has started on the checkpoint.
        """
        now = time.monotonic()
        try:
            if self.runs is not None and self.ends is None and now >= self._check_due:
                self._check_due = now + INTERVAL_S
                self.runs.check(self.run)
        except Replaced:
            raise
        except Exception:
            log.warning("cannot check for other runs of query %s", self.query_id, exc_info=True, extra=self._fields)

    def _report_commits(self, connection: Connection, options: SinkOptions) -> int:
        """Calls the gateway; returns the number of pending transactions.

        Raises:
            GatewayError: The gateway rejected the call, or was unavailable.
        """
        former_sinks = [sink for sink in self.run.sinks if sink not in options.sinks]
        if not (options.sinks or former_sinks or self.readers):
            # The gateway would know neither whom the report concerns, nor whether the caller may make it.
            return 0
        request = pb.ReportCommitsRequest(
            pipeline=self.query_id,
            committed=self.committed,
            readers=sorted(self.readers),
            sinks=options.sinks,
            run=self.run.id,
            # From here on, gateways that know no segments of the current run take batches for its own.
            first_batch=self._next() if self._own is None else self._own[0],
            run_number=self.run.number,
            segments=[_to_proto(segment) for segment in self._segments_to_tell()],
            closed=self.log is None,
            accept_older=options.accept_older or self.log is None,
            votes=self.votes.for_sinks(options.sinks, self.committed),
            accept_lost=options.accept_lost,
            awaited=options.awaited,
            former_sinks=former_sinks,
            # Spark interrupts the query's thread, but cannot interrupt the process in which its writer waits for a vote.
            stopped=self.log is not None and self.log.is_stopped(),
            metrics=self._metrics(),
            fault=self.failure or (self.hindered() if self.hindered is not None and self.ends is None else None),
        )
        try:
            response = connection.stub().ReportCommits(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
        except grpc.RpcError as error:
            raise to_error(error, connection) from None
        self._undecided = {*self._undecided, *response.undecided} if response.pending else set()
        self.votes.update(response)
        return response.pending

    def _metrics(self) -> RunMetrics | None:
        metrics = None if self.measure is None else self.measure(self.committed)
        if metrics is not None:
            metrics.stages.extend(StageTime(stage=stage, time_ms=spent) for stage, spent in self.stages_ms.items())
        return metrics

    def look_for_readers(self) -> None:
        """Looks for the names of the sources while they are unknown."""
        if self.find_readers is None:
            return
        try:
            found = self.find_readers()
        except Exception:
            log.info("cannot read the offset log of query %s", self.query_id, exc_info=True, extra=self._fields)
            return
        if found:
            self.readers |= found
            self.find_readers = None

    @property
    def interval_s(self) -> float:
        """How long until the next report, in seconds."""
        if self.ends is not None:
            return LAST_INTERVAL_S
        return INTERVAL_S if self.find_readers is None else READERS_INTERVAL_S

    def _segments_to_tell(self) -> list[Segment]:
        known = self._segments
        wanted = {*known[-LAST_SEGMENTS:], *covering(known, sorted(self._undecided)[:MAX_UNDECIDED])}
        return sorted(wanted, key=lambda segment: segment.first_batch)

    def _next(self) -> int:
        return 0 if self.committed is None else self.committed + 1

    def _attribute_own(self) -> None:
        """Records the batches that this run has committed itself, and who committed those before them."""
        if self._own is not None:
            self._attribute(self._own[1])

    def _attribute(self, last: int) -> None:
        """Records who has committed the batches up to `last`, as far as that is known."""
        while (batch := self._next()) <= last:
            owner = self._owner_of(batch)
            if owner is None:
                return
            self._segments, self.committed = extended(self._segments, batch, owner), batch

    def _owner_of(self, batch: int) -> str | None:
        """Returns the run that has committed a batch; empty if it can never be known, None if it may be this one."""
        if self._own is not None and self._own[0] <= batch <= self._own[1]:
            return self.run.id
        owner = self.log.owner(batch) if self.log is not None else None
        if owner == self.run.id:
            self.note(batch)
        return "" if owner is None and self._own is not None and batch < self._own[0] else owner

    def _record_first(self) -> None:
        """Records in the checkpoint the first batch that this run has committed itself."""
        if self._own is None or self.run.first_batch is not None or self.runs is None:
            return
        first = self._own[0]
        earlier = tuple(segment for segment in self._segments if segment.last_batch < first)
        try:
            self.run = self.runs.confirm(self.run, first, earlier)
        except Exception:
            log.warning("cannot record a run of query %s", self.query_id, exc_info=True, extra=self._fields)

    def tell_replaced(self) -> None:
        """Tells the gateway that two drivers use one checkpoint, and nothing else. For a query that nobody has stopped."""
        if self._connection is None or self.options is None:
            return
        try:
            request = pb.ReportCommitsRequest(
                pipeline=self.query_id,
                readers=sorted(self.readers),
                sinks=self.options.sinks,
                run=self.run.id,
                run_number=self.run.number,
                replaced=True,
            )
            self._connection.stub().ReportCommits(request, timeout=CALL_TIMEOUT_S, metadata=self._connection.metadata)
        except Exception:
            log.info("cannot report that another driver has taken over", exc_info=True, extra=self._fields)

    @property
    def _fields(self) -> dict[str, object]:
        """The fields of a log line about the query."""
        return {"query": self.query_id, "run": self.run.id}

    def _end(self, error: Exception) -> None:
        if isinstance(error, Replaced) and self.log is not None and not self.log.is_stopped():
            self.tell_replaced()
        self.replaced = True
        log.error("query %s: %s", self.query_id, error, extra=self._fields)
        if self.log is not None and self.ends is None:
            self.log.fail(str(error))

    def note(self, batch: int) -> None:
        """Records that this run has committed a batch."""
        with self._own_lock:
            first, last = self._own or (batch, batch)
            self._own = min(first, batch), max(last, batch)

    def read(self) -> None:
        """Reads the commit log once more, whose last entries may not have been noted, and why the query has ended."""
        try:
            if self.log is not None and (last := self.log.last()) is not None:
                self._attribute_own()
                self._attribute(last)
            if self.failure is None and self.find_failure is not None:
                self.failure = self.find_failure()
        except Exception:
            log.info("cannot read the end of query %s", self.query_id, exc_info=True, extra=self._fields)


def _to_proto(segment: Segment) -> pb.RunSegment:
    return pb.RunSegment(run=segment.run, first_batch=segment.first_batch, last_batch=segment.last_batch)
