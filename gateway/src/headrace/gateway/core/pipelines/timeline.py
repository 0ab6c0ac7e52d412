"""The last micro-batches of a pipeline, and when each reached its stages: what the gateway sees, and what the checkpoint adds.

Nothing here is needed to deliver or acknowledge messages. Each call costs as much as the streams that it names.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.contract import clock
from headrace.contract.limits import MAX_BATCHES
from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.pipelines.batch import Batch, BatchStream, Stage, largest

MAX_AWAITED = 20_000
"""How many ends of streams are kept to recognise acknowledgements, before ends of several micro-batches are joined."""
_RECENT = 3
"""How many of the last micro-batches keep where they end in each stream: their numbers may not be known yet."""


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A micro-batch in a checkpoint. Times are in seconds since 1970."""

    number: int
    streams: tuple[BatchStream, ...] = ()
    """Some or all of the streams that it reads."""
    streams_in_all: int = 0
    planned_at: float | None = None
    """When `offsets/N` was written."""
    committed_at: float | None = None
    """When `commits/N` was written; None if it is not there."""


@dataclass(slots=True, eq=False)
class _Record:
    """A micro-batch that may reach further stages."""

    batch: Batch
    ends: dict[str, Position]
    """Where it ends in each stream; forgotten once it is not recent."""
    unread: set[str] = field(default_factory=set)
    """The streams of which it has yet to be served something."""
    delivered: dict[str, float] = field(default_factory=dict)
    """The sinks for which rows have arrived, and when the last ones did."""
    staged_at: float | None = None
    voted: dict[str, float] = field(default_factory=dict)
    durable: set[str] = field(default_factory=set)
    """The sinks among `voted` that make it visible after the commit."""
    offset_s: float = field(default_factory=lambda: clock.now() - clock.monotonic())
    """The time of day minus the monotonic clock: a step of the clock during a micro-batch does not distort its durations."""

    def reach(self, stage: Stage, at: float | None = None) -> None:
        """Notes that it has reached a stage now, or at a time in seconds since 1970."""
        reached = self.now() if at is None else at
        self.batch = replace(self.batch, stages={**self.batch.stages, stage: reached})

    def has(self, stage: Stage) -> bool:
        return stage in self.batch.stages

    def now(self) -> float:
        return self.offset_s + clock.monotonic()

    def restart(self) -> None:
        """Forgets what a run has done with it, because the next run does it again."""
        kept: dict[Stage, float] = {stage: at for stage, at in self.batch.stages.items() if stage is Stage.PLANNED}
        self.batch = replace(self.batch, stages=kept)
        self.unread = set(self.ends)
        self.delivered, self.staged_at, self.voted, self.durable = {}, None, {}, set()


@dataclass(slots=True, eq=False)
class _Awaited:
    """Micro-batches that are acknowledged together, and what they wait for."""

    records: list[_Record]
    ends: dict[str, Position]


class Timeline:
    """The micro-batches of one pipeline."""

    def __init__(self) -> None:
        self.has_history = False
        """Whether a driver has reported what the checkpoint has of earlier micro-batches."""
        self.reporter: tuple[int, str] | None = None
        """The number and the id of the driver's run that reports."""
        self._records: deque[_Record] = deque()
        self._open: _Record | None = None
        """The micro-batch that was planned last, until its positions are committed."""
        self._awaited: deque[_Awaited] = deque()
        self._awaited_ends = 0

    def batches(self, limit: int = MAX_BATCHES) -> list[Batch]:
        """Returns the last micro-batches, the newest first."""
        return [record.batch for _, record in zip(range(limit), reversed(self._records), strict=False)]

    @property
    def current(self) -> Batch | None:
        """The micro-batch that is planned and not committed; None if there is none."""
        return None if self._open is None else self._open.batch

    @property
    def voted_s(self) -> float | None:
        """For how long the sinks have voted for a micro-batch that is not in the commit log, in seconds; None otherwise."""
        record = self._open
        if record is None or not record.has(Stage.VOTED) or record.has(Stage.COMMITTED):
            return None
        return record.now() - record.batch.stages[Stage.VOTED]

    def awaiting(self, stream: str, position: Position) -> Batch | None:
        """Returns the committed micro-batch whose acknowledgement includes a position; None if it is not known."""
        for group in self._awaited:
            if position <= group.ends.get(stream, BEGINNING):
                return group.records[0].batch if group.records else None
        return None

    # What the planner and the tasks do

    def plan(self, streams: Sequence[BatchStream]) -> None:
        """Notes that the next micro-batch is planned. One that was planned before and not committed was never in the log."""
        self._drop_open()
        self._add(streams, {read.stream for read in streams if read.messages}).reach(Stage.PLANNED)

    def attach(self, committed: Mapping[str, Position], planned: Mapping[str, Position]) -> None:
        """Notes that a run begins with a checkpoint, and which of its micro-batches it repeats."""
        record = self._open
        # A range that ends before the first message of its stream reads nothing.
        ends = {name: end for name, end in planned.items() if end > BEGINNING}
        if record is not None and record.ends == ends:
            record.restart()
            return
        if record is not None:
            self.commit(committed, record.ends)
        self._drop_open()
        if ends:
            streams = [BatchStream(name, committed.get(name, BEGINNING), end) for name, end in ends.items()]
            self._add(streams, set(ends), rebuilt=True)

    def adopt(self, stream: str, after: Position, end: Position) -> None:
        """Notes that a stream is fetched for a micro-batch that was planned before the gateway started."""
        record = self._open or self._add([], set(), rebuilt=True)
        if record.ends.get(stream, BEGINNING) < end:
            record.ends[stream] = end
            record.unread.add(stream)
            others = tuple(read for read in record.batch.streams if read.stream != stream)
            streams = largest([*others, BatchStream(stream, after, end)])
            record.batch = replace(record.batch, streams=streams, streams_in_all=len(record.ends), rebuilt=True)

    def served(self, stream: str) -> None:
        """Notes that a range up to a micro-batch's end in a stream was served."""
        if self._open is not None:
            self._open.unread.discard(stream)

    def fetched(self) -> None:
        """Notes that a fetch is complete."""
        if self._open is not None and not self._open.unread:
            self._open.reach(Stage.READ)

    def commit(self, committed: Mapping[str, Position], moved: Container[str]) -> None:
        """Notes the committed positions of the pipeline, and in which streams they have just moved."""
        record = self._open
        if record is None or any(committed.get(name, BEGINNING) < end for name, end in record.ends.items()):
            return
        awaited = {name: end for name, end in record.ends.items() if name in moved}
        if not awaited and record.batch.number is None:
            # It moves nothing, so nothing proves that it is in the log.
            return
        self._open = None
        self._reach_commit(record)
        if awaited:
            self._awaited.append(_Awaited([record], awaited))
            self._awaited_ends += len(awaited)
            while self._awaited_ends > MAX_AWAITED and len(self._awaited) > 1:
                self._join_oldest()

    # What the sinks do

    def delivered(self, number: int, sink: str) -> None:
        """Notes that all rows of a part have arrived."""
        if (record := self._numbered(number)) is not None:
            record.delivered[sink] = record.now()

    def staged(self, number: int) -> None:
        """Notes that a sink has staged a part."""
        if (record := self._numbered(number)) is not None:
            record.staged_at = record.now()

    def begin_vote(self, number: int) -> None:
        """Notes that a vote is requested: all tasks of the micro-batch are complete."""
        record = self._numbered(number)
        if record is not None and record.delivered:
            record.reach(Stage.PROCESSED, max(record.delivered.values()))
            if record.staged_at is not None:
                record.reach(Stage.STAGED, record.staged_at)

    def vote(self, number: int, sink: str, *, durable: bool) -> None:
        """Notes that a sink has voted for a micro-batch."""
        record = self._numbered(number)
        if record is None:
            return
        record.voted[sink] = record.now()
        if durable:
            record.durable.add(sink)
        if record.delivered.keys() <= record.voted.keys():
            record.reach(Stage.VOTED, record.voted[sink])

    def commit_number(self, number: int) -> None:
        """Notes that all micro-batches up to a number are in the commit log."""
        for record in self._records:
            if record.batch.number is not None and record.batch.number <= number and not record.has(Stage.COMMITTED):
                self._reach_commit(record)

    def visible(self, number: int, is_visible: Callable[[str], bool]) -> None:
        """Notes that an instance of a sink has committed a micro-batch; `is_visible` says whether all of a sink's have."""
        record = self._record_of(number)
        if record is not None and record.durable and all(map(is_visible, record.durable)):
            record.reach(Stage.SINK_COMMITTED)

    # Acknowledgements to sources

    def acknowledge(self, stream: str, position: Position) -> None:
        """Notes up to where a source knows that a stream is committed."""
        joined = False
        for group in self._awaited:
            end = group.ends.get(stream)
            if end is None:
                continue
            if end > position:
                break
            del group.ends[stream]
            self._awaited_ends -= 1
            if position.epoch > end.epoch:
                for record in group.records:
                    record.batch = replace(record.batch, redelivered=True)
            if not group.ends:
                joined = True
                for record in group.records:
                    if not record.batch.redelivered:
                        record.reach(Stage.ACKNOWLEDGED)
        if joined:
            self._awaited = deque(group for group in self._awaited if group.ends)

    def forget(self, stream: str) -> None:
        """Forgets a stream that the checkpoint no longer contains: nothing of it awaits an acknowledgement."""
        for group in self._awaited:
            if group.ends.pop(stream, None) is not None:
                self._awaited_ends -= 1
        self._awaited = deque(group for group in self._awaited if group.ends)

    # What the driver reads in the checkpoint

    def report(self, logged: Iterable[LoggedBatch], *, history: bool) -> None:
        """Adds what a checkpoint says about micro-batches, in ascending order."""
        self.has_history = self.has_history or history
        for entry in logged:
            record = self._planned_as(entry) or self._record_of(entry.number) or self._restore(entry)
            if record is None:
                continue
            if entry.planned_at is not None and not record.has(Stage.PLANNED):
                record.batch = replace(record.batch, rebuilt=True)
                record.reach(Stage.PLANNED, entry.planned_at)
            if entry.committed_at is not None and not record.has(Stage.COMMITTED):
                self._reach_commit(record, entry.committed_at if record.batch.rebuilt else None)

    def _planned_as(self, entry: LoggedBatch) -> _Record | None:
        """Finds the micro-batch that was planned here and is logged under this number."""
        for record in list(self._records)[-_RECENT:]:
            same = len(record.ends) == entry.streams_in_all > 0
            if record.batch.number is None and same and all(record.ends.get(r.stream) == r.end for r in entry.streams):
                self._set_number(record, entry.number)
                return record
        return None

    def _restore(self, entry: LoggedBatch) -> _Record | None:
        """Adds a micro-batch that only the checkpoint knows; None if there is no room before the others."""
        batch = Batch(entry.number, True, {}, largest(entry.streams), entry.streams_in_all)
        record = _Record(batch, {}, set())
        later = sum(r.batch.number is None or r.batch.number > entry.number for r in self._records)
        if later >= MAX_BATCHES:
            return None
        self._records.insert(len(self._records) - later, record)
        self._trim()
        return record

    # Records

    def _add(self, streams: Sequence[BatchStream], unread: set[str], *, rebuilt: bool = False) -> _Record:
        batch = Batch(None, rebuilt, {}, largest(streams), len(streams))
        record = self._open = _Record(batch, {read.stream: read.end for read in streams}, unread)
        self._records.append(record)
        self._trim()
        if len(self._records) > _RECENT:
            self._records[-1 - _RECENT].ends = {}
        return record

    def _trim(self) -> None:
        while len(self._records) > MAX_BATCHES:
            oldest = self._records.popleft()
            group = self._awaited[0] if self._awaited else None
            if group is not None and oldest in group.records:
                group.records.remove(oldest)

    def _drop_open(self) -> None:
        if self._open is not None:
            self._records.remove(self._open)
            self._open = None

    def _join_oldest(self) -> None:
        """Lets the oldest micro-batches wait for those after them, so that each stream is kept once."""
        oldest, group = self._awaited.popleft(), self._awaited[0]
        self._awaited_ends -= len(oldest.ends.keys() & group.ends.keys())
        group.records = [*oldest.records, *group.records]
        group.ends = {**oldest.ends, **group.ends}

    def _record_of(self, number: int) -> _Record | None:
        return next((record for record in reversed(self._records) if record.batch.number == number), None)

    def _numbered(self, number: int) -> _Record | None:
        """Returns the micro-batch of a number; the planned one, if its number is not known yet, must be it."""
        record = self._record_of(number)
        if self._open is not None and self._open.batch.number is None and (record is None or record.has(Stage.COMMITTED)):
            # A committed one of that number belongs to a checkpoint that was set back since.
            self._set_number(self._open, number)
            return self._open
        return record

    def _set_number(self, record: _Record, number: int) -> None:
        """Sets the number of a micro-batch. Others from there on belong to a checkpoint that was set back since."""
        record.batch = replace(record.batch, number=number)
        kept = (r for r in self._records if r is record or r.batch.number is None or r.batch.number < number)
        self._records = deque(kept)

    def _reach_commit(self, record: _Record, at: float | None = None) -> None:
        if record.has(Stage.COMMITTED):
            return
        if record.voted and not record.has(Stage.VOTED):
            # Attempts that did not count have delivered to a sink that was not asked for its vote.
            record.reach(Stage.VOTED, max(record.voted.values()))
        record.reach(Stage.COMMITTED, at)
