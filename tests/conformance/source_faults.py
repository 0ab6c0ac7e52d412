"""Sources that break one rule each, by the name of the check that must catch them."""

import argparse
import asyncio
import dataclasses
import struct
import sys
import time
from collections.abc import Sequence

import grpc
import grpc.aio
from tests.conformance.connector import Ended, parser
from tests.conformance.session_faults import CLOSE_FAULTS, SESSION_FAULTS
from tests.conformance.source import FRAME_MESSAGES, Row, Source, Stream

from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb


class GreetsTwice(Source):
    async def begin(self) -> None:
        await super().begin()
        await super().begin()


class SendsWhileParked(Source):
    """It loses its patience when it is parked for a while."""

    async def ask(self, stream: Stream) -> None:
        await super().ask(stream)
        stream.ask_at = time.monotonic()

    def may_send(self, stream: Stream) -> bool:
        parked = stream.asked and not stream.open and time.monotonic() - stream.ask_at > 0.3
        if parked and not stream.rows:
            stream.rows = self.read(stream)
        return parked or super().may_send(stream)

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        if stream.at:
            stream.open = True
        else:
            super().opened(stream, opened)


class ChoosesStartsUndeclared(Source):
    async def ask(self, stream: Stream) -> None:
        stream.id, stream.asked = self.new_id(stream), True
        await self.send(open_stream=pb.OpenStream(stream_id=stream.id, stream=stream.name, kind=self.kind, chooses_start=True))


class UsesAnIdAgain(Source):
    def new_id(self, stream: Stream) -> int:
        return self.names().index(stream.name) + 1


class SkipsAMessageWhereItResumes(Source):
    """Only after even positions, as something that reads pairs would."""

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        if opened.HasField("resume") and opened.resume.sequence % 2 == 0:
            stream.at += 1


class ChangesItsMessages(Source):
    def read(self, stream: Stream) -> list[Row]:
        rows = super().read(stream)
        if stream.open and not stream.rows:
            rows[0] = dataclasses.replace(rows[0], value=f"{rows[0].value} read by {self.start_id}")
        return rows


class GoesOnWhereItWasAfterReopen(Source):
    def welcomed(self, response: pb.IngestResponse) -> None:
        super().welcomed(response)
        self.sent: dict[str, int] = {}

    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        if stream.open:
            self.sent[stream.name] = stream.at
        super().rejected(stream, reject)

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        stream.at = max(stream.at, self.sent.get(stream.name, 0))


class AsksAgainAtOnce(Source):
    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        super().rejected(stream, pb.Reject(stream_id=reject.stream_id, reason=reject.reason))


class InsistsOnAStream(Source):
    def rejected(self, stream: Stream, reject: pb.Reject) -> None:
        again = pb.Reject(stream_id=reject.stream_id, reason=pb.REJECT_REASON_REOPEN, retry_after_ms=100)
        super().rejected(stream, again if reject.reason == pb.REJECT_REASON_NOT_PERMITTED else reject)


class OpensAllStreams(Source):
    def max_streams(self) -> int:
        return 1000


class StepsBack(Source):
    """It sends the last message of the frame before again, where there is room for it."""

    def pack(self, stream: Stream, rows: list[Row]) -> frame_pb2.Frame:
        room = 1 < len(rows) < FRAME_MESSAGES < self.limits.max_frame_messages
        if not room or self.redelivering or stream.at <= stream.resume:
            return super().pack(stream, rows)
        stream.at -= 1
        frame = super().pack(stream, [stream.rows[stream.at], *rows])
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


class SharesMessagesUnasked(Source):
    async def send(self, **message: object) -> None:
        if (frame := message.get("frame")) is not None:
            message = {"frames": pb.Frames(frames=[frame])}
        await super().send(**message)


class ForgetsSomeBytes(Source):
    def charge(self, frame: frame_pb2.Frame) -> int:
        return super().charge(frame) - 3


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
        waits = not sent and self.credit_messages == 0
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
    """With each Ack it notes how far it has sent, and continues there after a restart."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.noted = {path.stem: int(path.read_text()) for path in self.folder.glob("*.sent")}

    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        stream.at = max(stream.at, self.noted.get(stream.file, 0))

    def take_ack(self, stream: Stream, sequence: int) -> None:
        super().take_ack(stream, sequence)
        (self.folder / f"{stream.file}.sent").write_text(str(stream.at))


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


class SkipsToTheEarlierPosition(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        stream.at += opened.earlier.sequence


class LeavesOutWhatFollowsACursor(Source):
    def opened(self, stream: Stream, opened: pb.StreamOpened) -> None:
        super().opened(stream, opened)
        if opened.resume.cursor:
            stream.at = stream.begun = min(stream.at + 1, len(stream.rows))


class CountsItsCursorsDown(Source):
    def pack(self, stream: Stream, rows: list[Row]) -> frame_pb2.Frame:
        frame = super().pack(stream, rows)
        frame.cursor = b"%010d" % (10**9 - rows[-1].place)
        return frame


class SendsAfterDrain(Source):
    def drained(self, drain: pb.Drain) -> None:
        self.drain_at = time.monotonic() + drain.deadline_ms / 1000 * 0.5
        asyncio.get_running_loop().call_later(0.5, super().drained, drain)


class EndsWithoutClosing(Source):
    async def close(self, stream: Stream) -> None:
        stream.closed = True


class OffersAgainWhatIsGone(Source):
    def forget(self) -> None:
        pass


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
    "parked": SendsWhileParked,
    "kind": ChoosesStartsUndeclared,
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
    "shared-messages": SharesMessagesUnasked,
    "credit-bytes": ForgetsSomeBytes,
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
    "earlier-epoch": SkipsToTheEarlierPosition,
    "resume-cursor": LeavesOutWhatFollowsACursor,
    "cursor-order": CountsItsCursorsDown,
    "drain": SendsAfterDrain,
    "end-of-stream": EndsWithoutClosing,
    "gone": OffersAgainWhatIsGone,
    "last-acks": LeavesBeforeTheLastAck,
    "reopen-after-end": ForgetsStreamsThatHaveEnded,
    "position-lost": GoesOnAfterWhatIsLost,
    "starts": NamesOneStreamOnly,
}
"""A fault for each check."""

MORE_FAULTS: dict[str, type[Source]] = {name: type(fault.__name__, (fault, Source), {}) for name, fault in CLOSE_FAULTS.items()}
"""Further faults, after the name of the check that must catch it."""


def connector(words: Sequence[str] | None = None) -> Source:
    """The source that a command line describes."""
    options = parser()
    options.add_argument("--kind", default="replayable")
    options.add_argument("--ends", action="store_true")
    options.add_argument("--gone", action="store_true")
    options.add_argument("--chooses-start", action="store_true")
    options.add_argument("--needs-all", action="store_true")
    given = options.parse_args(words)
    return (FAULTS | MORE_FAULTS).get(given.fault, Source)(given)


if __name__ == "__main__":
    sys.exit(asyncio.run(connector().run_as_program()))
