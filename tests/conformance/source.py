"""A small source on the raw protocol that keeps every rule. `source_faults` runs it, and has subclasses that break one rule each.

Its data is in files of a folder: `0.jsonl`, `1.jsonl` and so on are its streams, with the value of a message, as text, on each
line. Sequences are the numbers of lines. A redelivering source notes in `0.acked` what was acknowledged. The cursors
of a resumable one are the numbers of lines.
"""

import argparse
import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
from tests.conformance.connector import Connector

from headrace.contract.columns import NULL_LENGTH
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub

FRAME_MESSAGES = 8


@dataclass(frozen=True)
class Row:
    """A message, with its place in the file from 1."""

    place: int
    value: str


@dataclass(eq=False)
class Stream:
    """One stream of a session."""

    name: str
    id: int = 0
    ask_at: float = 0.0
    denied: bool = False
    asked: bool = False
    open: bool = False
    lost: bool = False
    closed: bool = False
    resume: int = 0
    begun: int = 0
    """Of a resumable source, how many rows come before the first that it sends."""
    next: int = 1
    """The sequence of the next message."""
    at: int = 0
    """How many of the rows that are to be sent were sent."""
    acked: int = 0
    rows: list[Row] = field(default_factory=list)
    skip_lost: bool = False
    requested: int = 0
    lent_bytes: int = 0
    lent_messages: int = 0
    reported: int | None = None
    gathering_since: float | None = None

    @property
    def file(self) -> str:
        return self.name.partition("/")[2]

    @property
    def settled(self) -> bool:
        return not self.open or self.acked >= self.next - 1


class Source(Connector):
    """The source."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.folder = Path(options.folder)
        self.redelivering = options.kind == "redelivering"
        self.resumable = options.kind == "resumable"
        self.kind = pb.SourceKind.Value(f"SOURCE_KIND_{options.kind.upper()}")
        self.starts: dict[str, int] = {}

    # Its data

    def names(self) -> list[str]:
        return sorted(f"lines/{path.stem}" for path in self.folder.glob("*.jsonl"))

    def read(self, stream: Stream) -> list[Row]:
        """What there is to send of a stream in this session, from its beginning."""
        lines = (self.folder / f"{stream.file}.jsonl").read_text().split("\n")[:-1]
        rows = [Row(place, json.loads(line)) for place, line in enumerate(lines, 1)]
        return [row for row in rows if row.place not in self.acknowledged(stream)] if self.redelivering else rows

    def acknowledged(self, stream: Stream) -> set[int]:
        """The acknowledgements that the queue had of a redelivering stream when the stream was opened."""
        file = self.folder / f"{stream.file}.acked"
        return set(map(int, file.read_text().split())) if file.exists() else set()

    def first_kept(self, stream: Stream) -> int:
        """The first row that was not deleted."""
        file = self.folder / f"{stream.file}.deleted"
        return int(file.read_text()) + 1 if file.exists() else 1

    def settle(self, stream: Stream, upto: int) -> None:
        """Tells the queue what is acknowledged."""
        rows = stream.rows[stream.acked : upto]
        with (self.folder / f"{stream.file}.acked").open("a") as file:
            file.write("".join(f"{row.place}\n" for row in rows))

    def forget(self) -> None:
        """Deletes everything: it is acknowledged, and never offered again."""
        for path in self.folder.glob("*.jsonl"):
            path.unlink()

    # Sessions

    def dial(self, channel: grpc.aio.Channel) -> Any:
        return SourceServiceStub(channel).Ingest(metadata=self.metadata())

    def hello(self) -> pb.Hello:
        return pb.Hello(
            protocol_version=1,
            connector="raw-source",
            connector_version="1",
            instance=self.instance,
            capabilities=[pb.CAPABILITY_PACE, pb.CAPABILITY_HEARTBEAT],
        )

    async def begin(self) -> None:
        await self.send(hello=self.hello())

    async def goodbye(self, reason: str) -> None:
        if self.options.gone and self.finished():
            self.forget()
        await self.send(goodbye=pb.Goodbye(reason=reason))
        await self.to_the_end()

    async def send(self, **message: object) -> None:
        async with self.writing:  # A heartbeat and an answer may be due at once, and a call takes one at a time.
            await self.call.write(pb.IngestRequest(**message))  # type: ignore[arg-type]

    def welcomed(self, response: pb.IngestResponse) -> None:
        welcome = response.welcome
        self.limits = welcome
        self.overhead = welcome.frame_overhead_bytes
        self.credit_bytes = welcome.credit.bytes
        self.credit_messages = welcome.credit.messages
        self.linger = welcome.pace.linger_ms / 1000
        self.last_id = 0
        self.turn = 0
        self.wanted = False
        self.streams = [Stream(name) for name in self.names()]

    async def take(self, response: pb.IngestResponse) -> None:
        match response.WhichOneof("message"):
            case "stream_opened":
                if (stream := self.stream(response.stream_opened.stream_id)) is not None:
                    self.opened(stream, response.stream_opened)
            case "ack":
                for ack in response.ack.streams:
                    if (stream := self.stream(ack.stream_id)) is not None:
                        self.take_ack(stream, ack.position.sequence)
                self.grant(response.ack.credit)
            case "credit":
                self.take_credit(response.credit)
            case "pace":
                self.linger = response.pace.linger_ms / 1000
            case "reject":
                if (stream := self.stream(response.reject.stream_id)) is not None:
                    self.rejected(stream, response.reject)
            case "drain":
                self.drained(response.drain)
            case "starts_wanted":
                self.wanted = True
            case _:
                self.unknown()

    def stream(self, stream_id: int) -> Stream | None:
        return next((stream for stream in self.streams if stream.id == stream_id and stream_id), None)

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        stream.open = True
        stream.skip_lost = opened.skip_lost
        stream.rows = self.read(stream)
        if self.redelivering:
            return
        if self.resumable:
            stream.at = stream.begun = int(opened.resume.cursor or b"0")
            stream.resume = stream.acked = opened.resume.sequence
            stream.next = stream.resume + 1
            return
        stream.resume = opened.resume.sequence
        stream.acked = opened.acknowledged.sequence
        stream.at = sum(row.place <= stream.resume for row in stream.rows)
        stream.next = stream.resume + 1
        if stream.at + 1 < self.first_kept(stream):
            stream.lost = not stream.skip_lost
            stream.at = self.first_kept(stream) - 1

    def take_ack(self, stream: Stream, sequence: int) -> None:
        if self.redelivering:
            self.settle(stream, sequence)
        stream.acked = max(stream.acked, sequence)

    def grant(self, credit: pb.Credit) -> None:
        self.credit_bytes += credit.bytes
        self.credit_messages += credit.messages

    def take_credit(self, credit: pb.Credit) -> None:
        stream = self.stream(credit.stream_id) if credit.HasField("stream_id") else None
        if stream is None:
            self.grant(credit)
        else:
            stream.lent_bytes += credit.bytes
            stream.lent_messages += credit.messages

    def return_loan(self, stream: Stream) -> None:
        self.credit_bytes += stream.lent_bytes
        self.credit_messages += stream.lent_messages
        stream.lent_bytes = stream.lent_messages = 0

    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        self.return_loan(stream)
        ask_at = time.monotonic() + reject.retry_after_ms / 1000
        denied = reject.reason == pb.REJECT_REASON_NOT_PERMITTED
        self.streams[self.streams.index(stream)] = Stream(stream.name, ask_at=ask_at, denied=denied)

    def settled(self) -> bool:
        return all(stream.settled for stream in self.streams)

    def finished(self) -> bool:
        return self.options.ends and all(stream.closed and stream.settled for stream in self.streams)

    # What it does

    async def step(self) -> bool:
        """Does what can be done now; returns whether it has sent a frame."""
        if self.leave_by:
            return False
        if self.options.needs_all and len(self.streams) > self.limits.max_streams:
            self.stop()
            return False
        for stream in list(self.streams):
            if not stream.asked and not stream.denied and time.monotonic() >= stream.ask_at and self.held() < self.max_streams():
                await self.ask(stream)
            if stream.open and stream.lost:
                await self.say_lost(stream)
        if self.wanted:
            self.wanted = False
            await self.say_starts()
        return await self.send_frame()

    def held(self) -> int:
        return sum(stream.asked and not stream.closed for stream in self.streams)

    def max_streams(self) -> int:
        return self.limits.max_streams

    def new_id(self, stream: Stream) -> int:
        self.last_id += 1
        return self.last_id

    async def ask(self, stream: Stream) -> None:
        stream.id, stream.asked = self.new_id(stream), True
        chooses = self.options.chooses_start
        opens = pb.OpenStream(stream_id=stream.id, stream=stream.name, kind=self.kind, chooses_start=chooses)
        await self.send(open_stream=opens)

    async def say_lost(self, stream: Stream) -> None:
        lost = pb.PositionLost(stream_id=stream.id, earliest_sequence=self.first_kept(stream), reason="deleted")
        await self.send(position_lost=lost)
        stream.open = False

    async def say_starts(self) -> None:
        answer = pb.Starts()
        for stream in self.streams_with_starts():
            sequence = self.start_of(stream)
            position = frame_pb2.Position(sequence=sequence) if sequence else None
            answer.streams.add(stream_id=stream.id, position=position)
        await self.send(starts=answer)

    def streams_with_starts(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.asked]

    def start_of(self, stream: Stream) -> int:
        """The end of the file when it was asked first."""
        return self.starts.setdefault(stream.name, len(self.read(stream)))

    def sendable(self) -> list[Stream]:
        """The streams that may send, the one whose turn it is first."""
        self.turn %= max(1, len(self.streams))
        order = self.streams[self.turn :] + self.streams[: self.turn]
        return [stream for stream in order if self.may_send(stream)]

    def may_send(self, stream: Stream) -> bool:
        return stream.open and not stream.lost and not stream.closed

    async def send_frame(self) -> bool:
        waiting = []
        for stream in self.sendable():
            if stream.at == len(stream.rows):
                self.look_again(stream)
            if stream.at < len(stream.rows):
                waiting.append(stream)
            else:
                await self.caught_up(stream)
        ready = [stream for stream in waiting if self.gathered(stream)]
        for stream in ready:
            if stream.lent_bytes or stream.lent_messages:
                return await self.try_to_send(stream)
        for stream in ready:
            if await self.try_to_send(stream):
                self.turn += 1
                return True
        return False

    def look_again(self, stream: Stream) -> None:
        """Finds what was added to the file."""
        stream.rows += self.read_queue(stream) if self.redelivering else self.read(stream)[len(stream.rows) :]

    def read_queue(self, stream: Stream) -> list[Row]:
        seen = {row.place for row in stream.rows}
        return [row for row in self.read(stream) if row.place not in seen]

    def gathered(self, stream: Stream) -> bool:
        """Whether it has gathered for as long as Pace says, or a frame is full."""
        if stream.gathering_since is None:
            stream.gathering_since = time.monotonic()
        self.look_again(stream)
        full = len(stream.rows) - stream.at >= FRAME_MESSAGES
        return full or time.monotonic() - stream.gathering_since >= self.linger

    async def try_to_send(self, stream: Stream) -> bool:
        """Sends a frame of a stream, if credit allows it; else asks for credit."""
        own_messages = self.credit_messages + stream.lent_messages
        own_bytes = self.credit_bytes + stream.lent_bytes
        most = min(FRAME_MESSAGES, self.limits.max_frame_messages)
        rows = stream.rows[stream.at : stream.at + most]
        while True:
            frame = self.pack(stream, rows)
            fits = self.fits(frame, own_bytes, own_messages)
            if fits and frame.ByteSize() <= self.max_bytes():
                break
            if len(rows) == 1:
                await self.request(stream, frame)
                return False
            rows = rows[: max(1, len(rows) // 2)]
        self.return_loan(stream)
        self.credit_bytes -= self.charge(frame)
        self.credit_messages -= frame.count
        stream.next = self.sequence(stream, len(rows) - 1) + 1
        stream.at += len(rows)
        stream.requested, stream.gathering_since = 0, None
        await self.send(frame=frame)
        return True

    def max_bytes(self) -> int:
        return self.limits.max_frame_bytes

    def charge(self, frame: frame_pb2.Frame) -> int:
        return frame.ByteSize() + self.overhead

    def fits(self, frame: frame_pb2.Frame, own_bytes: int, own_messages: int) -> bool:
        return self.charge(frame) <= own_bytes and frame.count <= own_messages

    def sequence(self, stream: Stream, index: int) -> int:
        """The sequence of a row, by its place among the rows that are not sent."""
        if self.resumable:
            return stream.resume + stream.at - stream.begun + index + 1
        return stream.at + index + 1 if self.redelivering else stream.rows[stream.at + index].place

    def pack(self, stream: Stream, rows: list[Row]) -> frame_pb2.Frame:
        values = [row.value.encode() for row in rows]
        frame = frame_pb2.Frame(stream_id=stream.id, first_sequence=self.sequence(stream, 0), count=len(rows))
        frame.values = b"".join(values)
        frame.value_lengths = b"".join(struct.pack("<I", len(value)) for value in values)
        keys = [b"%d" % (row.place % 3) if row.place % 2 else None for row in rows]
        if any(key is not None for key in keys):
            frame.keys = b"".join(key or b"" for key in keys)
            frame.key_lengths = b"".join(struct.pack("<I", NULL_LENGTH if key is None else len(key)) for key in keys)
        frame.cursor = b"%010d" % rows[-1].place if self.resumable else b"%d" % self.sequence(stream, len(rows) - 1)
        return frame

    async def request(self, stream: Stream, frame: frame_pb2.Frame) -> None:
        if stream.requested >= frame.ByteSize():
            return
        stream.requested = frame.ByteSize()
        await self.send(
            credit_request=pb.CreditRequest(
                stream_id=stream.id,
                bytes=frame.ByteSize(),
                messages=frame.count,
                ready_bytes=frame.ByteSize(),
                ready_messages=frame.count,
            )
        )

    async def caught_up(self, stream: Stream) -> None:
        """Reports that nothing is left, and ends the stream where the source ends."""
        if stream.reported != stream.next:
            stream.reported = stream.next
            await self.send(backlog=pb.Backlog(stream_id=stream.id, latest_sequence=self.latest(stream), messages=0))
        if self.options.ends:
            await self.close(stream)

    def latest(self, stream: Stream) -> int:
        return stream.next - 1

    async def close(self, stream: Stream) -> None:
        stream.closed = True
        gone = self.options.gone
        await self.send(close_stream=pb.CloseStream(stream_id=stream.id, end_of_stream=True, gone=gone))
