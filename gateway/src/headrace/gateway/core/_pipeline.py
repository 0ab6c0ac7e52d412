"""A pipeline as the gateway knows it: its positions in every stream it reads, and what is new for it."""

import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.gateway._patterns import covers
from headrace.gateway.core._position import BEGINNING, Position, source_of
from headrace.gateway.core._signal import Signal

MOST_REPLACED = 64
"""So many runs that were replaced are remembered for each pipeline."""
MOST_LEFT_OUT = 1_000
"""So many streams that its checkpoint has let go of are remembered for each pipeline."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a pipeline."""

    number: int = 0
    """Its place among the runs of its checkpoint, as far as those planned anything."""
    id: str = ""
    """What tells it from others of the same number."""
    checkpoint: str = ""
    """The checkpoint's id: numbers of different ones do not compare."""

    def __str__(self) -> str:
        return f"run {self.number}" + (f" ({self.id})" if self.id else "")


@dataclass(slots=True, eq=False)
class Pipeline:
    """One Spark query with its checkpoint. The checkpoint is the record; this is what it has told the gateway."""

    name: str
    declared: tuple[str, ...] = ()
    """Patterns of the streams that the configuration says it reads, attached or not."""
    run: Run = field(default_factory=Run)
    """The present one."""
    replaced: deque[Run] = field(default_factory=lambda: deque(maxlen=MOST_REPLACED))
    """The runs that were present before; the latest last."""
    attached: bool = False
    """Whether a query runs it: it attached, did not leave, and has called within its lease."""
    away_since: float | None = None
    """When its lease ended, on the monotonic clock; None where it stands, or the query left in good order."""
    complete: bool = False
    """True once every position of its checkpoint is known; streams without one are then new to it."""
    patterns: tuple[str, ...] = ()
    skip_lost: bool = False
    available_now: bool = False
    committed: dict[str, Position] = field(default_factory=dict)
    planned: dict[str, Position] = field(default_factory=dict)
    """Where the batch that is planned and not committed ends."""
    begins: dict[str, Position] = field(default_factory=dict)
    """Where streams begin for it, until it has committed a position in them: the first answer of their connector counts."""
    undecided: set[str] = field(default_factory=set)
    """Streams of which it is not yet known where they begin for it."""
    sources: set[str] = field(default_factory=set)
    """Sources in which it has committed a position: a further stream of these begins with its first message."""
    fetched: set[str] = field(default_factory=set)
    """Streams of that batch that were served up to its end."""
    reading: Counter[str] = field(default_factory=Counter)
    """How many ranges of each stream are being served, or wait for it."""
    calls: int = 0
    """Its calls that wait or are being served."""
    had_batch: bool = False
    """Whether a batch was ever planned: its checkpoint may name messages that it has not committed."""
    behind_since: dict[str, float] = field(default_factory=dict)
    """Since when, on the monotonic clock, it has not committed what was received of a stream, or moved there last."""
    targets: dict[str, Position] = field(default_factory=dict)
    """For a run that ends when it has caught up: how far that is."""
    met: set[str] = field(default_factory=set)
    """For such a run: its patterns of which it has read a stream that was here."""
    exhausted_at: float | None = None
    """When such a run was first seen to have everything."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Streams that have received messages which it has not committed."""
    ended: set[str] = field(default_factory=set)
    """Streams whose end is in its checkpoint."""
    forgets: bool = False
    """Whether its query leaves streams out of its checkpoint where it is told to."""
    left_out: dict[str, None] = field(default_factory=dict)
    """The streams that its checkpoint has let go of last: what is said late of their old positions is without effect."""
    news: Signal = field(default_factory=Signal)
    attached_at: float = 0.0
    called_at: float = field(default_factory=time.monotonic)

    def admits(self, run: Run) -> bool:
        """Whether a run is the present one, or takes its place."""
        if run == self.run:
            return True
        return run not in self.replaced and (run.checkpoint != self.run.checkpoint or run.number >= self.run.number)

    def succeed(self, run: Run) -> None:
        """Makes a run the present one; the one before is refused from now on."""
        if self.run.number:
            self.replaced.append(self.run)
        self.run, self.away_since = run, None

    def knows(self, stream: str) -> bool:
        """Whether it is known what it needs of the stream."""
        return (self.complete or stream in self.committed) and stream not in self.undecided

    def position(self, stream: str) -> Position:
        """Its committed position in a stream that it knows."""
        return self.committed.get(stream, BEGINNING)

    def asks_for(self, stream: str) -> bool:
        """Whether its query asked for the stream."""
        return any(covers(text, stream) for text in self.patterns)

    def reads_after(self, stream: str) -> Position:
        """What it needs of a stream comes after this position: the committed one, or where the stream begins for it."""
        return max(self.position(stream), self.begins.get(stream, BEGINNING))

    def take_checkpoint(self, committed: dict[str, Position], planned: dict[str, Position]) -> None:
        """Takes over every position of its checkpoint. Where streams begin that these do not name stays as it was found out."""
        self.committed, self.targets, self.met = dict(committed), {}, set()
        self.plan(dict(planned))
        self.sources = {source_of(stream) for stream, position in committed.items() if position > BEGINNING}
        self.begins = {stream: start for stream, start in self.begins.items() if self.position(stream) == BEGINNING}
        self.undecided.clear()
        self.left_out.clear()

    def reads(self, stream: str) -> bool:
        """Whether the stream is one that its query asked for, or that it is declared for."""
        return any(covers(text, stream) for text in (*self.patterns, *self.declared))

    def commit(self, positions: dict[str, Position]) -> list[str]:
        """Takes over committed positions; returns the streams whose position moved."""
        moved = [stream for stream, position in positions.items() if position > self.position(stream)]
        for stream in moved:
            self.committed[stream] = positions[stream]
            self.sources.add(source_of(stream))
            self.begins.pop(stream, None)
        for stream in positions:
            planned = self.planned.get(stream)
            if planned is not None and planned <= self.position(stream):
                del self.planned[stream]
        return moved

    def not_outdated(self, positions: dict[str, Position]) -> dict[str, Position]:
        """Those positions that are not of a stream that the checkpoint has let go of since."""
        if self.left_out:
            positions = {name: at for name, at in positions.items() if name not in self.left_out or name in self.planned}
            for name in positions:
                self.left_out.pop(name, None)
        return positions

    def note_ended(self, positions: dict[str, Position], ended: Iterable[str]) -> None:
        """Takes over which of the streams have ended, as its checkpoint says."""
        self.ended -= positions.keys()
        self.ended |= positions.keys() & set(ended)

    def leave_out(self, stream: str) -> None:
        """Lets go of all that it knows of a stream that its checkpoint has no longer."""
        if self.committed.pop(stream, None) is not None:
            self.left_out[stream] = None
            if len(self.left_out) > MOST_LEFT_OUT:
                del self.left_out[next(iter(self.left_out))]
        for known in (self.planned, self.begins, self.behind_since, self.targets, self.fresh):
            known.pop(stream, None)
        for names in (self.ended, self.undecided, self.fetched):
            names.discard(stream)

    def in_flight(self, stream: str) -> bool:
        """Whether a batch that it runs has messages of the stream that were not served yet."""
        if not self.attached or stream not in self.planned or not self.knows(stream):
            return False
        if self.planned[stream] <= self.reads_after(stream):
            return False
        return stream not in self.fetched or self.reading[stream] > 0

    def plan(self, ends: dict[str, Position]) -> None:
        """Notes where the next batch ends in each stream that it has messages of."""
        self.planned = ends
        self.fetched.clear()
        self.had_batch = self.had_batch or bool(ends)

    def notice(self, stream: str) -> None:
        """Notes that the stream has something new."""
        self.fresh[stream] = None
        self.news.notify()
