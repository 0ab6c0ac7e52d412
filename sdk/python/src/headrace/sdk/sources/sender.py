"""Sends a session's messages: control messages first, then frames, round-robin over the streams, within credit and pace."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from headrace.contract.errors import HeadraceError
from headrace.contract.limits import MAX_FRAMES
from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk._errors import InvalidMessage
from headrace.sdk.sources.stream import Stream, Window

_GOODBYE_S = 1.0
_MAX_TOGETHER_BYTES = 64 * 1024
"""How large frames are that share a message, all together: a larger frame gains nothing."""
_ASK_FOR_OTHERS_S = 0.1
"""How long the stream whose turn it is waits for credit before the streams behind it request credit, in seconds."""


class Sender:
    """The only writer of a session."""

    def __init__(
        self,
        welcome: pb.Welcome,
        window: Window,
        write: Callable[[pb.IngestRequest], Awaitable[None]],
        linger: float,
        sent: Callable[[Stream], None],
        failed: Callable[[Stream, HeadraceError], None],
        unsendable: Callable[[Stream], None],
    ) -> None:
        """Sends nothing before `run`.

        Args:
            welcome: The gateway's limits.
            window: The session's credit.
            write: Writes one message; returns when the transport has accepted it.
            linger: How long to collect messages, in seconds.
            sent: Called after a frame or the end of a stream was sent.
            failed: Called with a stream whose source yielded something invalid, other than single messages.
            unsendable: Called with a stream whose next message cannot be sent; the callee calls `go_on` once it is handled.
        """
        self.linger = linger
        self._max_bytes = welcome.max_frame_bytes
        self._max_messages = welcome.max_frame_messages
        self._window = window
        self._write = write
        self._sent = sent
        self._failed = failed
        self._unsendable = unsendable
        self._control: deque[pb.IngestRequest] = deque()
        self._due: deque[Stream] = deque()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._asked_for_credit = False
        self._others_may_ask = False
        self._others_timer: asyncio.TimerHandle | None = None
        self._muted = False
        self._flushing = False
        self._gone = asyncio.Event()
        self._joins_frames = pb.CAPABILITY_FRAMES in welcome.capabilities
        self._following: pb.IngestRequest | None = None
        """What was next after frames that share a message."""

    async def run(self) -> None:
        """Sends until it is cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while (request := self._next_joined()) is not None:
                    await self._write(request)
                    if request.WhichOneof("message") == "goodbye":
                        self._gone.set()
                        return
        finally:
            if self._others_timer is not None:
                self._others_timer.cancel()

    def say(self, request: pb.IngestRequest) -> None:
        """Queues a control message, which is sent before any further frame."""
        self._control.append(request)
        self._wake.set()

    async def goodbye(self, reason: str) -> None:
        """Sends the last message of the session, and waits briefly until it is written."""
        self.mute()
        self.say(pb.IngestRequest(goodbye=pb.Goodbye(reason=reason[:500])))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await self._gone.wait()

    def wake(self) -> None:
        """Checks again whether something can be sent."""
        self._wake.set()

    def grant(self, credit: pb.Credit) -> None:
        """Adds credit to the session, and continues sending."""
        self._window.grant(credit.bytes, credit.messages)
        self._asked_for_credit = False
        self._wake.set()

    def grant_to(self, stream: Stream, credit: pb.Credit) -> None:
        """Adds credit for one stream, and sends its frame next, because a batch waits for it."""
        stream.grant(credit.bytes, credit.messages)
        if stream.due and not stream.muted:
            self._due.remove(stream)
            self._due.appendleft(stream)
        else:
            stream.release_grant(self._window)
        self._wake.set()

    def mute(self) -> None:
        """Sends no more frames."""
        self._muted = True

    def flush(self, streams: Iterable[Stream]) -> None:
        """Sends everything that was gathered; from now on, frames do not wait for more messages."""
        self._flushing = True
        for stream in streams:
            self.look(stream)

    def look(self, stream: Stream) -> None:
        """Schedules a stream that has something to send, immediately or after it has collected messages for `linger`."""
        if stream.muted or stream.due or self._muted or stream.unsendable is not None:
            return
        gather = stream.gather
        now = self._loop.time()
        if self._flushing or gather.enough or gather.ended:
            at = now
        elif gather.caught_up:
            # The source is idle, so there is no need to wait, except as the pace requires.
            at = stream.last_frame_at + self.linger
        elif gather.messages:
            at = now + self.linger
        else:
            at = now
        if at <= now:
            self._make_due(stream)
        elif stream.timer is None or at < stream.timer.when():
            stream.cancel_timer()
            stream.timer = self._loop.call_at(at, self._make_due, stream)

    def go_on(self, stream: Stream) -> None:
        """Continues a stream after a message that cannot be sent."""
        stream.unsendable = None
        self._make_due(stream)

    def _make_due(self, stream: Stream) -> None:
        """Queues a stream for its turn."""
        stream.cancel_timer()
        if not stream.due and not stream.muted and stream.unsendable is None:
            stream.due = True
            self._due.append(stream)
            self._wake.set()

    def _next_joined(self) -> pb.IngestRequest | None:
        """Returns the next message to write, with as many small frames as are due; None if there is none, or no credit for it."""
        request, self._following = self._following or self._next(), None
        if request is None or not self._joins_frames or not request.HasField("frame"):
            return request
        size = request.ByteSize()
        if size > _MAX_TOGETHER_BYTES:
            return request
        frames = [request.frame]
        while len(frames) < MAX_FRAMES and (following := self._next()) is not None:
            size += following.ByteSize()
            if size > min(_MAX_TOGETHER_BYTES, self._max_bytes) or not following.HasField("frame"):
                self._following = following
                break
            frames.append(following.frame)
        return pb.IngestRequest(frames=pb.Frames(frames=frames)) if len(frames) > 1 else request

    def _next(self) -> pb.IngestRequest | None:
        """Returns the next message; None if there is none, or no credit for it."""
        if self._control:
            return self._control.popleft()
        while self._due and not self._muted:
            stream = self._due[0]
            if stream.muted:
                self._turn_over(stream)
                continue
            try:
                request = self._next_of(stream)
            except InvalidMessage as error:
                self._turn_over(stream)
                self._failed(stream, error)
                continue
            if request is not None:
                return request
            if stream.due:
                # The stream keeps its turn until it has credit. Otherwise a large message could wait forever.
                return self._ask_for_credit(stream) or self._ask_for_others()
        return None

    def _next_of(self, stream: Stream) -> pb.IngestRequest | None:
        """Returns a stream's next message; None if it has none, and so ends its turn, or no credit, and so remains due."""
        if stream.load():
            request = stream.frame(self._max_bytes, self._max_messages, self._window)
            if request is not None:
                stream.last_frame_at = self._loop.time()
                self._turn_over(stream)
                if stream.packed_left:
                    self._make_due(stream)
                elif stream.gather.messages or stream.gather.ended or stream.gather.caught_up or stream.gather.backlog_untold:
                    # A backlog is reported after the messages that were gathered before it, even if no others follow.
                    self.look(stream)
                self._sent(stream)
            if request is not None or stream.unsendable is None:
                return request
        cursor = None if stream.unsendable is not None or stream.close_sent else stream.cursor_frame()
        self._turn_over(stream)
        if stream.unsendable is not None:
            self._unsendable(stream)
            return None
        if cursor is not None:
            if stream.gather.ended or stream.gather.caught_up or stream.gather.backlog_untold:
                self.look(stream)
            return pb.IngestRequest(frame=cursor)
        if stream.gather.ended and not stream.close_sent:
            stream.close_sent = True
            self._loop.call_soon(self._sent, stream)
            end, gone = not stream.gather.for_now, stream.gather.gone
            return pb.IngestRequest(close_stream=pb.CloseStream(stream_id=stream.id, end_of_stream=end, gone=gone))
        backlog = None if stream.close_sent else stream.backlog()
        return None if backlog is None else pb.IngestRequest(backlog=backlog)

    def _turn_over(self, stream: Stream) -> None:
        """Ends a stream's turn."""
        stream.release_grant(self._window)
        self._due.remove(stream)
        stream.due = False

    def _ask_for_credit(self, stream: Stream) -> pb.IngestRequest | None:
        """Returns a request for credit, once for each frame and each grant; None if it was already sent."""
        if self._asked_for_credit and stream.asked_for_credit:
            return None
        self._asked_for_credit = True
        return stream.credit_request(self._max_bytes, self._max_messages)

    def _ask_for_others(self) -> pb.IngestRequest | None:
        """Returns a request for credit for a stream behind the one whose turn it is, after a delay; None if there is none.

        A batch may wait for any of them, and the credit that the first one has used may return only after that batch.
        """
        if not self._others_may_ask:
            if len(self._due) > 1 and self._others_timer is None:
                self._others_timer = self._loop.call_later(_ASK_FOR_OTHERS_S, self._let_others_ask)
            return None
        for stream in list(self._due)[1:]:
            if stream.muted or stream.asked_for_credit:
                continue
            try:
                if stream.load() and stream.next_size() <= self._max_bytes:
                    return stream.credit_request(self._max_bytes, self._max_messages)
            except InvalidMessage as error:
                self._turn_over(stream)
                self._failed(stream, error)
        self._others_may_ask = False
        return None

    def _let_others_ask(self) -> None:
        self._others_timer = None
        self._others_may_ask = True
        self._wake.set()
