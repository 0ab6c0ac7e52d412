"""The gateway's state of a stream: the frames that not every pipeline has committed, and the session that sends them."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.last_error import LastError, later
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.base.times import Longest
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams.epochs import Epochs
from headrace.gateway.core.streams.frames import HeldFrame
from headrace.gateway.core.streams.pauses import Pause
from headrace.gateway.core.streams.stall import Stall
from headrace.gateway.core.streams.tally import Tally
from headrace.protocol.v1 import source_pb2


class Sender(Protocol):
    """The interface of sessions that streams use."""

    id: str
    peer: str
    opened_at: float

    @property
    def instance(self) -> str:
        """The name that identifies this deployment of the connector across its restarts."""

    def send(self, response: source_pb2.IngestResponse) -> None:
        """Queues a message."""

    def acknowledge(self, attachment: "Attachment", position: Position) -> None:
        """Queues an acknowledgement of everything up to a position."""

    def acknowledges(self, stream_id: int) -> bool:
        """Returns whether an acknowledgement of a stream is queued."""

    def grant_to_stream(self, attachment: "Attachment", request: "RequestedCredit") -> None:
        """Grants credit for the next frame of a stream, because a batch waits for it."""

    def retire(self, stream_id: int) -> None:
        """Forgets a closed, fully acknowledged stream."""

    def reject(self, stream_id: int, reason: source_pb2.RejectReason.ValueType, message: str, retry_after_ms: int = 0) -> None:
        """Rejects a stream."""


@dataclass(frozen=True, slots=True)
class RequestedCredit:
    """The credit that a waiting frame needs."""

    bytes: int
    messages: int
    ready_bytes: int | None = None
    """The size of a frame with everything that the stream has ready; None if the connector does not report it."""
    ready_messages: int | None = None


@dataclass(slots=True, eq=False)
class Attachment:
    """The attachment of a stream to a session."""

    session: Sender
    stream: "Stream"
    stream_id: int
    opened: bool = False
    """Whether the session may send frames."""
    changed_at: float = field(default_factory=clock.monotonic)
    """When the stream was attached or opened, whichever is later, on the monotonic clock."""
    closed: bool = False
    """Whether the session has closed the stream."""
    start_wanted: bool = False
    """Whether the session was asked where the stream begins."""
    epoch: int = 0
    last_sequence: int = -1
    """The last sequence that was sent, dropped or not."""
    last_cursor: bytes = b""
    """The last cursor of a resumable stream."""
    told: Position = BEGINNING
    """The last position that was acknowledged to the session."""
    requested_credit: RequestedCredit | None = None
    """The credit that a waiting frame needs; None again once a frame has arrived."""
    granted_bytes: int = 0
    """The credit in bytes that was granted to this stream for that frame."""
    granted_messages: int = 0
    stall: Stall | None = None
    """Whether it has stalled; None if it was never behind."""
    end: Position = BEGINNING
    """If the session closed the stream and another one owns it now: the last position whose acknowledgement it awaits."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A source's report that it cannot resume. It concerns who reads after this position or an earlier one, and nobody else."""

    resume: Position
    earliest: int | None
    reason: str
    found_at: float = field(default_factory=clock.monotonic)

    def describe(self, stream: str) -> str:
        """Returns a description of the loss."""
        earliest = "its earliest message is " + ("unknown" if self.earliest is None else str(self.earliest))
        why = f" ({self.reason})" if self.reason else ""
        return f"stream {stream}: the source no longer has the messages after {self.resume}; {earliest}{why}"


@dataclass(slots=True)
class Backlog:
    """The backlog that a source last reported, minus what it has sent since."""

    latest_sequence: int | None = None
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Stream:
    """The messages after `start`, up to and including `received`, in frames.

    Everything at or before `start` was committed by every running reader, or was never requested. A replayable source resends
    it if a reader that was away needs it. A resumable one is opened again at an earlier place, under a new epoch.
    """

    name: str
    kind: source_pb2.SourceKind.ValueType = source_pb2.SOURCE_KIND_REPLAYABLE
    chooses_start: bool = False
    """Whether the connector chooses where the stream begins for a pipeline that is new to its source."""
    attachment: Attachment | None = None
    former: list[Attachment] = field(default_factory=list)
    """Attachments of sessions that closed the stream before another one opened it, and still await acknowledgements."""
    readers: list[Pipeline] = field(default_factory=list)
    start: Position = BEGINNING
    received: Position = BEGINNING
    acknowledged: Position = BEGINNING
    told: Position = BEGINNING
    """Up to where connectors know that it is committed."""
    horizon: Position = BEGINNING
    """The position up to which the source has lost everything, and the pipelines have accepted the loss."""
    live_epoch: int = 0
    """The epoch whose messages can still be read; -1 for a redelivering stream without a session."""
    newest_epoch: int = 0
    """The last epoch that this gateway has given a redelivering or a resumable stream; 0 if it has given none."""
    epochs: Epochs = field(default_factory=Epochs)
    """The other epochs of a redelivering stream, and whether epochs of other gateways are over."""
    base: bytes = b""
    """The cursor after which a resumable source was opened under its live epoch; empty for its first message."""
    frames: list[HeldFrame] = field(default_factory=list)
    ended: bool = False
    gone: bool = False
    """Whether it has ended permanently: its source will not open it again."""
    forgetting: bool = False
    """Whether a pipeline has been asked to drop it from its checkpoint; it is not opened until all have done so."""
    loss: Loss | None = None
    ended_by_loss: dict[Pipeline, Loss] = field(default_factory=dict)
    """The readers that were detached while they needed what is lost, until they attach again. For the status only."""
    backlog: Backlog = field(default_factory=Backlog)
    pause: Pause | None = None
    """The pause of it or of its connector."""
    news: Signal = field(default_factory=Signal)
    held_bytes: int = 0
    held_messages: int = 0
    tally: Tally = field(default_factory=Tally)
    """Counts what every reader has committed."""
    received_messages: int = 0
    received_bytes: int = 0
    duplicate_messages: int = 0
    losses: int = 0
    commit_latency: Longest = field(default_factory=Longest)
    """How long its messages waited here until a pipeline committed them, at most, since the history last looked."""
    sent_at: float = 0.0
    known_since: float = field(default_factory=clock.monotonic)
    left_at: float = field(default_factory=clock.monotonic)
    """When its last session closed or lost it, or when it became known, on the monotonic clock."""
    last_error: str = ""
    """The last error that its connector reported before its session ended."""
    error: LastError | None = None
    """The last error of it, also one that is over."""
    last_instance: str = ""
    """The instance that owned it last."""
    _ends: list[int] = field(default_factory=list)
    """The last sequence of each frame, for bisection."""

    @property
    def replayable(self) -> bool:
        """Whether the same position always yields the same messages."""
        return self.kind == source_pb2.SOURCE_KIND_REPLAYABLE

    @property
    def redelivering(self) -> bool:
        """Whether its messages are void once its session is lost."""
        return self.kind == source_pb2.SOURCE_KIND_REDELIVERING

    @property
    def resumable(self) -> bool:
        """Whether everything follows a cursor, though not the same messages again."""
        return self.kind == source_pb2.SOURCE_KIND_RESUMABLE

    def note_end(self, error: str) -> None:
        """Notes why the session that sent it has ended, as far as its connector has said; empty if it has not."""
        self.last_error = error
        self.error = later(self.error, error)

    def leave(self) -> None:
        """Ends its attachment."""
        self.attachment = None
        self.left_at = clock.monotonic()

    def restart(self, at: Position) -> None:
        """Drops all frames, and restarts after `at`."""
        self.tally.release(self.frames, self.start, self._places_of_readers())
        self.drop_frames(len(self.frames))
        self.start = self.received = at
        self.live_epoch = at.epoch
        self.ended = self.gone = False
        self.tally.restart(at)
        self.news.notify()

    def end_permanently(self) -> None:
        """Ends it: its source will not open it again."""
        self.ended = self.gone = True

    def let_go(self) -> None:
        """Drops all frames of a replayable stream, so that its source is asked again for what a reader needs of them."""
        self.tally.release(self.frames, self.start, self._places_of_readers())
        self.drop_frames(len(self.frames))
        self.start = self.received

    def go_on_after(self, committed: Position) -> None:
        """Begins after the committed position of a checkpoint. Its epoch, if any, is over: this gateway did not assign it."""
        self.restart(committed)
        if committed.epoch:
            self.live_epoch = -1
            if self.attachment is None:
                # Its connector will tell: until then, nothing is asked of it again.
                self.kind = source_pb2.SOURCE_KIND_REDELIVERING

    def within_epoch(self, position: Position) -> Position:
        """Returns where a position of a resumable stream is in the live epoch, if that has everything after it."""
        if not self.resumable or position.epoch >= self.live_epoch or self.base > (position.cursor or b""):
            return position
        return Position(self.live_epoch, 0, self.base or None)

    def begin_epoch(self, newest: int, base: Position) -> None:
        """Begins an epoch later than `newest`, under which a resumable source is opened after a position's cursor."""
        self.newest_epoch = newest
        self.base = base.cursor or b""
        self.restart(Position(newest, 0, base.cursor))

    def covers(self, position: Position) -> bool:
        """Returns whether everything after a position is held or yet to come, in the live epoch of a resumable stream."""
        if self.live_epoch <= 0 or position.epoch > self.live_epoch:
            return False
        if position.epoch == self.live_epoch:
            return position.sequence >= self.start.sequence
        return self.start.sequence == 0 and self.base <= (position.cursor or b"")

    def void(self) -> None:
        """Ends the epoch of a redelivering stream: unacknowledged messages are redelivered under a new epoch."""
        self.drop_frames(len(self.frames))
        self.start = self.received
        self.live_epoch = -1
        self.news.notify()

    def is_over(self, epoch: int) -> bool:
        """Returns whether the messages of an epoch that is not live are redelivered under another one.

        One that another gateway has given may be live there, see `Epochs`. Of a resumable stream, any earlier one is over.
        """
        return epoch != self.live_epoch and (epoch <= self.newest_epoch if self.resumable else self.epochs.is_over(epoch))

    def append(self, frame: HeldFrame) -> None:
        """Appends a frame that follows the received ones."""
        self.frames.append(frame)
        self._ends.append(frame.last)
        self.received = Position(self.received.epoch, frame.last, frame.cursor)
        self.held_bytes += frame.size
        self.held_messages += frame.count
        self.received_messages += frame.count
        self.received_bytes += frame.size
        self.backlog.messages = max(0, self.backlog.messages - frame.count)
        self.backlog.bytes = max(0, self.backlog.bytes - frame.size)
        self.sent_at = frame.received_at
        for pipeline in self.readers:
            pipeline.behind_since.setdefault(self.name, frame.received_at)

    def move_cursor(self, sequence: int, cursor: bytes) -> None:
        """Moves the cursor of what was received; before the first message, to a place before sequence 1.

        A reader may have committed or planned moves that another gateway has counted: this one is later.
        """
        at = Position(self.received.epoch, sequence)
        known = [self.received, *(p for r in self.readers for p in (r.position(self.name), r.planned.get(self.name, BEGINNING)))]
        moves = 1 + max((each.moves for each in known if each == at), default=0)
        self.received = Position(at.epoch, at.sequence, cursor, moves)
        for pipeline in self.readers:
            pipeline.moved_cursors[self.name] = None

    def trust_committed_cursor(self) -> None:
        """Takes the cursor that a checkpoint has of the place that the stream has reached.

        One that is not committed may be older, if another gateway has served the stream since: the source may have released it.
        """
        positions = [each for reader in self.readers if (each := reader.position(self.name)) == self.received]
        if positions:
            self.received = max(positions, key=lambda each: each.moves)

    def release(self, needed_after: Position, acknowledged: Position) -> None:
        """Drops the frames that no running reader needs, and records the position that every reader has committed."""
        if acknowledged.is_past(self.acknowledged):
            self.acknowledged = acknowledged
        if acknowledged.epoch == self.live_epoch:
            self.tally.acknowledge(acknowledged, self.frames, self.start)
        if needed_after.epoch == self.live_epoch:
            done = bisect_right(self._ends, needed_after.sequence)
            if done:
                end = Position(self.live_epoch, self._ends[done - 1])
                if acknowledged < end:
                    self.tally.release(self.frames[:done], self.start, self._places_of_readers())
                self.start = max(self.start, end)
            self.drop_frames(done)

    def has_nothing_after(self, position: Position) -> bool:
        """Returns whether no message has come that is after a position.

        An epoch of a queue in which no message has come yet leaves nothing to read, although it is later than all positions:
        what was not acknowledged in an epoch before is void.
        """
        if self.resumable and not self.covers(position):
            return False
        is_empty = self.received.epoch > 0 and self.received.sequence == 0
        return is_empty or position >= self.received

    def is_committed_by(self, pipeline: Pipeline) -> bool:
        """Returns whether a pipeline has committed all that has come; it may have dropped the ended stream since."""
        is_dropped = self.forgetting and self.name not in pipeline.committed
        return is_dropped or self.has_nothing_after(pipeline.position(self.name))

    def is_held_by(self, pipeline: Pipeline) -> bool:
        """Returns whether acknowledgements wait for a pipeline.

        They do not wait for one that does not name an ended stream of which nothing is left: it may have dropped the stream while
        another gateway served it.
        """
        is_over = self.ended and not self.frames and self.name not in pipeline.committed
        return not is_over and not self.is_committed_by(pipeline)

    @property
    def unacknowledged_messages(self) -> int:
        """How many messages have been received that not every reader has committed; frames count as a whole."""
        return self.held_messages + self.tally.released(self.start)

    def _places_of_readers(self) -> set[int]:
        """Returns the sequences of the live epoch after which readers continue."""
        places = (pipeline.reads_after(self.name).delivered for pipeline in self.readers)
        return {at.sequence for at in places if at.epoch == self.live_epoch}

    def drop_frames(self, count: int) -> None:
        """Drops the first `count` frames, and releases their credit."""
        for frame in self.frames[:count]:
            self.held_bytes -= frame.size
            self.held_messages -= frame.count
            if frame.account is not None:
                frame.account.release(frame.charged, frame.count)
        del self.frames[:count]
        del self._ends[:count]

    def after(self, position: Position) -> Iterator[HeldFrame]:
        """Returns the held frames that have messages after the position."""
        return iter(self.frames[self._first_after(position) :])

    def lag_after(self, position: Position) -> tuple[int, int]:
        """Returns how many messages the held frames have that `after` returns, and their bytes."""
        first = self._first_after(position)
        if first == 0:
            return self.held_messages, self.held_bytes
        frames = self.frames[first:]
        return sum(frame.count for frame in frames), sum(frame.size for frame in frames)

    def _first_after(self, position: Position) -> int:
        """Returns the index of the first held frame that has messages after the position."""
        if position.epoch > self.live_epoch:
            return len(self.frames)
        return bisect_right(self._ends, position.sequence) if position.epoch == self.live_epoch else 0

    def note_reader(self, pipeline: Pipeline) -> None:
        """Adds a pipeline to the readers, or removes it, according to the pipeline's patterns."""
        if pipeline.reads(self.name) != (pipeline in self.readers):
            if pipeline in self.readers:
                self.remove_reader(pipeline)
            else:
                self.readers.append(pipeline)

    def remove_reader(self, pipeline: Pipeline) -> None:
        """Removes a pipeline that reads it no longer."""
        self.readers.remove(pipeline)
        self.ended_by_loss.pop(pipeline, None)

    @property
    def shown_loss(self) -> Loss | None:
        """The loss that concerns a reader now, or that the last run of one has ended with."""
        return self.loss if self.loss is not None else next(iter(self.ended_by_loss.values()), None)

    def is_unused(self, since: float) -> bool:
        """Returns whether it has no reader, connector or messages, and was not used since `since` on the monotonic clock."""
        held = self.readers or self.attachment or self.frames or self.news.waiters
        return not held and max(self.sent_at, self.known_since) < since

    def tell_readers(self) -> None:
        """Wakes the tasks that read the stream or wait for something to plan."""
        self.news.notify()
        for pipeline in self.readers:
            pipeline.notice(self.name)

    def is_awaited(self, but_by: Pipeline | None = None) -> bool:
        """Returns whether a running batch of another pipeline than `but_by` cannot end before the source sends more."""
        running = [p for p in self.readers if p is not but_by and p.in_flight(self.name) and not self.is_lost_for(p)]
        if self.resumable:
            # Messages that were planned of another epoch never come.
            running = [p for p in running if p.planned[self.name].epoch == self.live_epoch]
        return any(p.planned[self.name] > self.received for p in running)

    def waits_to_rewind(self) -> bool:
        """Returns whether a resumable stream is opened at an earlier place as soon as the batches that run are committed."""
        return self.resumable and any(p.attached and p.knows(self.name) and self.must_be_rewound_for(p) for p in self.readers)

    def is_lost_for(self, pipeline: Pipeline) -> bool:
        """Returns whether the pipeline needs messages that the source no longer has."""
        return self.loss is not None and pipeline.reads_after(self.name) <= self.loss.resume

    def must_be_rewound_for(self, pipeline: Pipeline) -> bool:
        """Returns whether the messages that the pipeline reads next are no longer held, and the source may have them."""
        if self.redelivering or self.is_lost_for(pipeline):
            return False
        if self.resumable:
            # What another gateway has planned in a later epoch is over once this one has given an epoch after it.
            planned = pipeline.planned.get(self.name, BEGINNING)
            return planned.epoch > self.live_epoch or not self.covers(pipeline.reads_after(self.name))
        return max(pipeline.reads_after(self.name), self.horizon) < self.start

    @property
    def is_behind(self) -> bool:
        """Whether its source had more at its last report than has arrived."""
        latest = self.backlog.latest_sequence
        left = self.backlog.messages > 0 or self.backlog.bytes > 0
        return left or (latest is not None and latest > self.received.sequence)

    def caught_up(self) -> bool:
        """Returns whether everything that the source had at its last report has been received."""
        if self.ended:
            return True
        latest = self.backlog.latest_sequence
        return latest is not None and latest <= self.received.sequence
