"""A stream as the gateway holds it: the frames that not every pipeline has committed, and who sends them."""

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from headrace.gateway.core._frames import HeldFrame
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING, Position
from headrace.gateway.core._signal import Signal
from headrace.protocol.v1 import source_pb2


class Sender(Protocol):
    """A session, as the streams that it sends know it."""

    id: str
    peer: str

    @property
    def instance(self) -> str:
        """Which deployment of which connector it is."""

    def send(self, response: source_pb2.IngestResponse) -> None:
        """Tells it something."""

    def acknowledge(self, attachment: "Attachment", position: Position) -> None:
        """Tells it that everything up to a position is acknowledged."""

    def lend(self, attachment: "Attachment", wanted: "Wanted") -> None:
        """Gives it credit for the next frame of a stream, which a batch waits for."""

    def retire(self, stream_id: int) -> None:
        """Lets go of a stream that it has closed, and that is acknowledged."""

    def reject(self, stream_id: int, reason: source_pb2.RejectReason.ValueType, message: str, retry_after_ms: int = 0) -> None:
        """Tells it that a stream is closed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A frame that waits for credit."""

    bytes: int
    messages: int
    ready_bytes: int | None = None
    """The size of a frame with all that its stream has ready; None where the connector does not say."""
    ready_messages: int | None = None


@dataclass(slots=True, eq=False)
class Attachment:
    """A stream in the hands of a session."""

    session: Sender
    stream: "Stream"
    stream_id: int
    opened: bool = False
    """True once the session may send frames."""
    closed: bool = False
    """True once it will send no more."""
    start_wanted: bool = False
    """True once the session was asked where the stream begins."""
    epoch: int = 0
    last_sequence: int = -1
    """The last sequence that was sent, dropped or not."""
    told: Position = BEGINNING
    """The last position that was acknowledged to the session."""
    wanted: Wanted | None = None
    """The frame that waits for credit, until one arrives."""
    lent_bytes: int = 0
    """Credit that the stream alone was given for that frame."""
    lent_messages: int = 0
    end: Position = BEGINNING
    """Of one that was closed, and whose stream has another owner now: the last position that it waits for."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A source's word that it cannot resume."""

    resume: Position
    earliest: int | None
    reason: str

    def describe(self, stream: str) -> str:
        """What was lost, for people."""
        have = "it cannot say what it still has" if self.earliest is None else f"the first it still has is {self.earliest}"
        why = f" ({self.reason})" if self.reason else ""
        return f"stream {stream}: the source no longer has what follows {self.resume}; {have}{why}"


@dataclass(slots=True)
class Backlog:
    """What a source said that it still holds, less what it has sent since."""

    latest_sequence: int | None = None
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Stream:
    """The messages after `start`, up to and including `received`, in frames.

    Everything at or before `start` is committed by every reader that runs, or has not been asked for. A replayable source sends
    it again where a reader that was away needs it.
    """

    name: str
    replayable: bool = True
    chooses_start: bool = False
    """Whether its connector says where it begins for a pipeline that is new to its source."""
    attachment: Attachment | None = None
    former: list[Attachment] = field(default_factory=list)
    """Sessions that closed the stream before another one opened it, and still wait for acknowledgements."""
    readers: list[Pipeline] = field(default_factory=list)
    start: Position = BEGINNING
    received: Position = BEGINNING
    acknowledged: Position = BEGINNING
    horizon: Position = BEGINNING
    """Everything at or before it is gone from the source, and its pipelines have accepted that."""
    live_epoch: int = 0
    """The epoch whose messages can still be read; of a redelivering stream without a session, one that never was."""
    frames: list[HeldFrame] = field(default_factory=list)
    ended: bool = False
    gone: bool = False
    """Whether its source has said, with its end, that it will never offer the stream again."""
    forgetting: bool = False
    """Whether a pipeline was told to leave it out of its checkpoint: until all have, it is not opened."""
    loss: Loss | None = None
    backlog: Backlog = field(default_factory=Backlog)
    news: Signal = field(default_factory=Signal)
    held_bytes: int = 0
    held_messages: int = 0
    released_messages: int = 0
    """Messages that are held no longer and not acknowledged: for a reader that is away, which has the source send them again."""
    received_messages: int = 0
    acknowledged_messages: int = 0
    duplicate_messages: int = 0
    losses: int = 0
    sent_at: float = 0.0
    known_since: float = field(default_factory=time.monotonic)
    _ends: list[int] = field(default_factory=list)
    """The last sequence of each frame, for bisection."""

    def restart(self, at: Position) -> None:
        """Lets go of every frame and begins after `at`."""
        self.drop_frames(len(self.frames))
        self.start = self.received = at
        self.live_epoch = at.epoch
        self.ended = self.gone = False
        self.released_messages = 0
        self.news.notify()

    def go_on_after(self, committed: Position) -> None:
        """Begins after what a checkpoint has committed. A session's epoch is over: this gateway has not given it."""
        self.restart(committed)
        if committed.epoch:
            self.replayable = False
            self.live_epoch = -1

    def void(self) -> None:
        """Ends the epoch of a redelivering stream: what was not acknowledged comes again under a new one."""
        self.drop_frames(len(self.frames))
        self.start = self.received
        self.live_epoch = -1
        self.released_messages = 0
        self.news.notify()

    def append(self, frame: HeldFrame) -> None:
        """Adds a frame that follows what was received."""
        self.frames.append(frame)
        self._ends.append(frame.last)
        self.received = Position(self.received.epoch, frame.last, frame.cursor)
        self.held_bytes += frame.size
        self.held_messages += frame.count
        self.received_messages += frame.count
        self.backlog.messages = max(0, self.backlog.messages - frame.count)
        self.backlog.bytes = max(0, self.backlog.bytes - frame.size)
        self.sent_at = frame.received_at
        for pipeline in self.readers:
            pipeline.behind_since.setdefault(self.name, frame.received_at)

    def release(self, needed_after: Position, acknowledged: Position) -> None:
        """Lets go of the frames that no reader needs that runs, and notes what every reader has committed."""
        self.acknowledged = max(self.acknowledged, acknowledged)
        if needed_after.epoch == self.live_epoch:
            done = bisect_right(self._ends, needed_after.sequence)
            self.released_messages += sum(frame.count for frame in self.frames[:done])
            if done:
                self.start = max(self.start, Position(self.live_epoch, self._ends[done - 1]))
            self.drop_frames(done)
        if self.released_messages and acknowledged >= self.start:
            self.acknowledged_messages += self.released_messages
            self.released_messages = 0

    def drop_frames(self, count: int) -> None:
        """Drops the first `count` frames and gives their credit back."""
        for frame in self.frames[:count]:
            self.held_bytes -= frame.size
            self.held_messages -= frame.count
            if frame.account is not None:
                frame.account.release(frame.charged, frame.count)
        del self.frames[:count]
        del self._ends[:count]

    def after(self, position: Position) -> Iterator[HeldFrame]:
        """The frames that hold messages after the position, as they are now."""
        if position.epoch > self.live_epoch:
            return iter(())
        first = bisect_right(self._ends, position.sequence) if position.epoch == self.live_epoch else 0
        return iter(self.frames[first:])

    def note_reader(self, pipeline: Pipeline) -> None:
        """Takes a pipeline in that reads it, or lets one go that does so no more."""
        if pipeline.reads(self.name) != (pipeline in self.readers):
            if pipeline in self.readers:
                self.readers.remove(pipeline)
            else:
                self.readers.append(pipeline)

    def is_unused(self, since: float) -> bool:
        """Whether it has no reader, no connector and no messages, and has had none since a moment."""
        held = self.readers or self.attachment or self.frames or self.news.waiters
        return not held and max(self.sent_at, self.known_since) < since

    def tell_readers(self) -> None:
        """Wakes whoever reads the stream or plans to."""
        self.news.notify()
        for pipeline in self.readers:
            pipeline.notice(self.name)

    def is_awaited(self, but_by: Pipeline | None = None) -> bool:
        """Whether a batch runs that cannot end before the source sends more, other than that of one pipeline."""
        return any(p is not but_by and p.in_flight(self.name) and p.planned[self.name] > self.received for p in self.readers)

    def must_be_rewound_for(self, pipeline: Pipeline) -> bool:
        """Whether what the pipeline reads next is not held any more."""
        return self.replayable and max(pipeline.reads_after(self.name), self.horizon) < self.start

    def caught_up(self) -> bool:
        """Whether everything that the source had when it last said so has been received."""
        if self.ended:
            return True
        latest = self.backlog.latest_sequence
        return latest is not None and latest <= self.received.sequence

    def oldest_age_ms(self) -> int:
        """For how long the oldest frame has been held, in milliseconds."""
        return int((time.monotonic() - self.frames[0].received_at) * 1000) if self.frames else 0
