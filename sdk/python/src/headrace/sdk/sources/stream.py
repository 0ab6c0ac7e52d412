"""One stream within one session: its messages to send, and its sent and acknowledged sequences."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.contract.limits import UNANNOUNCED_CURSOR_BYTES
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk._errors import InvalidMessage, MessageTooLarge
from headrace.sdk.sources.gather import Gather
from headrace.sdk.sources.reader import Reader
from headrace.sdk.sources.unsendable import Piece, Unsendable, message_at, separated
from headrace.sdk.wire import Columns, Position, fill_frame, fit, frame_size, pack


@dataclass(slots=True)
class Window:
    """The remaining credit."""

    bytes: int
    messages: int
    frame_overhead: int = 0
    """The credit that each frame costs besides its own size, in bytes."""

    def grant(self, bytes_: int, messages: int) -> None:
        """Adds credit."""
        self.bytes += bytes_
        self.messages += messages

    def spend(self, bytes_: int, messages: int) -> None:
        """Subtracts the credit of a frame."""
        self.bytes -= bytes_
        self.messages -= messages


class Stream:
    """A stream that was opened under one id."""

    def __init__(
        self,
        stream_id: int,
        partition: str,
        name: str,
        gather: Gather,
        welcome: pb.Welcome,
        *,
        is_resumable: bool = False,
    ) -> None:
        """Nothing is sent before `opened`."""
        self._is_resumable = is_resumable
        self._cursor = b""
        """The last cursor of a resumable stream that was checked."""
        self._moves_cursors = pb.CAPABILITY_CURSORS in welcome.capabilities
        self._max_cursor_bytes = welcome.max_cursor_bytes or UNANNOUNCED_CURSOR_BYTES
        self.id = stream_id
        self.partition = partition
        self.name = name
        self.gather = gather
        self.reader: Reader | None = None
        self.due = False
        self.timer: asyncio.TimerHandle | None = None
        self.last_frame_at = 0.0
        self.muted = False
        self.close_sent = False
        self.unsendable: Unsendable | None = None
        self.asked_for_credit = False
        """Whether credit was requested since the stream's last frame."""
        self._lent = Window(0, 0)
        self._epoch = 0
        self._pieces: deque[Piece] = deque()
        self._columns: Columns | None = None
        self._at = 0
        self._next_sequence = 1
        self._last_packed: int | None = None
        self._last_sent: int | None = None
        self._resume: int | None = None
        self._floor: int | None = None
        """The position that the source was given, without a cursor, until it has yielded a later message."""
        self.again = 0
        """How many messages it has yielded at or before that position, although they were received already."""
        self._acknowledged = -1
        self._acknowledged_moves = 0
        self._tokens: deque[tuple[int, object]] = deque()
        self._last_backlog: pb.Backlog | None = None

    def opened(self, answer: pb.StreamOpened) -> tuple[Position | None, Position | None]:
        """Handles the gateway's answer; returns the resume and the acknowledged position, each only if of the current epoch."""
        self._epoch = answer.epoch
        resume = self._position(answer.resume) if answer.HasField("resume") else None
        acknowledged = self._position(answer.acknowledged) if answer.HasField("acknowledged") else None
        if resume is not None:
            self._resume = resume.sequence
            self._next_sequence = resume.sequence + 1
            self._cursor = resume.cursor or b""
        if acknowledged is not None:
            self._acknowledged = acknowledged.sequence
            self._acknowledged_moves = answer.acknowledged.moves
        return resume, acknowledged

    def gave(self, position: Position | None) -> None:
        """Notes the position that the source was given. With a cursor, it may yield again what follows the cursor."""
        self._floor = position.sequence if position is not None and position.cursor is None else None

    @property
    def repeats(self) -> bool:
        """Whether the source still yields what precedes its position."""
        return self._floor is not None and self.again > 0

    @property
    def unsent(self) -> bool:
        """Whether messages were read and not yet sent."""
        return not self.muted and (self.packed_left or self.unsendable is not None or self.gather.messages > 0)

    @property
    def packed_left(self) -> bool:
        """Whether messages were taken from the buffer and not yet sent."""
        return self._columns is not None or bool(self._pieces)

    @property
    def unacknowledged(self) -> bool:
        """Whether messages were sent and not yet acknowledged."""
        return self._last_sent is not None and self._acknowledged < self._last_sent

    @property
    def finished(self) -> bool:
        """Whether the source has ended and everything before the end is acknowledged."""
        if not self.close_sent or self.muted:
            return False
        ends = [end for end in (self._resume, self._last_sent) if end is not None]
        return not ends or self._acknowledged >= max(ends)

    def load(self) -> bool:
        """Packs what was gathered, unless packed messages are left. Returns False if there is nothing to send.

        If the next message cannot be sent, it is stored in `unsendable`, and nothing is sent until that is None again.

        Raises:
            InvalidMessage: The source yielded something invalid, other than single messages.
        """
        while self._columns is None and self.unsendable is None:
            if not self._pieces:
                items = self.gather.take()
                if not items:
                    return False
                self._pieces.append(items)
            piece = self._pieces.popleft()
            if isinstance(piece, Unsendable):
                self._set_aside(piece)
                continue
            try:
                self._columns = pack(piece, self._next_sequence, self._last_packed)
            except InvalidMessage as error:
                self._pieces.extendleft(reversed(separated(piece, error)))
                continue
            self._at = 0
            if self._columns is not None:
                for at, cursor in self._columns.cursors:
                    self._check_cursor(self._columns.sequences[max(0, at - 1)], cursor)
                self._check_order(self._columns)
                self._last_packed = self._columns.last
                self._next_sequence = self._columns.last + 1
        return self._columns is not None

    def frame(self, max_bytes: int, max_messages: int, window: Window) -> pb.IngestRequest | None:
        """Cuts the next frame from the loaded messages, and spends its credit.

        Returns:
            The frame; None if the credit is not enough for one message, or if the next message exceeds the gateway's limit and
            was stored in `unsendable`.
        """
        columns, start = self._columns, self._at
        assert columns is not None
        bytes_, messages = window.bytes + self._lent.bytes, window.messages + self._lent.messages
        room = min(max_bytes, bytes_ - window.frame_overhead)
        stop, size = fit(columns, self.id, start, room, min(max_messages, messages))
        if stop == start:
            size = self.next_size()
            if size > max_bytes:
                error = MessageTooLarge(
                    f"message {columns.sequences[start]} makes a frame of {size} bytes, but the gateway accepts at most "
                    f"{max_bytes}; raise its limit or skip the message"
                )
                self.unsendable = Unsendable(message_at(columns, start), error)
                self._move_on(columns, start + 1)
            return None
        self.release_grant(window)
        window.spend(size + window.frame_overhead, stop - start)
        request = pb.IngestRequest()
        fill_frame(request.frame, columns, self.id, start, stop)
        self._sent(columns, start, stop)
        self.asked_for_credit = False
        return request

    def grant(self, bytes_: int, messages: int) -> None:
        """Adds credit for this stream's next frame."""
        self._lent.grant(bytes_, messages)

    def release_grant(self, window: Window) -> None:
        """Returns the stream's own credit to the session, because its frame is about to be sent, or never will be."""
        window.grant(self._lent.bytes, self._lent.messages)
        self._lent = Window(0, 0)

    def credit_request(self, max_bytes: int, max_messages: int) -> pb.IngestRequest:
        """Returns a request for credit for the next message; it also states the size of all that could be sent in one frame."""
        columns, start = self._columns, self._at
        assert columns is not None
        self.asked_for_credit = True
        request = pb.CreditRequest(stream_id=self.id, bytes=self.next_size(), messages=1)
        stop, size = fit(columns, self.id, start, max_bytes, max_messages)
        if stop > start:
            request.ready_bytes = size
            request.ready_messages = stop - start
        return pb.IngestRequest(credit_request=request)

    def next_size(self) -> int:
        """Returns the size in bytes of a frame with only the next loaded message."""
        assert self._columns is not None
        return frame_size(self._columns, self.id, self._at, self._at + 1)

    def backlog(self) -> pb.Backlog | None:
        """Returns the backlog to report, if it has changed. Call it only if nothing is loaded."""
        gather = self.gather
        with gather.condition:
            left, caught_up = gather.backlog, gather.caught_up
            gather.backlog_untold = False
            gathered_bytes, gathered_messages = gather.bytes, gather.messages
        if left is None and not caught_up:
            return None
        answer = pb.Backlog(stream_id=self.id)
        if left is None:
            answer.messages = answer.bytes = 0
        else:
            if left.messages is not None:
                answer.messages = left.messages + gathered_messages
            if left.bytes is not None:
                answer.bytes = left.bytes + gathered_bytes
            if left.latest_sequence is not None:
                answer.latest_sequence = left.latest_sequence
        nothing_left = left is None or left.messages == 0 or left.bytes == 0
        if caught_up and nothing_left:
            answer.latest_sequence = max(self._resume or 0, self._last_sent or 0)
        if answer == self._last_backlog:
            return None
        self._last_backlog = answer
        return answer

    def cursor_frame(self) -> frame_pb2.Frame | None:
        """Returns a frame without messages, if the cursor has moved. Call it only if nothing is loaded.

        Raises:
            InvalidMessage: The cursor is too large.
        """
        with self.gather.condition:
            cursor, self.gather.cursor = self.gather.cursor, None
        if cursor is None or not self._moves_cursors:
            return None
        at = (self._resume or 0) if self._last_sent is None else self._last_sent
        self._check_cursor(at, cursor)
        # Nothing with this sequence may follow.
        self._last_packed = max(at, -1 if self._last_packed is None else self._last_packed)
        return frame_pb2.Frame(stream_id=self.id, first_sequence=at, cursor=cursor)

    def check_start(self, start: Position | None) -> None:
        """Checks the cursor of the place where the stream begins.

        Raises:
            InvalidMessage: It is too large.
        """
        if start is not None and start.cursor is not None:
            self._check_cursor(start.sequence, start.cursor)

    def _check_cursor(self, sequence: int, cursor: bytes) -> None:
        if len(cursor) > self._max_cursor_bytes:
            raise InvalidMessage(
                f"stream {self.name}, sequence {sequence}: a cursor of {len(cursor)} bytes; the gateway accepts at most "
                f"{self._max_cursor_bytes}"
            )

    def _check_order(self, columns: Columns) -> None:
        """Checks that the cursors of a resumable stream have the order of their places.

        Raises:
            InvalidMessage: A cursor is before an earlier one.
        """
        for at, cursor in columns.cursors if self._is_resumable else ():
            if cursor < self._cursor:
                sequence = columns.sequences[max(0, at - 1)]
                raise InvalidMessage(
                    f"stream {self.name}, sequence {sequence}: cursor {cursor[:32]!r} is before {self._cursor[:32]!r}, which was "
                    "yielded before it; the bytes of the cursors of a resumable source must have the order of their places"
                )
            self._cursor = cursor

    def acknowledge(self, position: pb.Ack.Stream) -> Position | None:
        """Passes an acknowledgement to the source, and returns its position; None if it is old.

        One of an older epoch is ignored: its messages are redelivered.
        """
        sequence, moves = position.position.sequence, position.position.moves
        reached = (self._acknowledged, self._acknowledged_moves)
        if position.position.epoch != self._epoch or (sequence, moves) <= reached:
            return None
        self._acknowledged, self._acknowledged_moves = sequence, moves
        tokens: list[object] = []
        while self._tokens and self._tokens[0][0] <= sequence:
            tokens.append(self._tokens.popleft()[1])
        acknowledged = position_of(position.position)
        if self.reader is not None:
            self.reader.acknowledge(acknowledged, tokens)
        return acknowledged

    def mute(self) -> None:
        """Stops sending; what was sent may still be acknowledged."""
        self.muted = True
        self.unsendable = None
        self._pieces.clear()
        self._columns = None
        self.gather.clear()
        self.cancel_timer()

    def retire(self) -> None:
        """Stops sending, and expects no more acknowledgements."""
        self.mute()
        self._last_sent = None
        self._tokens.clear()

    def cancel_timer(self) -> None:
        """Ends the wait for more messages."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _sent(self, columns: Columns, start: int, stop: int) -> None:
        """Notes that messages `start` to `stop` (exclusive) are sent."""
        sequences: Sequence[int] = columns.sequences if columns.tokens or stop < columns.count else ()
        if columns.tokens:
            pairs = zip(sequences[start:stop], columns.tokens[start:stop], strict=True)
            self._tokens.extend(pair for pair in pairs if pair[1] is not None)
        self._last_sent = sequences[stop - 1] if sequences else columns.last
        if self._floor is not None:
            self.again += bisect_right(columns.sequences, self._floor, start, stop) - start
            if self._last_sent > self._floor:
                self._floor = None
        # The gateway has subtracted what it has received: the same backlog again is news to it.
        self._last_backlog = None
        self._move_on(columns, stop)

    def _set_aside(self, unsendable: Unsendable) -> None:
        """Notes a message that cannot be sent; it uses up a sequence as if it were sent."""
        self.unsendable = unsendable
        own = unsendable.message.sequence
        self._next_sequence = (own if type(own) is int else self._next_sequence) + 1

    def _move_on(self, columns: Columns, stop: int) -> None:
        """Notes that messages before `stop` are sent or set aside."""
        self._at = stop
        if stop == columns.count:
            self._columns = None

    def _position(self, position: frame_pb2.Position) -> Position | None:
        """Returns the position, if it is of this stream's epoch; otherwise None."""
        return position_of(position) if position.epoch == self._epoch else None


def position_of(position: frame_pb2.Position) -> Position:
    """Converts a position from the protocol."""
    return Position(
        sequence=position.sequence, cursor=position.cursor if position.HasField("cursor") else None, epoch=position.epoch
    )
