"""The runs of a checkpoint, without Spark: which is the present one, whatever two drivers do, and what each has committed."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.engine import Replaced, TakenOver
from headrace.engine.checkpoint.position import Offset, Position
from headrace.engine.checkpoint.runs import MAX_SEGMENTS, Run, RunLog, Segment
from headrace.engine.checkpoint.votes import Votes
from headrace.engine.sink.options import parse_sink
from headrace.engine.source.options import parse
from headrace.engine.spark.detach import detach
from headrace.engine.spark.execution import Execution
from headrace.engine.spark.reporter import CommitReporter
from headrace.engine.spark.reporting import CommitLog, ReportedRun
from headrace.engine.wire.gateway_options import Defaults
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.metrics_pb2 import RunFault

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
            self.run = RunLog(self._store).begin(self.name, 7, nobody)
        except Replaced:
            # It does nothing more.
            for _ in range(STEPS):
                self._store.done.release()

    def step(self) -> None:
        self._store.allowed.release()
        self._store.done.acquire()

    @property
    def is_present(self) -> bool:
        """The result of another look, as before each report."""
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
        RunLog(shared).begin("before", None, nobody)
        drivers = [Driver(name, shared) for name in "ab"]
        for n in range(2 * STEPS):
            drivers[n in places].step()
        (present,) = [driver for driver in drivers if driver.is_present]
        winners.add(present.name)
    assert winners == {"a", "b"}


def nobody(batch: int) -> None:
    """The entries of a commit log that names no runs."""
    return


def test_numbers_rise_and_what_each_run_has_committed_is_kept() -> None:
    log = RunLog(store := Store())
    entries = ["a", "a", "a", "c", "c", "c", "c"]
    a = log.confirm(log.begin("a", None, entries.__getitem__), 0, ())
    b = log.begin("b", 2, entries.__getitem__)
    c = log.begin("c", 2, entries.__getitem__)
    assert [run.number for run in (a, b, c)] == [1, 2, 3]
    assert b.earlier == c.earlier == (Segment("a", 0, 2),), "b has committed nothing"
    c = log.confirm(c, 3, c.earlier)
    d = log.begin("d", 6, nobody)
    assert d.earlier == (Segment("a", 0, 2), Segment("c", 3, 6)), "though the entries are gone"
    assert log.segments(4, nobody) == (Segment("a", 0, 2), Segment("c", 3, 4)), "as far as the commit log of the time went"
    assert {name.partition(".")[0] for name in store.files} == {"2", "3", "4"}
    for run in (a, b, c):
        with pytest.raises(Replaced, match=r"as run 4 \(d\)"):
            log.check(run)
    log.check(d)


def test_a_batch_belongs_to_the_run_that_wrote_its_entry_whoever_has_begun_meanwhile() -> None:
    log, entries = RunLog(Store()), ["a", "a"]
    a = log.confirm(log.begin("a", None, entries.__getitem__), 0, ())
    log.begin("b", 1, entries.__getitem__)
    # The run before it had its votes, and writes its entry now. The new one dies before it has read that.
    entries.append("a")
    assert log.begin("c", 2, entries.__getitem__).earlier == (Segment("a", 0, 2),)
    # The same with a run that has committed, and died before it could record so.
    entries += ["c", "d"]
    assert log.begin("e", 4, entries.__getitem__).earlier == (Segment("a", 0, 2), Segment("c", 3, 3), Segment("d", 4, 4))
    assert log.segments(9, nobody) == (Segment("a", 0, 2), Segment("c", 3, 3), Segment("d", 4, 4), Segment("", 5, 9))
    with pytest.raises(Replaced):
        log.check(a)


@given(st.lists(st.sampled_from(["start", "commit", "record", "forget"]), max_size=40), st.data())
def test_no_batch_is_ever_claimed_for_a_run_that_has_not_committed_it(steps: list[str], data: st.DataObject) -> None:
    """Any run that is alive may commit the next batch, until another has done so; what it records comes late or never."""
    log, entries, kept = RunLog(Store()), list[str](), 0
    runs = list[Run]()
    alive = list[Run]()

    def owner(batch: int) -> str | None:
        return entries[batch] if batch >= kept else None

    for n, step in enumerate(steps):
        if step == "start":
            runs.append(log.begin(f"r{n:02}", len(entries) - 1 if entries else None, owner))
            alive.append(runs[-1])
        elif step == "commit" and alive:
            run = data.draw(st.sampled_from(alive))
            entries.append(run.id)
            alive = [run, *(later for later in alive if later.number > run.number)]
        elif step == "record" and alive and alive[0].first_batch is None and alive[0].id in entries:
            first = entries.index(alive[0].id)
            if first >= kept:
                earlier = tuple(s for s in alive[0].segments(len(entries) - 1, owner) if s.last_batch < first)
                alive[0] = log.confirm(alive[0], first, earlier)
        elif step == "forget" and alive and (alive[0].first_batch is not None or not entries):
            # Spark keeps a hundred entries: a run has long recorded its first one when the ones before it go.
            kept = max(kept, min(len(entries), data.draw(st.integers(0, len(entries)))))
        claimed = {b: s.run for s in log.segments(len(entries) - 1, owner) for b in range(s.first_batch, s.last_batch + 1)}
        assert all(claimed[batch] in (owner, "") for batch, owner in enumerate(entries)), (claimed, entries)


def test_the_sinks_of_earlier_runs_are_remembered() -> None:
    log = RunLog(Store())
    log.begin("a", None, nobody, ["old", "kept"])
    assert log.begin("b", 2, nobody, ["kept", "new"]).sinks == ("kept", "new", "old")
    assert log.begin("c", 3, nobody).sinks == ("kept", "new", "old")


def test_a_checkpoint_without_runs_or_with_half_a_file_continues() -> None:
    log = RunLog(store := Store())
    assert log.begin("a", 4, nobody).earlier == (Segment("", 0, 4),)
    store.files["2.5.other"] = json.dumps({"earlier": [asdict(Segment("", 0, 4))], "sinks": []})
    store.files["3.died"] = '{"earl'
    store.files["notes.txt"] = "not one of these files"
    run = log.begin("b", 6, nobody)
    assert (run.number, run.earlier) == (4, (Segment("", 0, 4), Segment("other", 5, 6)))


def test_what_is_kept_of_runs_is_bounded() -> None:
    log, entries = RunLog(store := Store()), [f"r{n}" for n in range(MAX_SEGMENTS + 20)]
    for n, name in enumerate(entries):
        run = log.begin(name, n - 1 if n else None, entries.__getitem__)
    assert len(run.earlier) == MAX_SEGMENTS
    assert run.earlier[0] == Segment("", 0, run.earlier[1].first_batch - 1)
    assert run.earlier[-1] == Segment(f"r{n - 1}", n - 1, n - 1)
    assert len(json.loads(store.files[run.name])["earlier"]) == MAX_SEGMENTS


@dataclass
class Query:
    """A query that a run is reported of."""

    entries: list[str] = field(default_factory=lambda: ["a"] * 8)
    """The runs that its commit log names, by batch; empty for none."""
    failures: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """The run that commits one more batch, each time that the log is read."""

    def last(self) -> int | None:
        if self.late:
            self.entries.append(self.late.pop(0))
        return len(self.entries) - 1 if self.entries else None

    def owner(self, batch: int) -> str | None:
        return self.entries[batch] or None

    @property
    def log(self) -> CommitLog:
        return CommitLog(last=self.last, owner=self.owner, fail=self.failures.append, is_stopped=lambda: False)


@pytest.fixture
def gateway() -> Iterator[FakeSinkGateway]:
    gateway = FakeSinkGateway().start()
    yield gateway
    gateway.stop()


def begun(gateway: FakeSinkGateway, query: Query, log: RunLog, run_id: str = "b") -> ReportedRun:
    options = parse_sink({"gateway": gateway.address, "sink": "alerts", "gatewayTimeout": "20s"}, Defaults())
    last = len(query.entries) - 1 if query.entries else None
    return ReportedRun("q", log.begin(run_id, last, query.owner), options, query.log, log, committed=last)


def told(report: pb.ReportCommitsRequest) -> tuple[int, int, list[tuple[str, int, int]]]:
    """What a run says of the commit log: its last batch, from where on the rest would be its own, and who has committed what."""
    return report.committed, report.first_batch, [(s.run, s.first_batch, s.last_batch) for s in report.segments]


def test_a_batch_that_the_run_before_commits_at_the_last_moment_is_not_taken_for_ones_own(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    log.begin("a", None, query.owner)
    # Between the start and the gateway's answer; once more before Spark reads the log; and while this run executes its first.
    reported = begun(gateway, query, log)
    query.late = ["a", "a"]
    reported.announce()
    assert [told(report) for report in gateway.commit_reports] == [(8, 9, [("a", 0, 8)]), (9, 10, [("a", 0, 9)])]
    query.entries += ["a", "b"]
    reported.note(11)
    assert reported.report() == 0
    assert told(gateway.commit_reports[-1]) == (11, 11, [("a", 0, 10), ("b", 11, 11)])
    assert log.begin("c", 11, nobody).earlier == (Segment("a", 0, 10), Segment("b", 11, 11)), "though the entries are gone"


@pytest.mark.parametrize(
    ("has_sinks", "is_over", "level", "then"),
    [
        (True, False, "WARNING", "sinks show what they have staged once it can"),
        (False, False, "WARNING", "sinks show what they have staged once it can"),
        (True, True, "WARNING", "sinks show what they have staged at its next start"),
        (False, True, "INFO", "nothing waits for them"),
    ],
)
def test_a_report_that_fails_says_once_what_follows_and_warns_only_of_what_waits(
    gateway: FakeSinkGateway, caplog: pytest.LogCaptureFixture, has_sinks: bool, is_over: bool, level: str, then: str
) -> None:
    reported = begun(gateway, Query(), RunLog(Store()))
    assert reported.options is not None
    reported.options = reported.options if has_sinks else replace(reported.options, sink="")
    reported.readers = {"p"}
    reported.ends = time.monotonic() if is_over else None
    gateway.commit_report_failures = [(grpc.StatusCode.UNAVAILABLE, "gone")] * 2
    with caplog.at_level("INFO", "headrace.engine"):
        assert (reported.report(), reported.report()) == (None, None)
    found = [record for record in caplog.records if "cannot report the commits" in record.message]
    assert [(record.levelname, then in record.message) for record in found] == [(level, True)]


def test_an_application_that_writes_to_lakes_only_reports_once_the_names_of_its_sources_are_known(
    gateway: FakeSinkGateway,
) -> None:
    log, query = RunLog(Store()), Query()
    reported = begun(gateway, query, log)
    assert reported.options is not None
    reported = replace(reported, options=replace(reported.options, sink=""), runs=log)
    reported.find_readers = set
    reported.announce()
    assert reported.report() == 0
    assert gateway.commit_reports == []
    reported.find_readers = lambda: {"p"}
    reported.look_for_readers()
    query.entries += ["b"] * (8 - len(query.entries))
    assert reported.report() == 0
    (report,) = gateway.commit_reports
    assert (list(report.readers), list(report.sinks), list(report.awaited)) == (["p"], [], [])


def test_an_application_that_writes_to_lakes_from_now_on_reports_what_its_former_sinks_commit(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    log.begin("a", None, query.owner, ["alerts"])
    reported = begun(gateway, query, log)
    assert reported.options is not None
    reported = replace(reported, options=replace(reported.options, sink=""), runs=log)
    reported.announce()
    assert [list(report.former_sinks) for report in gateway.commit_reports] == [["alerts"]] * len(gateway.commit_reports)
    assert gateway.commit_reports


def test_a_run_claims_only_what_it_has_committed_itself(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    reported = begun(gateway, query, log)
    reported.announce()
    query.entries += ["a", "c"]
    reported.ends = time.monotonic()
    reported.read()
    reported.report()
    assert told(gateway.commit_reports[-1]) == (9, 10, [("a", 0, 8), ("c", 9, 9)])
    query.entries.append("")
    reported.read()
    reported.report()
    assert told(gateway.commit_reports[-1])[0] == 9, "nobody knows who committed the next one, and so nothing is decided"


def test_where_entries_name_no_run_a_run_claims_what_it_has_noted(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query([])
    reported = begun(gateway, query, log)
    reported.announce()
    query.entries += ["", "", ""]
    for batch in (1, 2):
        reported.note(batch)
        reported.report()
    assert told(gateway.commit_reports[-1]) == (2, 1, [("", 0, 0), ("b", 1, 2)])


def test_batches_that_the_gateway_cannot_decide_are_explained(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query([f"r{n:02}" for n in range(20)])
    reported = begun(gateway, query, log, "z")
    gateway.undecided, gateway.pending = [[3, 7]], [2, 1, 0]
    reported.announce()
    for _ in range(3):
        reported.report()
    last = [(f"r{n}", n) for n in range(12, 20)]
    asked = [("r03", 3), ("r07", 7)]
    segments = [[(s.run, s.first_batch) for s in report.segments] for report in gateway.commit_reports]
    assert segments == [last, asked + last, asked + last, last]


def test_a_run_that_was_replaced_ends_its_query_and_tells_nothing_else(gateway: FakeSinkGateway) -> None:
    log, query = RunLog(Store()), Query()
    reported = begun(gateway, query, log)
    reported.announce()
    log.begin("c", 7, query.owner)
    before = len(gateway.commit_reports)
    assert reported.report() == 0
    assert reported.replaced
    assert "another driver has started this query on the same checkpoint, as run 2 (c)" in query.failures[0]
    reported.report()
    (last,) = gateway.commit_reports[before:]
    assert (last.replaced, last.run, last.run_number) == (True, "b", 1)
    assert not last.HasField("committed")
    assert not last.segments
    assert not last.votes
    assert len(query.failures) == 1


def test_a_gateway_that_knows_a_newer_run_ends_the_query(gateway: FakeSinkGateway) -> None:
    query = Query()
    reported = begun(gateway, query, RunLog(Store()))
    gateway.commit_report_failures = [(grpc.StatusCode.ABORTED, "run 9 has taken over")] * 2
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
    log.begin("c", 7, nobody)
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
            log.begin("c", 7, nobody)
        written.clear()
        CommitReporter(lambda: False).end(reported)
        assert bool(written) is not replaced


def test_a_process_that_ends_before_its_listeners_know_reports_why_the_query_has_failed(gateway: FakeSinkGateway) -> None:
    reported, reporter = begun(gateway, Query(), RunLog(Store())), CommitReporter(lambda: False)
    failures: list[RunFault] = []
    reported.find_failure = lambda: failures[-1] if failures else None
    reporter.start(reported)
    failures.append(RunFault(message="ValueError: there is no price", batch=3))
    reporter.finish()
    assert gateway.commit_reports[-1].fault == failures[0]
