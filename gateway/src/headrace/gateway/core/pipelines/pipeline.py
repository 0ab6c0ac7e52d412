"""The gateway's state of a pipeline: its positions in every stream that it reads, and which streams have new messages.

In the protocol and here, a pipeline is one Spark query with its checkpoint. It may run an application
(`headrace.pipelines.Pipeline`), or be any other query that reads or writes streams.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.contract.names import covers, source_of
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import UnknownPipeline
from headrace.gateway.core.base.last_error import LastError
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.base.times import Longest
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.pipelines.bootstrap import Bootstrap
from headrace.gateway.core.pipelines.drivers import Driver
from headrace.gateway.core.pipelines.run_faults import Fault
from headrace.gateway.core.pipelines.timeline import Timeline
from headrace.gateway.identity import Identity
from headrace.protocol.v1.metrics_pb2 import RunMetrics

MAX_REPLACED = 64
"""How many replaced runs are remembered for each pipeline."""
MAX_LEFT_OUT = 1_000
"""How many streams dropped from its checkpoint are remembered for each pipeline."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a pipeline."""

    number: int = 0
    """Its ordinal among the runs of its checkpoint that planned a batch."""
    id: str = ""
    """Distinguishes runs with the same number."""
    checkpoint: str = ""
    """The checkpoint's id: numbers of different checkpoints cannot be compared."""

    def __str__(self) -> str:
        return f"run {self.number}" + (f" ({self.id})" if self.id else "")


@dataclass(slots=True, eq=False)
class Follower:
    """A call of a run that follows streams."""

    streams: frozenset[str]
    fresh: dict[str, None]
    """Those with messages that it may not have been sent yet."""
    news: Signal = field(default_factory=Signal)

    def take_news(self) -> list[str]:
        """Returns the streams that may have news, and forgets them."""
        found = list(self.fresh)
        self.fresh.clear()
        return found

    def notice(self, stream: str) -> None:
        """Notes that a stream has new messages."""
        self.fresh[stream] = None
        self.news.notify()


@dataclass(slots=True, eq=False)
class Pipeline:
    """One Spark query with its checkpoint. The checkpoint is authoritative; this is the gateway's copy."""

    name: str
    declared: tuple[str, ...] = ()
    """Patterns of the streams that the configuration says it reads, attached or not."""
    run: Run = field(default_factory=Run)
    """The current run."""
    attachment: int = 0
    """How many times the current run has attached, to any gateway, as far as its calls have told."""
    attached_with: int = 0
    """The number of the last of them that has arrived here."""
    was_elsewhere: bool = False
    """Whether the current run has been at another gateway since it told its positions here, and has not attached again."""
    replaced: deque[Run] = field(default_factory=lambda: deque(maxlen=MAX_REPLACED))
    """Earlier runs, ending with the latest."""
    attached: bool = False
    """Whether its query is running: it attached, did not detach, and has called within its lease."""
    driver_id: str = ""
    """The id of the driver of the current run, as its calls have told; empty if it sends no heartbeats."""
    driver: Driver | None = None
    """What is heard of that driver since the run has named it; None if it sends no heartbeats."""
    planner: Driver | None = None
    """What is heard of the process that plans its micro-batches since it has first renewed its lease; None if it has not."""
    caller: Identity | None = None
    """Whose token the process has that plans its micro-batches; None if it has never attached here."""
    away_since: float | None = None
    """When its lease expired, on the monotonic clock; None if it has not, or if the query detached."""
    complete: bool = False
    """Whether every position of its checkpoint is known; streams without one are then new to it."""
    patterns: tuple[str, ...] = ()
    skip_lost: bool = False
    available_now: bool = False
    committed: dict[str, Position] = field(default_factory=dict)
    planned: dict[str, Position] = field(default_factory=dict)
    """Where the planned, uncommitted batch ends in each stream."""
    planned_batches: int = 0
    """How many batches were planned for it."""
    plan_number: int = 0
    """The highest number of a plan that its run has asked for here; 0 if the run does not count them."""
    planned_at: float = 0.0
    """When that batch was planned, or first named by its query, on the monotonic clock."""
    begins: dict[str, Position] = field(default_factory=dict)
    """Where streams begin for it, until it has committed a position in them; the connector's first answer counts."""
    undecided: set[str] = field(default_factory=set)
    """Streams whose start is not yet known."""
    sources: set[str] = field(default_factory=set)
    """Sources in which it has committed a position: their new streams begin with their first message."""
    fetched: set[str] = field(default_factory=set)
    """Streams of the planned batch that were served up to its end."""
    reading: Counter[str] = field(default_factory=Counter)
    """The number of ranges of each stream that are being served or wait to be."""
    calls: int = 0
    """The number of its calls in progress."""
    had_batch: bool = False
    """Whether a batch was ever planned: its checkpoint may name messages that it has not committed."""
    committed_at: float | None = None
    """When it last committed messages, on the monotonic clock; None if it has not since the gateway started."""
    fault: Fault | None = None
    """Why its run makes no progress, as its driver has reported it."""
    error: LastError | None = None
    """The last reason of that kind, also one that is over."""
    metrics: RunMetrics | None = None
    """What its run has done since it started, as it says."""
    behind_since: dict[str, float] = field(default_factory=dict)
    """The time, on the monotonic clock, since which it is behind in a stream, or when its position there last advanced."""
    bootstraps: tuple[Bootstrap, ...] = ()
    """The tables that it reads to their present end before the streams that meet them, as its last plan says."""
    targets: dict[str, Position] = field(default_factory=dict)
    """The present end of streams, for a run with Trigger.AvailableNow of all of them, else of the streams of such tables."""
    met: set[str] = field(default_factory=set)
    """For such a run: the patterns for which it has read an attached stream."""
    exhausted_at: float | None = None
    """When such a run was first found to have read everything, on the monotonic clock."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Streams with received messages that it has not committed."""
    moved_cursors: dict[str, None] = field(default_factory=dict)
    """Streams whose cursor has moved without a message since it was planned."""
    cursors_planned_at: float = float("-inf")
    """When a batch was last planned that has such a cursor, on the monotonic clock."""
    ended: set[str] = field(default_factory=set)
    """Streams whose end is in its checkpoint."""
    ended_unread: dict[str, None] = field(default_factory=dict)
    """The streams that have most recently ended without a message: its query may wait for them."""
    left_out: dict[str, None] = field(default_factory=dict)
    """The streams most recently dropped from its checkpoint: late reports of their old positions are ignored."""
    over: set[str] = field(default_factory=set)
    """Those of its patterns for which a stream has ended that is forgotten, or that had no message."""
    follower: Follower | None = None
    """The call that follows its streams, in real-time mode."""
    news: Signal = field(default_factory=Signal)
    timeline: Timeline = field(default_factory=Timeline)
    commit_latency: Longest = field(default_factory=Longest)
    """How long messages waited here until they were committed, at most, since the history last looked."""
    attached_at: float = 0.0
    called_at: float = field(default_factory=clock.monotonic)

    def admits(self, run: Run) -> bool:
        """Returns whether a run is the current one, or may replace it."""
        if run == self.run:
            return True
        return run not in self.replaced and (run.checkpoint != self.run.checkpoint or run.number >= self.run.number)

    def replace_run(self, run: Run) -> None:
        """Makes a run the current one; calls of the previous run are rejected from now on."""
        if self.run.number:
            self.replaced.append(self.run)
        if self.run.checkpoint != run.checkpoint:
            self.timeline = Timeline()
        self.run, self.attachment, self.away_since, self.driver, self.planner = run, 0, None, None, None
        self.attached_with, self.plan_number, self.bootstraps = 0, 0, ()

    def expect(self, driver: str) -> None:
        """Expects heartbeats of a driver, from now on if it is another one than before; of none if the id is empty."""
        if driver != self.driver_id or (driver and self.driver is None):
            self.driver_id, self.driver = driver, Driver() if driver else None

    def renewed(self, peer: str, lease_s: float) -> None:
        """Notes that the process that plans its micro-batches has renewed its lease, which it does several times in a lease."""
        if self.planner is None:
            self.planner = Driver(lease_s)
        self.planner.heard(peer)

    def forget_positions(self) -> None:
        """Forgets the positions of the run, which has been at another gateway since it told them here."""
        self.attached, self.complete, self.away_since, self.was_elsewhere = False, False, None, True
        self.committed.clear()
        self.plan({})

    @property
    def is_detached(self) -> bool:
        """Whether the current run was attached here and was detached; False for one that is known from its fetches only."""
        return self.complete and not self.attached and self.away_since is None

    def check_not_detached(self) -> None:
        """Checks that the current run was not detached.

        Raises:
            UnknownPipeline: it was; it must attach again.
        """
        if self.is_detached:
            raise UnknownPipeline(f"pipeline {self.name}: {self.run} is not attached to this gateway; attach it")

    def knows(self, stream: str) -> bool:
        """Returns whether it is known which part of the stream it needs."""
        return (self.complete or stream in self.committed) and stream not in self.undecided

    def position(self, stream: str) -> Position:
        """Returns its committed position in a stream; the beginning if it has none."""
        return self.committed.get(stream, BEGINNING)

    def asks_for(self, stream: str) -> bool:
        """Returns whether its query asked for the stream."""
        return any(covers(text, stream) for text in self.patterns)

    def reads_after(self, stream: str) -> Position:
        """Returns the position after which it needs a stream: the committed one, or where the stream begins for it."""
        return max(self.position(stream), self.begins.get(stream, BEGINNING))

    def take_checkpoint(self, committed: dict[str, Position], planned: dict[str, Position]) -> None:
        """Replaces its positions by the positions in its checkpoint. Keeps the known starts of streams without a position.

        A stream whose position in the checkpoint is the beginning begins with its first message.
        """
        self.committed, self.targets, self.met, self.was_elsewhere = dict(committed), {}, set(), False
        self.plan(dict(planned))
        self.sources = {source_of(stream) for stream, position in committed.items() if position > BEGINNING}
        self.begins = {stream: start for stream, start in self.begins.items() if self.position(stream) == BEGINNING}
        # An operator has moved these there: the connector is not asked where they begin.
        self.begins |= {stream: BEGINNING for stream, position in committed.items() if position == BEGINNING}
        self.undecided.clear()
        self.left_out.clear()

    def reads(self, stream: str) -> bool:
        """Returns whether its query asked for the stream, or the configuration declares it as a reader."""
        return any(covers(text, stream) for text in (*self.patterns, *self.declared))

    def commit(self, positions: dict[str, Position]) -> list[str]:
        """Records committed positions; returns the streams whose position advanced, or is delivered for certain now."""
        moved = [
            stream
            for stream, position in positions.items()
            if position.is_past(known := self.position(stream)) or (position == known and position.begin != known.begin)
        ]
        if any(positions[stream] > self.position(stream) for stream in moved):
            self.committed_at = clock.monotonic()
        for stream in moved:
            self.committed[stream] = positions[stream]
            self.sources.add(source_of(stream))
            self.begins.pop(stream, None)
        for stream in positions:
            planned = self.planned.get(stream)
            if planned is not None and not planned.is_past(self.position(stream)):
                del self.planned[stream]
        return moved

    def not_outdated(self, positions: dict[str, Position]) -> dict[str, Position]:
        """Returns the positions except in streams that the checkpoint has since dropped."""
        if self.left_out:
            positions = {name: at for name, at in positions.items() if name not in self.left_out or name in self.planned}
            for name in positions:
                self.left_out.pop(name, None)
        return positions

    def note_ended(self, positions: dict[str, Position], ended: Iterable[str]) -> None:
        """Records which of the streams have ended according to its checkpoint."""
        self.ended -= positions.keys()
        self.ended |= positions.keys() & set(ended)

    def note_ended_unread(self, stream: str) -> None:
        """Records that a stream without messages has ended."""
        self._note_over(stream)
        self.ended_unread[stream] = None
        if len(self.ended_unread) > MAX_LEFT_OUT:
            del self.ended_unread[next(iter(self.ended_unread))]

    def leave_out(self, stream: str) -> None:
        """Drops the state of a stream that its checkpoint no longer contains."""
        if self.committed.pop(stream, None) is not None:
            self.left_out[stream] = None
            if len(self.left_out) > MAX_LEFT_OUT:
                del self.left_out[next(iter(self.left_out))]
        self._note_over(stream)
        self.timeline.forget(stream)
        for known in (self.planned, self.begins, self.behind_since, self.targets, self.fresh, self.moved_cursors):
            known.pop(stream, None)
        for names in (self.ended, self.undecided, self.fetched):
            names.discard(stream)

    def _note_over(self, stream: str) -> None:
        self.over = {pattern for pattern in self.patterns if pattern in self.over or covers(pattern, stream)}

    def in_flight(self, stream: str) -> bool:
        """Returns whether its running batch has messages of the stream that were not yet served."""
        if not self.attached or stream not in self.planned or not self.knows(stream):
            return False
        if self.planned[stream] <= self.reads_after(stream):
            return False
        return stream not in self.fetched or self.reading[stream] > 0

    def plan(self, ends: dict[str, Position]) -> None:
        """Records where the next batch ends in each stream that it reads."""
        self.planned, self.planned_at = ends, clock.monotonic()
        self.fetched.clear()
        self.had_batch = self.had_batch or bool(ends)

    def notice(self, stream: str) -> None:
        """Notes that the stream has new messages, or has ended."""
        self.fresh[stream] = None
        self.news.notify()
        if self.follower is not None and stream in self.follower.streams:
            self.follower.notice(stream)
