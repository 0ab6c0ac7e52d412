"""Sources that break one rule each, by the name of the check that must catch them."""

import asyncio
import dataclasses
import os
import struct
import time

import grpc
import grpc.aio
from tests.conformance.connector import Ended
from tests.conformance.session_faults import SESSION_FAULTS
from tests.conformance.source import FRAME_MESSAGES, Row, Source, Stream

from headrace.protocol.v1 import connector_pb2, frame_pb2
from headrace.protocol.v1 import source_pb2 as pb


class GreetsTwice(Source):
    async def begin(self) -> None:
        await super().begin()
        await super().begin()


class ReportsUnasked(Source):
    async def ask(self, stream: Stream) -> None:
        await super().ask(stream)
        await self.send(report=connector_pb2.Report(state=connector_pb2.CONNECTOR_STATE_RUNNING))


class SendsWhileParked(Source):
    def may_send(self, stream: Stream) -> bool:
        if stream.asked and not stream.open and not stream.rows:
            stream.rows = self.read(stream)
        return stream.asked and not stream.closed


class SaysAnotherKind(Source):
    async def ask(self, stream: Stream) -> None:
        stream.id, stream.asked = self.new_id(stream), True
        kind = pb.SOURCE_KIND_REPLAYABLE if self.redelivering else pb.SOURCE_KIND_REDELIVERING
        await self.send(open_stream=pb.OpenStream(stream_id=stream.id, stream=stream.name, kind=kind))


class UsesAnIdAgain(Source):
    def new_id(self, stream: Stream) -> int:
        return self.names().index(stream.name) + 1


class SkipsAMessageWhereItResumes(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        if opened.HasField("resume") and self.last_id <= 2:
            stream.at += 1


class ChangesItsMessages(Source):
    def read(self, stream: Stream) -> list[Row]:
        rows = super().read(stream)
        if stream.open and not stream.rows:
            rows[0] = dataclasses.replace(rows[0], value=f"{rows[0].value} read by {os.getpid()}")
        return rows


class GoesOnWhereItWasAfterReopen(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        if self.last_id > 2:
            stream.at = len(stream.rows)


class AsksAgainAtOnce(Source):
    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        super().rejected(stream, pb.Reject(stream_id=reject.stream_id, reason=reject.reason))


class InsistsOnAStream(Source):
    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        again = pb.Reject(stream_id=reject.stream_id, reason=pb.REJECT_REASON_REOPEN, retry_after_ms=100)
        super().rejected(stream, again if reject.reason == pb.REJECT_REASON_NOT_PERMITTED else reject)


class OpensAllStreams(Source):
    def most_streams(self) -> int:
        return 1000


class StepsBack(Source):
    def pack(self, stream: Stream, rows: list[Row]) -> frame_pb2.Frame:
        frame = super().pack(stream, rows)
        if stream.at > stream.resume and not self.redelivering:
            again = [stream.rows[stream.at - 1], *rows][: len(rows) + 1]
            stream.at -= 1
            frame = super().pack(stream, again)
            stream.at += 1
        return frame


class MiscountsItsHeaders(Source):
    def pack(self, stream: Stream, rows: list[Row]) -> frame_pb2.Frame:
        frame = super().pack(stream, rows)
        frame.header_counts = struct.pack("<I", 0) * (len(rows) + 1)
        return frame


class MakesLargeFrames(Source):
    def welcomed(self, response: pb.IngestResponse) -> None:
        response.welcome.max_frame_messages = FRAME_MESSAGES
        super().welcomed(response)


class ForgetsTheOverhead(Source):
    def charge(self, frame: frame_pb2.Frame) -> int:
        return frame.ByteSize()


class CountsOnlyBytes(Source):
    def fits(self, frame: frame_pb2.Frame, own_bytes: int, own_messages: int) -> bool:
        return self.charge(frame) <= own_bytes and own_messages > 0


class TakesCreditFromAcksAlone(Source):
    def take_credit(self, credit: pb.Credit) -> None:
        if not credit.HasField("stream_id") and credit.bytes == 0:
            return
        super().take_credit(credit)


class AsksForNoCredit(Source):
    async def request(self, stream: Stream, frame: frame_pb2.Frame) -> None:
        stream.requested = frame.ByteSize()


class SpendsTheCreditOfOthers(Source):
    def take_credit(self, credit: pb.Credit) -> None:
        self.grant(credit)

    def sendable(self) -> list[Stream]:
        self.turn = 0
        return super().sendable()


class EndsWithoutCredit(Source):
    starved_since: float | None = None

    async def step(self) -> bool:
        sent = await super().step()
        waits = not sent and any(stream.open and stream.at < len(stream.rows) for stream in self.streams)
        self.starved_since = (self.starved_since or time.monotonic()) if waits else None
        if self.starved_since is not None and time.monotonic() - self.starved_since > 0.8:
            raise Ended
        return sent


class KeepsTheLastMessage(Source):
    def gathered(self, stream: Stream) -> bool:
        return super().gathered(stream) and (len(stream.rows) - stream.at > 1 or stream.at < 16 or len(stream.rows) == 15)


class IgnoresPace(Source):
    def gathered(self, stream: Stream) -> bool:
        return True


class NeverSaysThatItHasCaughtUp(Source):
    def latest(self, stream: Stream) -> int:
        return stream.next + 10


class LeavesEmptyMessagesOut(Source):
    def read(self, stream: Stream) -> list[Row]:
        return [row for row in super().read(stream) if row.value]


class CutsLongMessages(Source):
    def read(self, stream: Stream) -> list[Row]:
        return [dataclasses.replace(row, value=row.value[:1000]) for row in super().read(stream)]


class TakesOnlyAcksOfOneStream(Source):
    async def take(self, response: pb.IngestResponse) -> None:
        if len(response.ack.streams) > 1:
            raise Ended
        await super().take(response)


class WaitsForAcksThatItHas(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        if opened.HasField("resume") and opened.resume == opened.acknowledged:
            stream.acked = 0


class GivesUpOnASlowGateway(Source):
    async def begin(self) -> None:
        await super().begin()
        read = self.call.read

        async def in_time() -> object:
            self.call.read = read  # type: ignore[method-assign]
            try:
                return await asyncio.wait_for(read(), 1.0)
            except TimeoutError:
                raise Ended from None

        self.call.read = in_time  # type: ignore[method-assign]


class GivesUpWhereTheConnectionBreaks(Source):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) and not (
            error.code() is grpc.StatusCode.UNAVAILABLE and "connect" in str(error.details())
        )


class NotesWhatItHasSent(Source):
    """It keeps its own position, which is past what is acknowledged."""

    def read(self, stream: Stream) -> list[Row]:
        rows = super().read(stream)
        noted = self.folder / f"{stream.file}.sent"
        if not stream.rows:
            self.skip = int(noted.read_text()) if noted.exists() else 0
            return [row for row in rows if row.place > self.skip]
        return [row for row in rows if row.place > self.skip]

    async def try_to_send(self, stream: Stream) -> bool:
        sent = await super().try_to_send(stream)
        (self.folder / f"{stream.file}.sent").write_text(str(stream.rows[stream.at - 1].place if stream.at else 0))
        return sent


class SettlesNothing(Source):
    def settle(self, stream: Stream, upto: int) -> None:
        pass


class CountsOn(Source):
    sent_before = 0

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        self.offset = opened.epoch

    def sequence(self, stream: Stream, index: int) -> int:
        return super().sequence(stream, index) + (100 * self.last_id if self.last_id > 2 else 0)

    def settle(self, stream: Stream, upto: int) -> None:
        super().settle(stream, upto % 100)


class SendsAfterDrain(Source):
    def drained(self, drain: pb.Drain) -> None:
        self.drain_at = time.monotonic() + drain.deadline_ms / 1000 * 0.5
        asyncio.get_running_loop().call_later(0.5, super().drained, drain)


class EndsWithoutClosing(Source):
    async def close(self, stream: Stream) -> None:
        stream.closed = True


class LeavesBeforeTheLastAck(Source):
    def finished(self) -> bool:
        return bool(self.options.ends) and all(stream.closed for stream in self.streams)


class ForgetsStreamsThatHaveEnded(Source):
    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        if not stream.closed:
            super().rejected(stream, reject)


class GoesOnAfterWhatIsLost(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        stream.lost = False


class NamesOneStreamOnly(Source):
    def streams_with_starts(self) -> list[Stream]:
        return super().streams_with_starts()[:1]


FAULTS: dict[str, type[Source]] = {
    **{name: type(fault.__name__, (fault, Source), {}) for name, fault in SESSION_FAULTS.items()},
    "hello": GreetsTwice,
    "unknown-capability": ReportsUnasked,
    "parked": SendsWhileParked,
    "kind": SaysAnotherKind,
    "stream-ids": UsesAnIdAgain,
    "resume": SkipsAMessageWhereItResumes,
    "replay": ChangesItsMessages,
    "reopen": GoesOnWhereItWasAfterReopen,
    "owned": AsksAgainAtOnce,
    "not-permitted": InsistsOnAStream,
    "max-streams": OpensAllStreams,
    "sequences": StepsBack,
    "frames": MiscountsItsHeaders,
    "frame-limits": MakesLargeFrames,
    "credit-bytes": ForgetsTheOverhead,
    "credit-messages": CountsOnlyBytes,
    "credit-returns": TakesCreditFromAcksAlone,
    "credit-requests": AsksForNoCredit,
    "stream-credit": SpendsTheCreditOfOthers,
    "starvation": EndsWithoutCredit,
    "idle": KeepsTheLastMessage,
    "pace": IgnoresPace,
    "backlog": NeverSaysThatItHasCaughtUp,
    "empty-message": LeavesEmptyMessagesOut,
    "largest-message": CutsLongMessages,
    "acks": TakesOnlyAcksOfOneStream,
    "lost-acks": WaitsForAcksThatItHas,
    "slow-gateway": GivesUpOnASlowGateway,
    "gateway-restart": GivesUpWhereTheConnectionBreaks,
    "crash": NotesWhatItHasSent,
    "redelivery": SettlesNothing,
    "epochs": CountsOn,
    "drain": SendsAfterDrain,
    "end-of-stream": EndsWithoutClosing,
    "last-acks": LeavesBeforeTheLastAck,
    "reopen-after-end": ForgetsStreamsThatHaveEnded,
    "position-lost": GoesOnAfterWhatIsLost,
    "starts": NamesOneStreamOnly,
}
"""A fault for each check."""
