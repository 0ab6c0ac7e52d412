"""A run in real-time mode delivers parts before their batch is planned, to sinks that are at-least-once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.gateway.sink_wire import AT_LEAST_ONCE, IDEMPOTENT, TWO_PHASE, SinkClient, Writer
from tests.gateway.wire import DEADLINE_S, frame, serve

from headrace.gateway.config import Limits, Token
from headrace.gateway.core import Gateway
from headrace.gateway.identity import EVERYTHING, TokenRegistry
from headrace.gateway.services.at_once import MAX_OPEN, deliver_at_once
from headrace.gateway.services.received import Delivered
from headrace.protocol.v1 import engine_pb2 as pb


class Delivering:
    """A call that delivers parts."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._call = writer.stub.DeliverAtOnce()

    async def send(
        self, batch: int, attempt: str, values: Sequence[bytes], messages: int | None = None, only: int | None = None
    ) -> None:
        """Sends a part of one frame, or only its first messages.

        Nothing may follow what ends the call: gRPC gives a call that ends during a write a status of its own.
        """
        steps: list[dict[str, Any]] = [
            {"start": self._writer.start(batch, attempt=attempt)},
            {"frame": frame(0, 0, values)},
            {"end": pb.DeliveryEnd(messages=len(values) if messages is None else messages)},
        ]
        for step in steps[:only]:
            await self.write(**step)

    async def send_whole(self, batch: int, attempt: str, values: Sequence[bytes]) -> None:
        """Sends a part of one frame in one message."""
        start = self._writer.start(batch, attempt=attempt)
        await self.write(part=pb.DeliveryPart(start=start, frame=frame(0, 0, values)))

    async def send_by(self, entry: str, batch: int, attempt: str, values: Sequence[bytes], only: int | None = None) -> None:
        """Sends a part of one frame, as several messages, or the first ones of them, or in one."""
        if entry == "whole":
            await self.send_whole(batch, attempt, values)
        else:
            await self.send(batch, attempt, values, only=only)

    async def write(self, **message: Any) -> None:
        """Sends a message, unless the gateway has ended the call, which `ended` tells."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(pb.DeliverAtOnceRequest(**message))

    async def answer(self) -> list[int]:
        """The messages that the next answer refuses."""
        async with asyncio.timeout(DEADLINE_S):
            response = await self._call.read()
        assert isinstance(response, pb.DeliverAtOnceResponse), await self._call.code()
        return [refused.sequence for refused in response.refused]

    async def end(self) -> tuple[grpc.StatusCode, str]:
        """Sends no more; how the call ends."""
        await self._call.done_writing()
        return await self.ended()

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """How the call ends, and the reason for engines."""
        async with asyncio.timeout(DEADLINE_S):
            code = await self._call.code()
            metadata = dict(await self._call.trailing_metadata() or ())
        return code, str(metadata.get("headrace-reason", ""))


by_each_entry = pytest.mark.parametrize("entry", ["messages", "whole"])


@asynccontextmanager
async def world(mode: int = AT_LEAST_ONCE, **limits: int) -> AsyncIterator[tuple[Gateway, SinkClient, Writer]]:
    """A sink, and a run that has reported that nothing is committed."""
    async with serve(Limits(**limits)) as (gateway, address):
        sink, writer = SinkClient(address), Writer(address)
        await sink.hello(mode=mode)
        await writer.report_commits()
        yield gateway, sink, writer
        for client in (sink, writer):
            await client.close()


async def test_parts_are_answered_in_order_and_none_waits_for_the_one_before_and_no_vote_follows() -> None:
    async with world() as (gateway, sink, writer):
        delivering = Delivering(writer)
        for attempt in "abc":
            await delivering.send(0, attempt, [attempt.encode(), b"x"])
        assert [(await sink.take_part(refused=[1]))[1] for _ in "abc"] == [[b"ax"], [b"bx"], [b"cx"]]
        assert [await delivering.answer() for _ in "abc"] == [[1]] * 3
        await delivering.send(1, "d", [b"d"])
        await sink.take_part()
        assert await delivering.answer() == []
        assert await writer.report_commits(0) == 0
        assert not gateway.sinks["out"].sessions["i"].holdings.transactions()
        await delivering.send(1, "e", [b"e"])
        assert (await sink.take_part())[1] == [b"e"], "the sink was told nothing about the parts of batch 0"
        assert await delivering.answer() == []
        assert (await delivering.end())[0] is grpc.StatusCode.OK


async def test_a_whole_part_in_one_message_is_delivered_in_turn_with_others() -> None:
    async with world() as (_, sink, writer):
        delivering = Delivering(writer)
        for attempt, send in (("a", delivering.send_whole), ("b", delivering.send), ("c", delivering.send_whole)):
            await send(0, attempt, [attempt.encode(), b"x"])
        assert [(await sink.take_part(refused=[1]))[1] for _ in "abc"] == [[b"ax"], [b"bx"], [b"cx"]]
        assert [await delivering.answer() for _ in "abc"] == [[1]] * 3
        assert (await delivering.end())[0] is grpc.StatusCode.OK


@pytest.mark.parametrize("lacking", ["start", "frame"])
async def test_a_whole_part_that_lacks_something_ends_its_call_and_no_other(lacking: str) -> None:
    async with world() as (_, sink, writer):
        delivering, other = Delivering(writer), Delivering(writer)
        part = pb.DeliveryPart(start=writer.start(0, attempt="a"), frame=frame(0, 0, [b"x"]))
        part.ClearField(lacking)
        await delivering.write(part=part)
        assert (await delivering.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT
        if lacking == "frame":
            # It had begun.
            assert [(await sink.call.read()).WhichOneof("message") for _ in range(2)] == ["start_part", "drop_part"]
        await other.send_whole(0, "b", [b"b"])
        assert (await sink.take_part())[1] == [b"b"]
        assert await other.answer() == []


async def test_a_whole_part_within_another_is_out_of_turn() -> None:
    async with world() as (_, _, writer):
        delivering = Delivering(writer)
        await delivering.write(start=writer.start(0, attempt="a"))
        await delivering.send_whole(0, "b", [b"b"])
        code, _ = await delivering.ended()
        assert code is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("mode", [TWO_PHASE, IDEMPOTENT])
async def test_a_sink_of_another_mode_writes_nothing_before_its_vote(mode: int) -> None:
    async with world(mode) as (_, sink, writer):
        delivering = Delivering(writer)
        await delivering.write(start=writer.start(0))
        assert await delivering.ended() == (grpc.StatusCode.FAILED_PRECONDITION, "sink-mode")
        delivery = writer.deliver(0)
        await sink.take_part()
        await delivery


@by_each_entry
async def test_parts_of_a_run_that_was_replaced_or_of_a_committed_batch_are_refused(entry: str) -> None:
    async with serve() as (gateway, address):
        sink, first, second = SinkClient(address), Writer(address), Writer(address, "r2")
        await sink.hello(mode=AT_LEAST_ONCE)
        await first.report_commits(3)
        committed = Delivering(first)
        await committed.send_by(entry, 3, "a", [b"late"], only=1)
        assert (await committed.ended())[0] is grpc.StatusCode.ABORTED
        older = Delivering(first)
        await older.send_by(entry, 4, "a", [b"a"])
        assert (await sink.take_part())[1] == [b"a"], "the sink was sent nothing of batch 3"
        await older.answer()
        await second.report_commits(3)
        await older.send_by(entry, 4, "b", [b"b"], only=1)
        assert await older.ended() == (grpc.StatusCode.ABORTED, "superseded")
        newer = Delivering(second)
        await newer.send_by(entry, 4, "c", [b"c"])
        assert (await sink.take_part())[1] == [b"c"], "the sink was sent nothing of the older run"
        assert await newer.answer() == []
        assert not gateway.sinks["out"].sessions["i"].open
        for client in (sink, first, second):
            await client.close()


async def test_answers_before_a_part_that_is_wrong_are_given() -> None:
    async with world() as (_, sink, writer):
        delivering = Delivering(writer)
        await delivering.send(0, "a", [b"a"])
        await delivering.send(0, "b", [b"b"], messages=7)
        assert (await sink.take_part())[1] == [b"a"]
        assert await delivering.answer() == []
        assert (await delivering.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_sink_that_is_lost_ends_the_call_so_that_what_is_not_answered_is_delivered_again() -> None:
    async with world() as (_, sink, writer):
        delivering = Delivering(writer)
        await delivering.send(0, "a", [b"a"])
        await sink.expect("start_part")
        await sink.close()
        assert (await delivering.ended())[0] is grpc.StatusCode.UNAVAILABLE


async def test_a_caller_may_not_get_far_ahead_of_a_sink_that_does_not_answer() -> None:
    async with world() as (gateway, sink, writer):
        delivering = Delivering(writer)
        for number in range(30):
            await delivering.send(0, str(number), [b"v"])
        for _ in range(3 * 16):
            await sink.receive()
        assert len(gateway.sinks["out"].sessions["i"].open) <= 16 + 2


async def test_a_token_that_is_revoked_or_a_gateway_that_stops_ends_an_idle_call() -> None:
    for ends, code in (
        (lambda gateway: gateway.close(), grpc.StatusCode.UNAVAILABLE),
        (
            lambda gateway: gateway.end_revoked(TokenRegistry([Token(name="clerk", sha256=("0" * 64,))])),
            grpc.StatusCode.UNAUTHENTICATED,
        ),
    ):
        async with world() as (gateway, sink, writer):
            delivering = Delivering(writer)
            await delivering.send(0, "a", [b"a"])
            await sink.take_part()
            await delivering.answer()
            ends(gateway)
            assert (await delivering.ended())[0] is code


@by_each_entry
async def test_a_part_that_is_delivered_twice_is_written_twice(entry: str) -> None:
    async with world() as (_, sink, writer):
        delivering = Delivering(writer)
        for _ in range(2):
            await delivering.send_by(entry, 0, "a", [b"a"])
            assert (await sink.take_part())[1] == [b"a"]
            assert await delivering.answer() == []


@by_each_entry
async def test_a_part_that_is_sent_again_before_its_answer_is_written_twice_on_one_call_or_on_two(entry: str) -> None:
    async with world() as (gateway, sink, writer):
        one, other = Delivering(writer), Delivering(writer)
        for delivering in (one, one, other):
            await delivering.send_by(entry, 0, "a", [b"a"])
        assert [(await sink.take_part())[1] for _ in range(3)] == [[b"a"]] * 3
        assert [await delivering.answer() for delivering in (one, one, other)] == [[]] * 3
        assert not gateway.sinks["out"].sessions["i"].open


@by_each_entry
async def test_a_frame_that_is_too_large_ends_its_call_and_no_other(entry: str) -> None:
    async with world(max_frame_bytes=1024) as (_, sink, writer):
        delivering, other = Delivering(writer), Delivering(writer)
        await delivering.send_by(entry, 0, "a", [b"v" * 2000], only=2)
        assert (await delivering.ended())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        await sink.expect("start_part")
        await sink.expect("drop_part")
        await other.send_by(entry, 0, "b", [b"b"])
        assert (await sink.take_part())[1] == [b"b"]
        assert await other.answer() == []


@pytest.mark.parametrize(
    "message", [{"frame": frame(0, 0, [b"v"])}, {"end": pb.DeliveryEnd()}, {"start": pb.DeliveryStart(sink="s" * 256)}, {}]
)
async def test_a_part_that_does_not_begin_as_it_should_ends_the_call(message: dict[str, Any]) -> None:
    async with world() as (_, _sink, writer):
        delivering = Delivering(writer)
        await delivering.write(**message)
        assert (await delivering.ended())[0] in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)


async def _parts(writer: Writer, number: int) -> AsyncIterator[Delivered]:
    """The requests of a call that delivers parts, and that then stays open."""
    for part in range(number):
        rows = frame(0, 0, [b"v"])
        for request, received in (
            (pb.DeliverRequest(start=writer.start(0, attempt=str(part))), b""),
            (pb.DeliverRequest(frame=rows), rows.SerializeToString()),
            (pb.DeliverRequest(end=pb.DeliveryEnd(messages=1)), b""),
        ):
            yield Delivered(request, memoryview(received))
    await asyncio.Event().wait()


@pytest.mark.parametrize("turns", range(6))
async def test_a_call_that_is_cancelled_around_the_answer_leaves_no_part_behind(turns: int) -> None:
    async with world() as (gateway, sink, writer):
        session = gateway.sinks["out"].sessions["i"]
        answers = deliver_at_once(gateway, EVERYTHING, _parts(writer, 1))
        call = asyncio.ensure_future(anext(answers))
        await asyncio.wait([asyncio.ensure_future(sink.expect("start_part")), call], return_when=asyncio.FIRST_COMPLETED)
        while not any(opened.complete for opened in session.open.values()):  # noqa: ASYNC110
            await asyncio.sleep(0)
        (part_id,) = session.open
        # The sink answers, and the call is cancelled some turns of the event loop later.
        session.staged(part_id, [])
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await answers.aclose()
        assert not session.open
        assert not session.holdings.transactions()
        assert await writer.report_commits(0) == 0
        assert not gateway.sinks["out"].outcomes["aborted"], "batch 0 is committed, and nothing of it may be aborted"


@pytest.mark.parametrize("parts", [1, 5, 40])
async def test_a_call_that_is_cancelled_leaves_no_task_behind(parts: int) -> None:
    async with world() as (gateway, sink, writer):
        session = gateway.sinks["out"].sessions["i"]
        before = asyncio.all_tasks()
        answers = deliver_at_once(gateway, EVERYTHING, _parts(writer, parts))
        call = asyncio.ensure_future(anext(answers))
        reading = asyncio.ensure_future(_read_all(sink))
        async with asyncio.timeout(DEADLINE_S):
            while sum(opened.complete for opened in session.open.values()) < min(parts, MAX_OPEN):  # noqa: ASYNC110
                await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await answers.aclose()
        assert asyncio.all_tasks() - before == {reading}
        assert not session.open
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_call_with_unanswered_parts_ends_when_its_token_is_revoked() -> None:
    async with world() as (gateway, sink, writer):
        delivering = Delivering(writer)
        await delivering.send(0, "a", [b"a"])
        await sink.expect("start_part")
        gateway.end_revoked(TokenRegistry([Token(name="clerk", sha256=("0" * 64,))]))
        assert (await delivering.ended())[0] is grpc.StatusCode.UNAUTHENTICATED


async def _read_all(sink: SinkClient) -> None:
    while True:
        await sink.receive()
