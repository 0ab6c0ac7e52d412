"""The runs of a checkpoint, without Spark: which is the present one, whatever two drivers do, and what each has committed."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import grpc
import pytest
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.engine import Replaced, TakenOver
from headrace.engine.checkpoint._position import Offset, Position
from headrace.engine.checkpoint._runs import MOST_SEGMENTS, Run, RunLog, Segment
from headrace.engine.checkpoint._votes import Votes
from headrace.engine.sink._options import parse_sink
from headrace.engine.source._options import parse
from headrace.engine.spark._execution import Execution
from headrace.engine.spark._listener import detach
from headrace.engine.spark._reporter import CommitReporter
from headrace.engine.spark._reporting import CommitLog, ReportedRun
from headrace.engine.wire._gateway_options import Defaults
from headrace.protocol.v1 import engine_pb2 as pb

STEPS = 5
"""So often a driver that starts lists the store or writes to it."""


class Store:
    """Files, on a store that knows neither exclusive creation nor renaming."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> str:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name: str, text: str) -> None:
        self.files[name] = text

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


class Stepped(Store):
    """The store as one driver sees it, each of whose steps is somebody else's to allow."""

    def __init__(self, shared: Store) -> None:
        self.files = shared.files
        self.allowed, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def names(self) -> list[str]:
        self.allowed.acquire()
        found = super().names()
        self.done.release()
        return found

    def write(self, name: str, text: str) -> None:
        self.allowed.acquire()
        super().write(name, text)
        self.done.release()


class Driver:
    """A driver that starts a query in a thread of its own."""

    def __init__(self, name: str, shared: Store) -> None:
        self.name, self._shared, self._store = name, shared, Stepped(shared)
        self.run: Run | None = None
        self._thread = threading.Thread(target=self._begin)
        self._thread.start()

    def _begin(self) -> None:
        try:
            self.run = RunLog(self._store).begin(self.name, 8)
        except Replaced:
            # It does nothing more.
            for _ in range(STEPS):
                self._store.done.release()

    def step(self) -> None:
        self._store.allowed.release()
        self._store.done.acquire()

    @property
    def is_present(self) -> bool:
        """What it finds when it looks again, as it does before each settlement."""
        self._thread.join()
        if self.run is None:
            return False
        try:
            RunLog(self._shared).check(self.run)
        except Replaced:
            return False
        return True


def test_of_two_drivers_that_start_at_the_same_time_one_is_the_present_run() -> None:
    """Every order in which two drivers can list and write is played, on a store without exclusive creation."""
    winners = set()
    for places in itertools.combinations(range(2 * STEPS), STEPS):
        shared = Store()
        RunLog(shared).begin("before", 0)
        drivers = [Driver(name, shared) for name in "ab"]
        for n in range(2 * STEPS):
            drivers[n in places].step()
        (present,) = [driver for driver in drivers if driver.is_present]
        winners.add(present.name)
    assert winners == {"a", "b"}


def test_numbers_rise_and_what_each_run_committed_is_kept() -> None:
    log = RunLog(store := Store())
    runs = [log.begin(name, first) for name, first in [("a", 0), ("b", 3), ("c", 3), ("d", 7)]]
    assert [run.number for run in runs] == [1, 2, 3, 4]
    assert runs[3].earlier == (Segment("a", 0, 2), Segment("c", 3, 6))
    assert runs[3].segments(9) == (Segment("a", 0, 2), Segment("c", 3, 6), Segment("d", 7, 9))
    assert log.segments(4) == (Segment("a", 0, 2), Segment("c", 3, 4)), "as far as the commit log of the time went"
    assert len(store.files) == 3
    for run in runs[:3]:
        with pytest.raises(Replaced, match=r"as run 4 \(d\)"):
            log.check(run)
    log.check(runs[3])


def test_the_sinks_of_earlier_runs_are_remembered() -> None:
    log = RunLog(Store())
    log.begin("a", 0, ["old", "kept"])
    assert log.begin("b", 3, ["kept", "new"]).sinks == ("kept", "new", "old")
    assert log.begin("c", 4).sinks == ("kept", "new", "old")


def test_a_run_that_begins_later_than_it_thought_leaves_the_batches_before_to_the_run_before_it() -> None:
    log = RunLog(Store())
    log.begin("a", 0)
    late = log.begin("b", 8)
    assert late.earlier == (Segment("a", 0, 7),)
    late = log.correct(late, 9)
    log.check(late)
    assert late.earlier == (Segment("a", 0, 8),)
    assert log.begin("c", 12).earlier == (Segment("a", 0, 8), Segment("b", 9, 11))


def test_a_checkpoint_without_runs_or_with_half_a_file_goes_on() -> None:
    log = RunLog(store := Store())
    assert log.begin("a", 5).earlier == (Segment("", 0, 4),)
    store.files["2.7.died"] = '{"earl'
    store.files["notes.txt"] = "not one of these files"
    run = log.begin("b", 7)
    assert (run.number, run.earlier) == (3, (Segment("", 0, 4), Segment("a", 5, 6)))


def test_what_is_kept_of_runs_is_bounded() -> None:
    log = RunLog(store := Store())
    for n in range(MOST_SEGMENTS + 20):
        run = log.begin(f"r{n}", n)
    assert len(run.earlier) == MOST_SEGMENTS
    assert run.earlier[0] == Segment("", 0, run.earlier[1].first_batch - 1)
    assert run.earlier[-1] == Segment(f"r{n - 1}", n - 1, n - 1)
    assert len(json.loads(store.files[run.name])["earlier"]) == MOST_SEGMENTS


@dataclass
class Query:
    """A query that a run is reported of."""

    last: int | None = 7
    first_run: int | None = None
    failures: list[str] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    """What the commit log holds the next times it is read."""

    def read(self) -> int | None:
        if self.moves:
            self.last = self.moves.pop(0)
        return self.last

    @property
    def log(self) -> CommitLog:
        return CommitLog(last=self.read, first_run=lambda: self.first_run, fail=self.failures.append)


@pytest.fixture
def gateway() -> Iterator[FakeSinkGateway]:
    gateway = FakeSinkGateway().start()
    yield gateway
    gateway.stop()


def begun(gateway: FakeSinkGateway, query: Query, log: RunLog, run_id: str = "b") -> ReportedRun:
    options = parse_sink({"gateway": gateway.address, "sink": "alerts", "gatewayTimeout": "20s"}, Defaults())
    first = 0 if query.last is None else query.last + 1
    return ReportedRun("q", log.begin(run_id, first), options, query.log, log, committed=query.last)


def test_a_batch_that_the_run_before_commits_at_the_last_moment_is_not_taken_for_ones_own(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query(last=7)
    log.begin("a", 0)
    reported = begun(gateway, query, log)
    # Between the first look and the gateway's answer; and once more before Spark reads the log.
    query.moves = [7, 8]
    reported.announce()
    assert [(s.committed, s.first_batch) for s in gateway.settles] == [(7, 8), (8, 9)]
    query.last, query.first_run = 10, 10
    reported.note(10)
    assert reported.report() == 0
    told = gateway.settles[-1]
    assert (told.committed, told.first_batch) == (10, 10)
    assert [(s.run, s.first_batch, s.last_batch) for s in told.segments] == [("a", 0, 9)]
    assert log.begin("c", 11).earlier == (Segment("a", 0, 9), Segment("b", 10, 10))


def test_a_run_that_has_executed_nothing_claims_nothing_of_the_log(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query(last=7)
    log.begin("a", 0)
    reported = begun(gateway, query, log)
    reported.announce()
    query.last = 8
    reported.ends = time.monotonic()
    reported.read()
    reported.report()
    assert gateway.settles[-1].committed == 7


def test_batches_that_the_gateway_cannot_decide_are_explained(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query(last=19)
    for n in range(20):
        log.begin(f"r{n:02}", n)
    reported = begun(gateway, query, log, "z")
    gateway.undecided, gateway.pending = [[3, 7]], [2, 1, 0]
    reported.announce()
    for _ in range(3):
        reported.report()
    last = [(f"r{n}", n) for n in range(12, 20)]
    asked = [("r03", 3), ("r07", 7)]
    told = [[(s.run, s.first_batch) for s in settle.segments] for settle in gateway.settles]
    assert told == [last, asked + last, asked + last, last]


def test_a_run_that_was_replaced_ends_its_query_and_tells_nothing_more(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    reported = begun(gateway, query, log)
    reported.announce()
    log.begin("c", 8)
    told = len(gateway.settles)
    assert reported.report() == 0
    assert reported.replaced
    assert "another driver has started this query on the same checkpoint, as run 2 (c)" in query.failures[0]
    reported.report()
    assert len(gateway.settles) == told
    assert len(query.failures) == 1


def test_a_gateway_that_knows_a_newer_run_ends_the_query(gateway: FakeSinkGateway) -> None:
    query = Query()
    reported = begun(gateway, query, RunLog(Store()))
    gateway.settle_failures = [(grpc.StatusCode.ABORTED, "run 9 has taken over")] * 2
    with pytest.raises(TakenOver, match="run 9"):
        reported.announce()
    assert reported.report() == 0
    assert "run 9 has taken over" in query.failures[0]


class Ended:
    """The execution of a query that has ended; its checkpoint has an offset that a run of the planner has committed."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset

    def last_committed(self) -> int:
        return 7

    def offsets(self, batch: int) -> Iterator[Offset]:
        yield self._offset


def test_a_run_that_was_replaced_detaches_nothing(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    reported = begun(gateway, query, log)
    offset = Offset("p", {"orders/0": Position(0, 9)}, run_number=4, run_id="planner of c")
    execution, sources = cast(Execution, Ended(offset)), (parse({"gateway": gateway.address, "stream": "orders/*"}, Defaults()),)
    detach(execution, reported, sources)
    assert [told.pipeline.run_id for told in gateway.detached] == ["planner of c"]
    log.begin("c", 8)
    detach(execution, reported, sources)
    assert len(gateway.detached) == 1
    assert not query.failures, "its query has ended already"


def test_a_run_that_was_replaced_writes_no_votes(gateway: FakeSinkGateway) -> None:
    log, written = RunLog(Store()), list[str]()
    gateway.remembered = [pb.SinkVote(sink="alerts", instance="one", batch=7)]
    for replaced in (False, True):
        reported = begun(gateway, Query(), log)
        reported.votes = Votes(lambda: None, written.append)
        reported.announce()
        gateway.remembered = [pb.SinkVote(sink="alerts", instance="one", batch=8)]
        reported.report()
        if replaced:
            log.begin("c", 8)
        written.clear()
        CommitReporter(lambda: False).end(reported)
        assert bool(written) is not replaced
