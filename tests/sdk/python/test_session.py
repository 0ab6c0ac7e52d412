"""A connector within a session, whatever the source."""

import asyncio
import threading
from array import array
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sources import FRAME_OVERHEAD

from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk import (
    AsyncSource,
    Backlog,
    Batch,
    FrameTarget,
    GatewayRefused,
    InvalidMessage,
    InvalidSource,
    Message,
    MessageTooLarge,
    Packed,
    Position,
    PositionLost,
    SessionTakenOver,
    Settings,
    Source,
    SourceFailed,
    SourceKind,
    StreamNotPermitted,
    decode_frame,
)


class Log(Source):
    """A log in memory: sequences 1, 2, ...; ends, or continues."""

    name = "log"
    version = "7"

    def __init__(self, values: list[bytes], *, ends: bool = True) -> None:
        self.values = values
        self.ends = ends
        self.reads: list[Position | None] = []
        self.acks: list[int] = []
        self.closed = 0

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        self.reads.append(position)
        at = position.sequence if position else 0
        try:
            while at < len(self.values) or not self.ends:
                if at == len(self.values):
                    yield None
                    continue
                at += 1
                yield Message(self.values[at - 1], sequence=at, cursor=b"%d" % at)
        finally:
            self.closed += 1

    def acknowledged(self, partition: str, position: Position) -> None:
        self.acks.append(position.sequence)


class AsyncLog(AsyncSource):
    """The same for asyncio."""

    name = "log"
    version = "7"

    def __init__(self, values: list[bytes], *, ends: bool = True) -> None:
        self.values = values
        self.ends = ends
        self.reads: list[Position | None] = []
        self.acks: list[int] = []
        self.closed = 0

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        self.reads.append(position)
        at = position.sequence if position else 0
        try:
            while at < len(self.values) or not self.ends:
                if at == len(self.values):
                    yield None
                    continue
                at += 1
                yield Message(self.values[at - 1], sequence=at, cursor=b"%d" % at)
        finally:
            self.closed += 1

    async def acknowledged(self, partition: str, position: Position) -> None:
        self.acks.append(position.sequence)


VALUES = [b"value %d" % n for n in range(1, 11)]
LOGS = pytest.mark.parametrize("log", [Log, AsyncLog])


def resume(sequence: int, cursor: bytes | None = None) -> frame_pb2.Position:
    return frame_pb2.Position(sequence=sequence, cursor=cursor)


@LOGS
async def test_a_source_is_read_acknowledged_and_ends(gateway, connect, log):
    source = log(VALUES)
    task = connect(source, instance="one", token="secret")
    session = await gateway.session()
    assert (session.hello.connector, session.hello.connector_version, session.hello.instance) == ("log", "7", "one")
    assert list(session.hello.capabilities) == [
        pb.CAPABILITY_PACE,
        pb.CAPABILITY_HEARTBEAT,
        pb.CAPABILITY_FRAMES,
        pb.CAPABILITY_CURSORS,
    ]
    assert session.metadata["authorization"] == "Bearer secret"

    stream = await session.open("log/0")
    received = await session.messages(10)
    assert [m.value for m in received] == VALUES
    assert [m.sequence for m in received] == list(range(1, 11))
    assert received[-1].cursor == b"10"
    assert (await session.next("close_stream")).close_stream.end_of_stream
    session.ack(stream, 4)
    await until(lambda: source.acks == [4])
    assert not task.done()
    session.ack(stream, 10)
    await session.next("goodbye")
    await asyncio.wait_for(task, 60)
    assert source.acks == [4, 10]
    assert source.closed == 1


async def test_it_ends_after_the_last_acknowledgement_has_reached_the_source(gateway, connect):
    release = threading.Event()

    class Slow(Log):
        def acknowledged(self, partition, position):
            release.wait(60)
            super().acknowledged(partition, position)

    source = Slow(VALUES)
    task = connect(source)
    session = await gateway.session()
    stream = await session.open("log/0")
    await session.messages(10)
    await session.next("close_stream")
    session.ack(stream, 10)
    await session.next("goodbye")
    done, _ = await asyncio.wait({task}, timeout=0.2)
    release.set()
    await asyncio.wait_for(task, 60)
    assert not done
    assert source.acks == [10]


@LOGS
async def test_it_goes_on_where_the_gateway_says(gateway, connect, log):
    source = log(VALUES)
    connect(source)
    session = await gateway.session()
    await session.open(resume=resume(7, b"5"), acknowledged=resume(6))
    assert [m.sequence for m in await session.messages(3)] == [8, 9, 10]
    assert source.reads == [Position(sequence=7, cursor=b"5")]
    assert source.acks == [6]


async def test_nothing_is_read_before_the_stream_is_opened(gateway, connect):
    source = Log(VALUES)
    connect(source)
    session = await gateway.session()
    request = (await session.next("open_stream")).open_stream
    assert request.kind == pb.SOURCE_KIND_REPLAYABLE
    assert source.reads == []
    session.answer_open(request.stream_id)
    await session.messages(10)


async def test_messages_without_a_sequence_are_counted_on(gateway, connect):
    class Counted(Source):
        name = "counted"

        def read(self, partition, position):
            yield Message(b"a")
            yield Batch([b"b", b"c"])
            yield Message(b"d")

    connect(Counted())
    session = await gateway.session()
    await session.open(resume=resume(40))
    assert [m.sequence for m in await session.messages(4)] == [41, 42, 43, 44]


async def test_a_source_with_nothing_says_that_it_has_caught_up(gateway, connect):
    connect(Log(VALUES, ends=False))
    session = await gateway.session()
    stream = await session.open(resume=resume(10))
    backlog = (await session.next("backlog", ignore=())).backlog
    assert (backlog.stream_id, backlog.latest_sequence, backlog.messages) == (stream, 10, 0)


async def test_a_source_tells_what_is_left(gateway, connect):
    class Far(Log):
        def backlog(self, partition):
            return Backlog(messages=990, bytes=None, latest_sequence=1000)

    connect(Far(VALUES, ends=False))
    session = await gateway.session()
    await session.open()
    await session.next("frame", ignore=("backlog",))
    backlog = (await session.next("backlog", ignore=())).backlog
    assert (backlog.latest_sequence, backlog.messages, backlog.HasField("bytes")) == (1000, 990, False)


async def test_a_source_that_does_not_go_on_has_told_what_is_left(gateway, connect):
    class Stuck(AsyncLog):
        async def read(self, partition, position):
            yield Message(b"a")
            yield Message(b"b")
            await asyncio.Event().wait()

        async def backlog(self, partition):
            return Backlog(messages=990)

    connect(Stuck(VALUES, ends=False))
    session = await gateway.session()
    await session.open()
    while (message := await session.next("frame", "backlog")).WhichOneof("message") == "frame":
        pass
    assert message.backlog.messages == 990


async def test_the_same_backlog_again_is_told_after_more_messages(gateway, connect):
    another = threading.Semaphore(0)

    class Steady(Log):
        def backlog(self, partition):
            return Backlog(messages=990)

        def read(self, partition, position):
            while True:
                yield Message(b"one more") if another.acquire(blocking=False) else None

    connect(Steady(VALUES, ends=False))
    session = await gateway.session()
    await session.open()
    for _ in range(3):
        another.release()
        await session.next("frame", ignore=("backlog", "report"))
        assert (await session.next("backlog", ignore=("report",))).backlog.messages == 990


# Frames


async def test_messages_are_gathered_for_as_long_as_the_gateway_says(gateway, connect):
    gateway.limits.linger_ms = 150
    release = threading.Semaphore(0)

    class Slow(Source):
        name = "slow"

        def read(self, partition, position):
            for n in range(6):
                release.acquire()
                yield Message(b"%d" % n)
            while True:
                yield None

    connect(Slow())
    session = await gateway.session()
    await session.open()
    for _ in range(3):
        release.release()
    first = await session.next("frame")
    assert first.frame.count == 3
    session.send(pace=pb.Pace(linger_ms=0))
    await asyncio.sleep(0)
    for _ in range(3):
        release.release()
    assert [m.value for m in await session.messages(3)] == [b"3", b"4", b"5"]


async def test_large_input_goes_in_large_frames(gateway, connect):
    connect(Log([b"x" * 61] * 50_000))
    session = await gateway.session()
    await session.open()
    counts = []
    while sum(counts) < 50_000:
        counts.append((await session.next("frame")).frame.count)
    assert len(counts) < 40


@pytest.mark.parametrize("shares", [True, False])
async def test_small_frames_that_wait_for_credit_share_messages_if_the_gateway_takes_them(gateway, connect, shares):
    gateway.limits.capabilities = (pb.CAPABILITY_FRAMES,) if shares else ()
    gateway.limits.credit_messages = 0
    source = Log([b"m" * 60] * 3000)
    connect(source, settings=Settings(frame=FrameTarget(messages=10)))
    session = await gateway.session()
    await session.open("log/0")
    await until(lambda: source.closed == 1)
    session.grant(0, 3000)
    received = await session.messages(3000)
    assert [m.sequence for m in received] == list(range(1, 3001))
    assert (await session.next("close_stream")).close_stream.end_of_stream
    # 64 KiB of frames, of some 660 bytes each, go into a message.
    assert (sum(session.shared), len(session.shared)) == ((300, 4) if shares else (0, 0))


async def test_small_frames_of_many_streams_share_messages_within_the_limit_of_a_frame(gateway, connect):
    gateway.limits.capabilities = (pb.CAPABILITY_FRAMES,)
    gateway.limits.max_frame_bytes = 1000
    gateway.limits.credit_messages = 0

    class Many(Log):
        def partitions(self):
            return [str(n) for n in range(20)]

    source = Many([b"m" * 60] * 4)
    connect(source)
    session = await gateway.session()
    ids = [await session.open() for _ in range(20)]
    await until(lambda: source.closed == 20)
    session.grant(0, 80)
    frames = [(await session.next("frame", ignore=("backlog", "credit_request", "close_stream", "report"))).frame for _ in ids]
    assert sorted(frame.stream_id for frame in frames) == sorted(ids)
    assert all(frame.count == 4 for frame in frames)
    assert max(session.shared) * frames[0].ByteSize() <= 1000
    assert max(session.shared) > 1


async def test_frames_keep_to_the_limits(gateway, connect):
    gateway.limits.max_frame_messages = 7
    gateway.limits.max_frame_bytes = 200
    connect(Log([b"x" * 40] * 100))
    session = await gateway.session()
    await session.open()
    received = 0
    while received < 100:
        frame = (await session.next("frame")).frame
        assert frame.count <= 7
        assert frame.ByteSize() <= 200
        received += frame.count


async def test_a_message_above_the_limit_ends_the_connector_after_what_was_before_it(gateway, connect):
    gateway.limits.max_frame_bytes = 1000
    task = connect(Log([b"a", b"b", b"x" * 2000, b"c"]))
    session = await gateway.session()
    stream = await session.open()
    assert [m.value for m in await session.messages(2)] == [b"a", b"b"]
    session.ack(stream, 2)
    await session.next("goodbye")
    with pytest.raises(MessageTooLarge, match=r"stream log/0: message 3 makes a frame of 20\d\d bytes.*at most 1000"):
        await task


def sent_apart(source: type[Source] | type[AsyncSource], items: list[Message | Batch], kind: SourceKind) -> Source | AsyncSource:
    """A source that yields items, and leaves out what cannot be sent."""
    left_out: list[tuple[Message, str]] = []
    settled: list[object] = []

    class Blocking(Source):
        name = "log"

        def read(self, partition, position):
            yield from items
            while len(settled) + len(left_out) < sum(len(i) if isinstance(i, Batch) else 1 for i in items):
                yield None

        def unsendable(self, partition, message, error):
            left_out.append((message, str(error)))

        def settle(self, partition, tokens):
            settled.extend(tokens)

    class Waiting(AsyncSource):
        name = "log"

        async def read(self, partition, position):
            for item in items:
                yield item
            while len(settled) + len(left_out) < sum(len(i) if isinstance(i, Batch) else 1 for i in items):
                yield None

        async def unsendable(self, partition, message, error):
            left_out.append((message, str(error)))

        async def settle(self, partition, tokens):
            settled.extend(tokens)

    made = Blocking() if source is Source else Waiting()
    made.kind = kind
    made.left_out, made.settled = left_out, settled
    return made


@pytest.mark.parametrize("base", [Source, AsyncSource])
async def test_what_cannot_be_sent_is_left_out_alone_where_the_source_says_so(gateway, connect, base):
    gateway.limits.max_frame_bytes = 1000
    items = [
        Message(b"a", token="a"),
        Message(b"x" * 2000, key=b"k", headers=[("h", b"v")], token="large"),
        Message(b"b", token="b"),
        Batch([b"c", b"y" * 2000, b"d"], event_times=[1, 2, 3], tokens=["c", "large too", "d"]),
        Batch([b"e", b"late", b"f"], event_times=[1, 2**63, None], message_ids=["1", "2", "3"], tokens=["e", "late", "f"]),
        Batch([b"year 10000"], event_times=array("q", [253_402_300_800_000_000]), tokens=["year 10000"]),
        Message(b"no id", message_id="\ud800", token="no id"),
        Message(b"no header", headers=[("\ud800", b"")], token="no header"),
        Batch(Packed(b"gh", array("I", [1, 1])), message_ids=Packed(b"1\xff", array("I", [1, 1])), tokens=["g", "h"]),
        Message(b"i", token="i"),
    ]
    source = sent_apart(base, items, SourceKind.REDELIVERING)
    task = connect(source)
    session = await gateway.session()
    stream = await session.open()
    received = await session.messages(8)
    assert [message.value for message in received] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"i"]
    large = source.left_out[0][0]
    assert (large.value, large.key, large.headers, large.token) == (b"x" * 2000, b"k", [("h", b"v")], "large")
    assert [message.token for message, _ in source.left_out] == [
        "large",
        "large too",
        "late",
        "year 10000",
        "no id",
        "no header",
        "h",
    ]
    assert source.left_out[2][0].event_time == 2**63
    assert "makes a frame of 20" in source.left_out[0][1]
    session.ack(stream, received[-1].sequence)
    await session.next("close_stream")
    await session.next("goodbye")
    await task
    assert source.settled == ["a", "b", "c", "d", "e", "f", "g", "i"]


@pytest.mark.parametrize("base", [Source, AsyncSource])
async def test_a_message_that_is_left_out_has_a_sequence(gateway, connect, base):
    gateway.limits.max_frame_bytes = 1000
    items = [Message(b"1"), Message(b"x" * 2000), Message(b"3", event_time=2**70), Message(b"4")]
    connect(sent_apart(base, items, SourceKind.REPLAYABLE))
    session = await gateway.session()
    await session.open()
    assert [(message.value, message.sequence) for message in await session.messages(2)] == [(b"1", 1), (b"4", 4)]


async def test_a_source_may_end_with_what_cannot_be_sent(gateway, connect):
    gateway.limits.max_frame_bytes = 1000
    source = sent_apart(Source, [Message(b"x" * 2000), Message(b"y" * 2000)], SourceKind.REPLAYABLE)
    task = connect(source)
    session = await gateway.session()
    await session.open()
    await session.next("close_stream")
    await session.next("goodbye")
    await task
    assert len(source.left_out) == 2


async def test_what_is_wrong_with_the_source_itself_always_ends_the_connector(gateway, connect):
    source = sent_apart(Source, [Batch([b"a", b"b"], keys=[b"k"])], SourceKind.REPLAYABLE)
    task = connect(source)
    session = await gateway.session()
    await session.open()
    await session.next("goodbye")
    with pytest.raises(InvalidMessage, match="keys: 1 entries for 2 messages"):
        await task
    assert source.left_out == []


async def test_a_large_message_passes_where_the_gateway_allows_it(gateway, connect):
    connect(Log([b"x" * (8 << 20)]))
    session = await gateway.session()
    await session.open()
    assert len((await session.messages(1))[0].value) == 8 << 20


# Credit


@LOGS
async def test_credit_of_one_message_is_never_overrun(gateway, connect, log):
    gateway.limits.credit_messages = 1
    connect(log(VALUES))
    session = await gateway.session()
    stream = await session.open()
    for n in range(1, 11):
        frame = (await session.next("frame")).frame
        assert decode_frame(frame) == [Message(VALUES[n - 1], sequence=n, cursor=b"%d" % n)]
        session.ack(stream, n, returns=frame)
    await session.next("close_stream")


async def test_credit_in_bytes_is_never_overrun(gateway, connect):
    gateway.limits.credit_bytes = 1000
    connect(Log([b"x" * 100] * 200))
    session = await gateway.session()
    await session.open()
    received = 0
    while received < 200:
        frame = (await session.next("frame")).frame
        received += frame.count
        session.grant(frame.ByteSize() + FRAME_OVERHEAD, frame.count)


async def test_a_message_without_room_asks_for_credit_once_for_each_grant(gateway, connect):
    gateway.limits.credit_bytes = 500
    connect(Log([b"small", b"x" * 5000, b"small"]))
    session = await gateway.session()
    stream = await session.open()
    first = (await session.next("frame")).frame
    assert first.count == 1
    request = (await session.next("credit_request")).credit_request
    assert (request.messages, request.stream_id) == (1, stream)
    session.ack(stream, 1, returns=first)
    assert (await session.next("credit_request")).credit_request == request, "what came back was not enough"
    session.grant(request.bytes + FRAME_OVERHEAD - 500, 0)
    second = (await session.next("frame")).frame
    assert second.ByteSize() == request.bytes
    session.grant(second.ByteSize() + FRAME_OVERHEAD, 1)
    await session.messages(1)


async def test_a_stalled_gateway_stops_the_reader(gateway, connect):
    gateway.limits.credit_bytes = 100_000
    produced = 0

    class Endless(Source):
        name = "endless"

        def read(self, partition, position):
            nonlocal produced
            while True:
                produced += 1
                yield Batch([b"x" * 100] * 100)

    connect(Endless(), settings=Settings())
    session = await gateway.session()
    await session.open()
    await session.next("frame")
    seen = -1
    while seen != produced:
        seen = produced
        await asyncio.sleep(0.1)
    assert produced * 10_000 < 4 << 20


# What the gateway may say


@LOGS
async def test_a_rejected_stream_is_opened_again_under_a_new_id(gateway, connect, log):
    source = log(VALUES, ends=False)
    connect(source)
    session = await gateway.session()
    first = await session.open(resume=resume(5))
    await session.messages(5)
    session.send(reject=pb.Reject(stream_id=first, reason=pb.REJECT_REASON_REOPEN, message="rewound"))
    second = await session.open(resume=resume(2))
    assert second != first
    assert [m.sequence for m in await session.messages(8)] == list(range(3, 11))
    assert source.reads == [Position(sequence=5), Position(sequence=2)]
    assert source.closed == 1


async def test_an_ended_stream_may_have_to_be_read_again(gateway, connect):
    task = connect(Log(VALUES))
    session = await gateway.session()
    first = await session.open()
    await session.messages(10)
    await session.next("close_stream")
    session.send(reject=pb.Reject(stream_id=first, reason=pb.REJECT_REASON_REOPEN))
    second = await session.open(resume=resume(8), acknowledged=resume(8))
    await session.messages(2)
    await session.next("close_stream")
    session.ack(second, 10)
    await session.next("goodbye")
    await task


async def test_a_stream_owned_by_another_instance_is_tried_again(gateway, connect):
    connect(Log(VALUES))
    session = await gateway.session()
    first = (await session.next("open_stream")).open_stream.stream_id
    reject = pb.Reject(stream_id=first, reason=pb.REJECT_REASON_OWNED, message="owned by 'b'", retry_after_ms=10)
    session.send(reject=reject)
    await session.open()
    await session.messages(10)


async def test_a_stream_that_is_not_permitted_ends_the_connector(gateway, connect):
    task = connect(Log(VALUES))
    session = await gateway.session()
    first = (await session.next("open_stream")).open_stream.stream_id
    session.send(reject=pb.Reject(stream_id=first, reason=pb.REJECT_REASON_NOT_PERMITTED, message="not yours"))
    with pytest.raises(StreamNotPermitted, match="log/0: not yours"):
        await task


@LOGS
async def test_drain_finishes_and_reconnects(gateway, connect, log):
    source = log(VALUES, ends=False)
    connect(source)
    session = await gateway.session()
    stream = await session.open()
    await session.messages(10)
    session.send(drain=pb.Drain(deadline_ms=5000, reason="restart"))
    await asyncio.sleep(0.02)
    session.ack(stream, 10)
    await session.next("goodbye")
    await until(lambda: source.acks == [10])
    session = await gateway.session()
    await session.open(resume=resume(10))
    await until(lambda: len(source.reads) == 2)


@LOGS
async def test_a_lost_session_is_resumed(gateway, connect, log):
    source = log(VALUES, ends=False)
    connect(source)
    session = await gateway.session()
    await session.open()
    await session.messages(10)
    session.close(grpc.StatusCode.UNAVAILABLE)
    session = await gateway.session()
    stream = await session.open(resume=resume(9))
    assert [m.sequence for m in await session.messages(1)] == [10]
    session.ack(stream, 10)
    await until(lambda: source.acks == [10])


async def test_an_async_source_that_has_nothing_leaves_the_event_loop_to_its_acknowledgements(gateway, connect):
    class Slow(AsyncLog):
        """Its first acknowledgement takes until the second one has arrived."""

        second = asyncio.Event()

        async def acknowledged(self, partition: str, position: Position) -> None:
            await self.second.wait()
            await super().acknowledged(partition, position)

    source = Slow(VALUES, ends=False)
    source.second = asyncio.Event()
    connect(source)
    session = await gateway.session()
    stream = await session.open()
    await session.messages(10)
    for sequence in (5, 10):
        session.ack(stream, sequence)
    await until(lambda: session.written == 3)  # StreamOpened, and both
    source.second.set()
    await until(lambda: source.acks[-1:] == [10])


async def test_a_source_that_loses_a_cancellation_does_not_keep_its_connector_from_the_next_session(gateway, connect, caplog):
    class Loses(AsyncSource):
        name = "log"
        lost = 0

        async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | None]:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.lost += 1
                    if self.lost > 1:
                        raise
                yield None

    source = Loses()
    connect(source, settings=Settings(partition_poll_seconds=0.05, drain_seconds=5.0, stuck_seconds=0.2))
    session = await gateway.session()
    await session.open()
    session.close(grpc.StatusCode.UNAVAILABLE)
    await (await gateway.session()).open()
    assert source.lost == 2
    assert "it must not catch CancelledError" in caplog.text


async def test_a_gateway_that_restarts_is_found_again(gateway, connect, caplog):
    connect(Log(VALUES, ends=False))
    await (await gateway.session()).open()
    await gateway.stop()
    await until(lambda: caplog.text.count("trying again") > 1)
    await gateway.start()
    await (await gateway.session()).open()


async def test_a_gateway_that_is_not_there_yet_is_waited_for(gateway, connect, caplog):
    await gateway.stop()
    connect(Log(VALUES))
    await until(lambda: "trying again" in caplog.text)
    await gateway.start()
    await (await gateway.session()).open()


async def test_a_session_taken_over_is_left_to_the_newer_one(gateway, connect):
    task = connect(Log(VALUES))
    session = await gateway.session()
    session.close(grpc.StatusCode.ABORTED, "a newer session took over")
    with pytest.raises(SessionTakenOver, match="a newer session took over"):
        await task
    assert not gateway.has_session


async def test_a_refused_session_ends_the_connector(gateway, connect):
    task = connect(Log(VALUES))
    (await gateway.session()).close(grpc.StatusCode.UNAUTHENTICATED, "no such token")
    with pytest.raises(GatewayRefused, match="no such token") as caught:
        await task
    assert caught.value.status == "UNAUTHENTICATED"


# What a source may do


async def test_a_lost_position_is_told_and_the_rest_is_read_where_that_is_accepted(gateway, connect):
    class Pruned(Log):
        def read(self, partition, position):
            self.reads.append(position)
            if position is not None and position.sequence < 7:
                raise PositionLost("pruned", earliest=8)
            for sequence in (8, 9, 10):
                yield Message(VALUES[sequence - 1], sequence=sequence)

    source = Pruned(VALUES)
    connect(source)
    session = await gateway.session()
    first = await session.open(resume=resume(3))
    lost = (await session.next("position_lost")).position_lost
    assert (lost.stream_id, lost.earliest_sequence, lost.reason) == (first, 8, "pruned")
    session.send(reject=pb.Reject(stream_id=first, reason=pb.REJECT_REASON_REOPEN))
    await session.open(resume=resume(3), skip_lost=True)
    assert [m.sequence for m in await session.messages(3)] == [8, 9, 10]
    assert source.reads == [Position(sequence=3), None]


async def test_new_partitions_appear_and_the_connector_ends_with_the_last(gateway, connect):
    listed = ["a"]

    class Parts(Log):
        def partitions(self):
            return listed

    source = Parts(VALUES)
    task = connect(source)
    session = await gateway.session()
    a = await session.open("log/a")
    await session.messages(10)
    listed.append("b")
    request = (await session.next("open_stream", ignore=("backlog", "close_stream"))).open_stream
    assert request.stream == "log/b"
    session.answer_open(request.stream_id)
    session.ack(a, 10)
    await session.next("frame", ignore=("backlog", "close_stream"))
    session.ack(request.stream_id, 10)
    await session.next("goodbye", ignore=("backlog", "close_stream"))
    await task


async def test_more_partitions_than_a_session_may_have_end_the_connector(gateway, connect):
    gateway.limits.max_streams = 1

    class Parts(Log):
        def partitions(self):
            return ["a", "b"]

    with pytest.raises(InvalidSource, match=r"2 partitions.*limits a session to 1"):
        await connect(Parts(VALUES))


@pytest.mark.parametrize("names", [["a/b"], [""], ["a", "a"]])
async def test_partition_names_are_checked(gateway, connect, names):
    class Parts(Log):
        def partitions(self):
            return names

    with pytest.raises(InvalidSource):
        await connect(Parts(VALUES))


async def test_a_source_without_a_name_is_refused(gateway, connect):
    class Nameless(Log):
        name = ""

    with pytest.raises(InvalidSource, match="has no name"):
        await connect(Nameless(VALUES))


@LOGS
async def test_a_source_that_raises_ends_the_connector_and_names_the_stream(gateway, connect, log):
    class Failing(log):
        def read(self, partition, position):
            raise OSError("disk on fire")

    task = connect(Failing(VALUES))
    session = await gateway.session()
    await session.open()
    with pytest.raises(SourceFailed, match="stream log/0: the source raised OSError: disk on fire") as caught:
        await task
    assert isinstance(caught.value.__cause__, OSError)


@LOGS
async def test_what_a_source_gave_before_it_raised_is_sent_first(gateway, connect, log):
    given = (
        list(log(VALUES).read("0", None)) if not issubclass(log, AsyncSource) else [m async for m in log(VALUES).read("0", None)]
    )

    class Failing(log):
        if issubclass(log, AsyncSource):

            async def read(self, partition, position):
                for message in given[:3]:
                    yield message
                raise OSError("disk on fire")
        else:

            def read(self, partition, position):
                yield from given[:3]
                raise OSError("disk on fire")

    task = connect(Failing(VALUES))
    session = await gateway.session()
    stream = await session.open()
    assert len(await session.messages(3)) == 3
    session.ack(stream, 3)
    with pytest.raises(SourceFailed, match="disk on fire"):
        await task


@LOGS
async def test_a_source_that_cannot_acknowledge_ends_the_connector(gateway, connect, log):
    class Failing(log):
        def acknowledged(self, partition, position):
            raise OSError("disk full")

    task = connect(Failing(VALUES), settings=Settings(drain_seconds=0.1))
    session = await gateway.session()
    stream = await session.open()
    await session.messages(10)
    session.ack(stream, 5)
    with pytest.raises(SourceFailed, match="stream log/0: the source raised OSError: disk full"):
        await task


async def test_a_source_that_cannot_list_its_partitions_ends_the_connector(gateway, connect):
    class Failing(Log):
        def partitions(self):
            raise OSError("no route")

    with pytest.raises(SourceFailed, match=r"source log: partitions\(\) raised OSError: no route"):
        await connect(Failing(VALUES))


async def test_what_other_partitions_read_is_sent_before_a_failure_ends_the_connector(gateway, connect):
    go = threading.Event()

    class Mixed(Log):
        def partitions(self):
            return ["bad", "good"]

        def read(self, partition, position):
            if partition == "bad":
                go.wait(120)
                raise OSError("bad")
            return super().read(partition, position)

    gateway.limits.linger_ms = 60_000
    task = connect(Mixed(VALUES, ends=False))
    session = await gateway.session()
    await session.open("log/bad")
    good = await session.open("log/good")
    await session.messages(10)
    go.set()
    await asyncio.sleep(0.02)
    assert not task.done()
    session.ack(good, 10)
    with pytest.raises(SourceFailed):
        await task


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([Message(b"a", sequence=5), Message(b"b", sequence=5)], "increase"),
        ([Message(b"a", sequence=5), Batch([b"b"], sequences=[4])], "sequence 4 follows 5"),
        ([Message("text")], "bytes"),
        (["text"], "not str"),
        ([Batch([b"a", b"b"], keys=[b"k"])], "keys: 1 entries for 2 messages"),
        ([Message(b"a", cursor=b"c" * 5000)], "cursor of 5000 bytes"),
        ([Message(b"a", sequence=2**63)], r"2\*\*63"),
    ],
)
async def test_what_cannot_be_sent_ends_the_connector_with_the_reason(gateway, connect, items, message):
    class Bad(Source):
        name = "bad"

        def read(self, partition, position):
            yield from items

    task = connect(Bad(), settings=Settings(drain_seconds=0.1))
    await (await gateway.session()).open()
    with pytest.raises(InvalidMessage, match=f"bad/0.*{message}"):
        await task


# Redelivering sources


class Queue(Source):
    """A queue: what was not settled comes again with the next read."""

    name = "queue"
    kind = SourceKind.REDELIVERING
    idle_seconds = 0.002

    def __init__(self, *bodies: bytes) -> None:
        self.ready = list(bodies)
        self.reads = 0
        self.settled: list[object] = []

    def read(self, partition, position):
        assert position is None
        self.reads += 1
        taken = list(self.ready)
        for body in taken:
            yield Message(body, token=(self.reads, body))
        while True:
            yield None

    def settle(self, partition, tokens):
        self.settled.extend(tokens)
        for _, body in tokens:
            self.ready.remove(body)


async def test_a_redelivering_source_settles_by_token(gateway, connect):
    source = Queue(b"a", b"b", b"c")
    connect(source)
    session = await gateway.session()
    request = (await session.next("open_stream")).open_stream
    assert request.kind == pb.SOURCE_KIND_REDELIVERING
    session.answer_open(request.stream_id, epoch=100)
    assert [m.sequence for m in await session.messages(3)] == [1, 2, 3]
    session.ack(request.stream_id, 2, epoch=100)
    await until(lambda: source.settled == [(1, b"a"), (1, b"b")])


async def test_a_redelivering_source_begins_anew_after_a_lost_session(gateway, connect):
    source = Queue(b"a", b"b", b"c")
    connect(source)
    session = await gateway.session()
    stream = await session.open(epoch=100)
    await session.messages(3)
    session.ack(stream, 1, epoch=100)
    await until(lambda: source.settled == [(1, b"a")])
    session.close(grpc.StatusCode.UNAVAILABLE)
    session = await gateway.session()
    stream = await session.open(epoch=200)
    assert [(m.sequence, m.value) for m in await session.messages(2)] == [(1, b"b"), (2, b"c")]
    session.ack(stream, 3, epoch=100)
    session.ack(stream, 1, epoch=200)
    await until(lambda: source.settled == [(1, b"a"), (2, b"b")])


@pytest.mark.parametrize("base", [Source, AsyncSource])
async def test_a_redelivering_source_learns_the_last_position_of_a_checkpoint(gateway, connect, base):
    read_after: list[Position | None] = []

    class Blocking(Source):
        name = "log"
        kind = SourceKind.REDELIVERING

        def read(self, partition, position):
            read_after.append(position)
            yield Message(b"a", token=1, cursor=b"this queue")
            while True:
                yield None

    class Coroutines(AsyncSource):
        name = "log"
        kind = SourceKind.REDELIVERING

        async def read(self, partition, position):
            read_after.append(position)
            yield Message(b"a", token=1, cursor=b"this queue")
            while True:
                yield None

    connect(Blocking() if base is Source else Coroutines())
    session = await gateway.session()
    await session.open(epoch=100)
    await session.messages(1)
    session.close(grpc.StatusCode.UNAVAILABLE)
    session = await gateway.session()
    earlier = frame_pb2.Position(epoch=100, sequence=1, cursor=b"this queue")
    await session.open(epoch=200, earlier=earlier)
    assert [message.sequence for message in await session.messages(1)] == [1]
    assert read_after == [None, Position(sequence=1, cursor=b"this queue", epoch=100)]


class Feed(Source):
    """Sends letters, and others each time."""

    name = "log"
    kind = SourceKind.RESUMABLE

    def __init__(self, *cursors: bytes) -> None:
        self.cursors = cursors
        self.reads: list[Position | None] = []
        self.acks: list[Position] = []

    def read(self, partition, position):
        self.reads.append(position)
        for cursor in self.cursors:
            yield Message(b"a", cursor=cursor)
        while True:
            yield None

    def acknowledged(self, partition, position):
        self.acks.append(position)


async def test_a_resumable_source_continues_after_a_cursor_and_counts_on(gateway, connect):
    source = Feed(b"5", b"6")
    connect(source)
    session = await gateway.session()
    request = (await session.next("open_stream")).open_stream
    assert request.kind == pb.SOURCE_KIND_RESUMABLE
    session.answer_open(request.stream_id, epoch=100)
    assert [m.sequence for m in await session.messages(2)] == [1, 2]
    session.close(grpc.StatusCode.UNAVAILABLE)
    session = await gateway.session()
    await session.open(epoch=100, resume=frame_pb2.Position(epoch=100, sequence=2, cursor=b"4"))
    assert [m.sequence for m in await session.messages(2)] == [3, 4]
    session.close(grpc.StatusCode.UNAVAILABLE)
    session = await gateway.session()
    earlier = frame_pb2.Position(epoch=200, sequence=0, cursor=b"3")
    stream = await session.open(epoch=200, resume=earlier, acknowledged=earlier)
    assert [m.sequence for m in await session.messages(2)] == [1, 2]
    session.ack(stream, 2, epoch=200)
    await until(lambda: [ack.sequence for ack in source.acks] == [0, 2])
    assert [at and (at.epoch, at.sequence, at.cursor) for at in source.reads] == [None, (100, 2, b"4"), (200, 0, b"3")]


async def test_cursors_of_a_resumable_source_that_go_back_end_the_connector(gateway, connect):
    running = connect(Feed(b"5", b"40"))
    session = await gateway.session()
    await session.open(epoch=100)
    with pytest.raises(InvalidMessage, match="order of their places"):
        await running


async def test_a_prefetch_of_one_is_acknowledged_promptly(gateway, connect):
    class One(Queue):
        def read(self, partition, position):
            while True:
                if self.ready:
                    body = self.ready[0]
                    yield Message(body, token=(0, body))
                    while body in self.ready:
                        yield None
                else:
                    yield None

    source = One(*VALUES)
    connect(source)
    session = await gateway.session()
    stream = await session.open(epoch=5)
    for n in range(1, 11):
        await session.messages(1)
        session.ack(stream, n, epoch=5)
    await until(lambda: len(source.settled) == 10)


# Stopping


@LOGS
async def test_a_stopped_connector_sends_what_it_read_and_waits_for_acknowledgements(gateway, connect, log):
    gateway.limits.linger_ms = 60_000
    stop = asyncio.Event()
    source = log(VALUES, ends=False)
    task = connect(source, stop=stop)
    session = await gateway.session()
    stream = await session.open()
    await session.messages(10)
    stop.set()
    await asyncio.sleep(0.02)
    assert not task.done()
    session.ack(stream, 10)
    await session.next("goodbye")
    await asyncio.wait_for(task, 60)
    assert source.acks == [10]
    assert source.closed == 1


async def test_a_stopped_connector_does_not_wait_for_ever(gateway, connect):
    stop = asyncio.Event()
    task = connect(Log(VALUES, ends=False), stop=stop, settings=Settings(drain_seconds=0.05))
    session = await gateway.session()
    await session.open()
    await session.messages(10)
    stop.set()
    await session.next("goodbye")
    await asyncio.wait_for(task, 60)


async def test_a_connector_can_be_stopped_while_the_gateway_is_away(gateway, connect):
    await gateway.stop()
    stop = asyncio.Event()
    task = connect(Log(VALUES), stop=stop)
    await asyncio.sleep(0.05)
    stop.set()
    await asyncio.wait_for(task, 60)


async def test_pings_that_somebody_finds_too_many_do_not_end_the_connector(gateway, connect):
    connector = connect(Log([b"a"], ends=False))
    session = await gateway.session()
    await session.open()
    await session.messages(1)
    session.close(grpc.StatusCode.RESOURCE_EXHAUSTED, "GOAWAY received; Error code: 11 [ENHANCE_YOUR_CALM]; too_many_pings")
    session = await gateway.session()
    await session.open()
    await session.messages(1)
    assert not connector.done()
