"""One call of a source, from the gateway's side: its streams, its credit, and the rules that hold in every session."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.conformance.core.frames import MalformedFrame, decode, sequences, values_alone
from headrace.conformance.core.server import UNKNOWN_KIND, ScriptedCall
from headrace.conformance.sources.listener import Listener
from headrace.conformance.sources.stream import Outstanding, Stream
from headrace.contract.counts import counted
from headrace.contract.limits import MAX_FRAMES, MAX_SEQUENCE, PROTOCOL_VERSION
from headrace.contract.names import is_stream_name
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Frame, Position


@dataclass(eq=False, kw_only=True)
class SourceSession(ScriptedCall[pb.IngestRequest, pb.IngestResponse]):
    """One call of a source. Rules that hold in every session are judged here, and breaches reported to the gateway."""

    number: int
    gateway: "Listener[SourceSession]"
    hello: pb.Hello | None = None
    welcomed: bool = False
    ended: bool = False
    goodbye: str | None = None
    """Why the connector has left, if it named a reason."""
    streams: dict[int, Stream] = field(default_factory=dict)
    credit_bytes: int = 0
    credit_messages: int = 0
    heard: int = 0
    """How many messages have arrived."""
    frames: list[Frame] = field(default_factory=list)
    """All frames, in order, whatever their stream."""

    # What tests and checks use

    def send(self, **message: object) -> None:
        """Sends a message to the connector."""
        response = pb.IngestResponse(**message)  # type: ignore[arg-type]
        self.gateway.trace.from_gateway(self.number, response)
        self.outgoing.put_nowait(response)

    def send_unknown(self) -> None:
        """Sends a message of a kind that only a later version of the protocol has."""
        self.gateway.trace.event(f"#{self.number} connector <- gateway  a message of an unknown kind")
        self.outgoing.put_nowait(pb.IngestResponse.FromString(UNKNOWN_KIND))

    def welcome(self) -> None:
        """Answers Hello."""
        terms = self.gateway.terms
        self.welcomed = True
        self.credit_bytes, self.credit_messages = terms.credit_bytes, terms.credit_messages
        self.send(
            welcome=pb.Welcome(
                protocol_version=PROTOCOL_VERSION,
                gateway_version="conformance",
                session=f"s{self.number}",
                max_frame_bytes=terms.max_frame_bytes,
                max_frame_messages=terms.max_frame_messages,
                max_streams=terms.max_streams,
                frame_overhead_bytes=terms.frame_overhead_bytes,
                credit=pb.Credit(bytes=terms.credit_bytes, messages=terms.credit_messages),
                pace=pb.Pace(linger_ms=terms.linger_ms),
                capabilities=self.gateway.capabilities,
                max_cursor_bytes=terms.max_cursor_bytes,
            )
        )

    def open(self, stream: Stream, *, skip_lost: bool = False) -> None:
        """Sends StreamOpened, with what the gateway knows of the stream."""
        stream.opened = True
        opened = pb.StreamOpened(stream_id=stream.id, skip_lost=skip_lost)
        if stream.kind == pb.SOURCE_KIND_REDELIVERING:
            self.gateway.epochs += 1
            stream.epoch = opened.epoch = self.gateway.epochs
            earlier = self.gateway.earlier.get(stream.name)
            if earlier is not None:
                opened.earlier.CopyFrom(earlier)
        elif stream.kind == pb.SOURCE_KIND_RESUMABLE:
            self._resume(stream, opened)
        else:
            stream.resume = self.gateway.resumes.get(stream.name)
            acknowledged = self.gateway.committed.get(stream.name)
            if stream.resume is not None:
                opened.resume.CopyFrom(stream.resume)
            if acknowledged is not None:
                opened.acknowledged.CopyFrom(acknowledged)
        self.send(stream_opened=opened)

    def _resume(self, stream: Stream, opened: pb.StreamOpened) -> None:
        """Says where a resumable stream continues: in the epoch of its position, or in a new one."""
        resume = self.gateway.resumes.get(stream.name)
        if resume is not None and self.gateway.continues:
            stream.epoch, stream.resume = resume.epoch, resume
        else:
            stream.resume = self.gateway.begin_epoch(stream, resume)
        opened.epoch = stream.epoch
        if stream.resume is not None:
            stream.cursor = stream.resume.cursor
            opened.resume.CopyFrom(stream.resume)
            opened.acknowledged.CopyFrom(stream.resume)

    def acknowledge(self, *upto: tuple[Stream, int]) -> None:
        """Acknowledges the first messages of streams, by one Ack, and returns the credit of the frames that are covered."""
        ack, returned_bytes, returned_messages = pb.Ack(), 0, 0
        for stream, count in upto:
            last = stream.messages[count - 1].sequence
            stream.acknowledged = count
            ack.streams.add(stream_id=stream.id, position=self.gateway.commit(stream, last))
            for frame in [frame for frame in stream.outstanding if frame.last <= last]:
                stream.outstanding.remove(frame)
                returned_bytes += frame.bytes
                returned_messages += frame.messages
        if returned_messages:
            ack.credit.bytes, ack.credit.messages = returned_bytes, returned_messages
            self.credit_bytes += returned_bytes
            self.credit_messages += returned_messages
        self.send(ack=ack)

    def acknowledge_all(self) -> None:
        """Acknowledges everything that was received, by an Ack for each stream."""
        for stream in self.streams.values():
            if not stream.settled:
                self.acknowledge((stream, len(stream.messages)))

    def grant(self, bytes_: int, messages: int, stream: Stream | None = None) -> None:
        """Sends Credit: for the session, or for a stream alone."""
        if stream is None:
            self.credit_bytes += bytes_
            self.credit_messages += messages
            self.send(credit=pb.Credit(bytes=bytes_, messages=messages))
        else:
            stream.lent_bytes += bytes_
            stream.lent_messages += messages
            self.send(credit=pb.Credit(bytes=bytes_, messages=messages, stream_id=stream.id))

    def reject(self, stream: Stream, reason: pb.RejectReason.ValueType, retry_after_ms: int = 0) -> None:
        """Closes a stream, and returns the credit of its frames."""
        stream.rejected, stream.rejected_at = True, time.monotonic()
        self.send(
            reject=pb.Reject(
                stream_id=stream.id, reason=reason, message=f"{stream.name}: as the check says", retry_after_ms=retry_after_ms
            )
        )
        self._release(stream)

    def drain(self, deadline_ms: int) -> None:
        """Asks the connector to finish."""
        self.send(drain=pb.Drain(deadline_ms=deadline_ms, reason="as the check says"))

    def stream(self, condition: Callable[[Stream], bool]) -> Stream | None:
        """The first stream of which something holds."""
        return next((stream for stream in self.streams.values() if condition(stream)), None)

    @property
    def messages(self) -> int:
        """How many messages were received after the resume positions."""
        return sum(len(stream.messages) for stream in self.streams.values())

    # What arrives

    async def ready_to_read(self) -> None:
        """As `ScriptedCall.ready_to_read`."""
        await self.gateway.reads.wait()

    def take(self, request: pb.IngestRequest) -> None:
        """Handles a message."""
        self.gateway.trace.from_connector(self.number, request)
        self.heard += 1
        kind = request.WhichOneof("message")
        if kind not in ("hello", None) and not self.welcomed:
            self.gateway.breach("hello", f"it sends {kind} before it has Welcome")
        match kind:
            case "hello":
                self._take_hello(request.hello)
            case "open_stream":
                self._take_open(request.open_stream)
            case "frame":
                self._take_frame(request.frame)
            case "frames":
                self._take_frames(request.frames)
            case "backlog":
                self._known(request.backlog.stream_id, "backlog").backlogs.append(request.backlog)
            case "credit_request":
                self._take_credit_request(request.credit_request)
            case "close_stream":
                stream = self._known(request.close_stream.stream_id, "close_stream")
                stream.closed = request.close_stream
                if stream.closed.gone and not stream.closed.end_of_stream:
                    self.gateway.breach("gone", f"CloseStream of {stream.name} has gone without end_of_stream")
                self._return_loan(stream)
                self.gateway.closed(self, stream)
            case "position_lost":
                stream = self._known(request.position_lost.stream_id, "position_lost")
                stream.lost = request.position_lost
                self.gateway.lost(self, stream)
            case "starts":
                for start in request.starts.streams:
                    self._known(start.stream_id, "starts").starts = start
            case "report":
                self.gateway.reported(request.report)
            case "goodbye":
                self.goodbye = request.goodbye.reason
        self.gateway.changes.notify()

    def _take_hello(self, hello: pb.Hello) -> None:
        if self.hello is not None:
            self.gateway.breach("hello", "it sends Hello again in the same session")
            return
        self.hello = hello
        self.gateway.greeted(self)

    def _take_open(self, request: pb.OpenStream) -> None:
        if request.stream_id in self.streams:
            self.gateway.breach("stream-ids", f"it opens {request.stream} under id {request.stream_id}, which it used before")
        if not is_stream_name(request.stream):
            self.gateway.breach("stream-ids", f"{request.stream!r} is not a stream name: source/partition")
        stream = Stream(request.stream_id, request.stream, request.kind, request.chooses_start)
        self.streams[request.stream_id] = stream
        held = sum(not other.rejected and other.closed is None and other.lost is None for other in self.streams.values())
        if held > self.gateway.terms.max_streams:
            self.gateway.breach(
                "max-streams", f"it has {counted(held, 'stream')} open; max_streams is {self.gateway.terms.max_streams}"
            )
        self.gateway.asked(self, stream)

    def _take_frame(self, frame: Frame) -> None:
        self.frames.append(frame)
        stream = self.streams.get(frame.stream_id)
        if stream is None:
            self.gateway.breach("parked", f"a frame with the stream id {frame.stream_id}, which was never opened")
            return
        if frame.count:
            self._charge(stream, frame)
        if len(frame.cursor) > (most := self.gateway.terms.max_cursor_bytes):
            self.gateway.breach("frames", f"{stream.name}: a cursor of {len(frame.cursor)} bytes; at most {most} are allowed")
        if stream.rejected:
            self._release(stream)
            return
        if not stream.usable:
            state = "closed by the connector" if stream.opened else "not opened yet"
            self.gateway.breach("parked", f"a frame of {stream.name}, which is {state}")
        stream.frames.append(frame)
        try:
            messages = decode(frame)
        except MalformedFrame as error:
            self.gateway.breach("frames", f"{stream.name}, frame from sequence {frame.first_sequence}: {error}")
            messages = values_alone(frame)
        if not frame.count:
            self._check_lone_cursor(stream, frame)
            return
        before = len(stream.messages)
        for message in messages:
            self._check_sequence(stream, message.sequence)
            stream.last = max(message.sequence, -1 if stream.last is None else stream.last)
            stream.add(message)
            self.gateway.keep(stream, message)
        if len(stream.messages) == before:
            self._return_credit([stream.outstanding.pop()])
        self.gateway.framed(self, stream, frame)

    def _take_frames(self, several: pb.Frames) -> None:
        count, size = len(several.frames), sum(frame.ByteSize() for frame in several.frames)
        if pb.CAPABILITY_FRAMES not in self.gateway.capabilities:
            self.gateway.breach(
                "shared-messages", f"{counted(count, 'frame')} in one message; Welcome does not list CAPABILITY_FRAMES"
            )
        if not 1 <= count <= MAX_FRAMES:
            self.gateway.breach("shared-messages", f"{counted(count, 'frame')} in one message; 1 to {MAX_FRAMES} are allowed")
        if count > 1 and size > self.gateway.terms.max_frame_bytes:
            most = self.gateway.terms.max_frame_bytes
            self.gateway.breach(
                "shared-messages", f"{counted(count, 'frame')} of {size} bytes in one message; at most {most} are allowed"
            )
        for frame in several.frames:
            self._take_frame(frame)

    def _check_lone_cursor(self, stream: Stream, frame: Frame) -> None:
        text = f"{stream.name}: a frame without messages at sequence {frame.first_sequence}"
        if pb.CAPABILITY_CURSORS not in self.gateway.capabilities:
            self.gateway.breach("frames", f"{text}; Welcome does not list CAPABILITY_CURSORS")
        if stream.kind != pb.SOURCE_KIND_REPLAYABLE:
            self.gateway.breach("frames", f"{text}; only a replayable source may send one")
        place = stream.last if stream.last is not None else stream.resume.sequence if stream.resume is not None else 0
        if frame.first_sequence != place:
            self.gateway.breach("frames", f"{text}; it must stand after {place}, the last one")
        self.gateway.moved(stream, frame)

    def _check_sequence(self, stream: Stream, sequence: int) -> None:
        if stream.last is not None and sequence <= stream.last:
            self.gateway.breach("sequences", f"{stream.name}: sequence {sequence} follows {stream.last}")
        if sequence > MAX_SEQUENCE:
            self.gateway.breach("sequences", f"{stream.name}: sequence {sequence} is larger than 2**63 - 1")
        if stream.kind != pb.SOURCE_KIND_REPLAYABLE and sequence == 0:
            self.gateway.breach("sequences", f"{stream.name}: a source that counts its messages sends sequence 0, not 1")

    def _charge(self, stream: Stream, frame: Frame) -> None:
        """Takes what a frame uses from the credit; a stream's own is spent first, and what is left of it is the session's."""
        terms = self.gateway.terms
        size = frame.ByteSize()
        if size > terms.max_frame_bytes:
            self.gateway.breach("frame-limits", f"{size} bytes in a frame; at most {terms.max_frame_bytes} are allowed")
        if frame.count > terms.max_frame_messages:
            self.gateway.breach(
                "frame-limits", f"{counted(frame.count, 'message')} in a frame; at most {terms.max_frame_messages} are allowed"
            )
        self._return_loan(stream)
        charged = size + terms.frame_overhead_bytes
        self.credit_bytes -= charged
        self.credit_messages -= frame.count
        stream.outstanding.append(Outstanding(_last_of(frame), charged, frame.count))
        where = f"{stream.name}, frame of {counted(frame.count, 'message')} and {size} bytes + {terms.frame_overhead_bytes}"
        # Credit that another stream alone may spend would have been enough: then it was spent on the wrong stream.
        lent_bytes = sum(other.lent_bytes for other in self.streams.values())
        lent_messages = sum(other.lent_messages for other in self.streams.values())
        if self.credit_bytes < 0:
            check = "stream-credit" if self.credit_bytes + lent_bytes >= 0 else "credit-bytes"
            self.gateway.breach(check, f"{where}: {-self.credit_bytes} bytes more than it has credit for")
        if self.credit_messages < 0:
            check = "stream-credit" if self.credit_messages + lent_messages >= 0 else "credit-messages"
            self.gateway.breach(check, f"{where}: {counted(-self.credit_messages, 'message')} more than it has credit for")

    def _return_loan(self, stream: Stream) -> None:
        self.credit_bytes += stream.lent_bytes
        self.credit_messages += stream.lent_messages
        stream.lent_bytes = stream.lent_messages = 0

    def _release(self, stream: Stream) -> None:
        """Returns the credit of all frames of a stream that are dropped."""
        self._return_loan(stream)
        self._return_credit(stream.outstanding)
        stream.outstanding = []

    def _return_credit(self, frames: list[Outstanding]) -> None:
        """Returns what frames used that are dropped: all of their messages are at or before what the gateway has."""
        if frames:
            self.grant(sum(frame.bytes for frame in frames), sum(frame.messages for frame in frames))

    def _take_credit_request(self, request: pb.CreditRequest) -> None:
        stream = self._known(request.stream_id, "credit_request")
        stream.requests.append(request)
        self.gateway.requested(self, stream, request)

    def _known(self, stream_id: int, kind: str) -> Stream:
        """A stream by its id; one that was never opened is a breach."""
        if stream_id not in self.streams:
            self.gateway.breach("stream-ids", f"{kind} names the stream id {stream_id}, which was never opened")
            return Stream(stream_id, "?/?", pb.SOURCE_KIND_UNSPECIFIED, False)
        return self.streams[stream_id]


def _last_of(frame: Frame) -> int:
    """The last sequence of a frame, as far as it can be told."""
    try:
        return sequences(frame)[-1]
    except MalformedFrame:
        return frame.first_sequence


def at(sequence: int, cursor: bytes | None = None) -> Position:
    """A position of a replayable stream."""
    return Position(sequence=sequence, cursor=cursor)
