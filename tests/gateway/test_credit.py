"""Credit comes back however frames are let go of, and a batch never waits for messages that credit keeps from coming."""

import pytest
from tests.gateway.wire import Connector, Engine, numbered, serve, values_of

from headrace.gateway.config import Limits
from headrace.gateway.core.streams.frames import OVERHEAD_BYTES
from headrace.protocol.v1 import source_pb2

WINDOW = 20


async def with_two_streams(address: str) -> Connector:
    """A session with streams orders/0 and orders/1, as ids 1 and 2, both open."""
    source = Connector(address)
    await source.hello()
    for n in (0, 1):
        await source.open(f"orders/{n}", n + 1)
        await source.expect("stream_opened")
    return source


@pytest.mark.parametrize(("sent", "asks"), [(WINDOW // 2, False), (3, True)], ids=["much", "little, to one who asks"])
async def test_a_stream_that_starts_over_gives_its_credit_back(sent: int, asks: bool) -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        first, second = Engine(address, "first"), Engine(address, "second")
        await first.attach(committed={"orders/0": 10})
        source = await with_two_streams(address)
        await source.send(frame=numbered(1, 11, sent))
        await source.send(frame=numbered(2, 1, WINDOW - sent))
        await first.plan_until("orders/1", WINDOW - sent)
        await first.fetch("orders/0", 10, 10 + sent)
        await second.attach(committed={"orders/0": 5})
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open("orders/0", 3)
        assert (await source.expect("stream_opened")).resume.sequence == 5
        if asks:
            await source.send(credit_request=source_pb2.CreditRequest(bytes=100, messages=1, stream_id=2))
        assert (await source.expect_credit()).messages == sent
        for client in (source, first, second):
            await client.close()


async def test_a_batch_gets_its_messages_though_another_stream_has_used_up_the_credit() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 5})
        source = await with_two_streams(address)
        await source.send(frame=numbered(2, 1, WINDOW))
        await source.send(credit_request=source_pb2.CreditRequest(bytes=100, messages=5, stream_id=2))
        await source.send(credit_request=source_pb2.CreditRequest(bytes=100, messages=5, stream_id=1))
        credit = await source.expect_credit()
        assert (credit.messages, credit.stream_id) == (5, 1), "for the stream that is waited for, and not for the other"
        await source.send(frame=numbered(1, 1, 5))
        assert values_of(await pipeline.fetch("orders/0", None, 5)) == [b"1", b"2", b"3", b"4", b"5"]
        for client in (source, pipeline):
            await client.close()


async def test_what_a_batch_is_lent_is_not_lent_twice() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 100})
        source = await with_two_streams(address)
        await source.send(frame=numbered(2, 1, WINDOW))
        for _ in range(10):
            await source.send(credit_request=source_pb2.CreditRequest(bytes=100, messages=5, stream_id=1))
        await source.expect_credit()
        status = (await pipeline.status()).sessions[0]
        assert (status.credit_messages, status.outstanding_messages) == (5, WINDOW)
        for client in (source, pipeline):
            await client.close()


async def test_a_stream_that_asked_before_a_batch_waits_for_it_gets_credit_once_one_does() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        first, second = Engine(address, "first"), Engine(address, "second")
        await first.attach()
        source = await with_two_streams(address)
        await source.send(frame=numbered(2, 1, WINDOW))
        await source.send(
            credit_request=source_pb2.CreditRequest(bytes=100, messages=1, stream_id=1, ready_bytes=300, ready_messages=7)
        )
        await first.plan_until("orders/1", WINDOW)
        await second.attach(planned={"orders/0": 7})
        credit = await source.expect_credit()
        assert (credit.bytes, credit.messages, credit.stream_id) == (300 + OVERHEAD_BYTES, 7, 1), (
            "for all that the stream has ready"
        )
        await source.send(frame=numbered(1, 1, 7))
        assert values_of(await second.fetch("orders/0", None, 7)) == [b"%d" % n for n in range(1, 8)]
        for client in (source, first, second):
            await client.close()


async def test_each_frame_that_a_batch_waits_for_gets_credit_of_its_own_and_the_window_does_not_grow() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach(planned={"orders/0": 50})
        source = await with_two_streams(address)
        await source.send(frame=numbered(2, 1, WINDOW))
        for first in range(1, 51, 10):
            request = source_pb2.CreditRequest(bytes=50, messages=1, stream_id=1, ready_bytes=200, ready_messages=10)
            await source.send(credit_request=request)
            assert (await source.expect_credit()).messages == 10
            await source.send(frame=numbered(1, first, 10))
        assert len(values_of(await pipeline.fetch("orders/0", None, 50))) == 50
        status = (await pipeline.status()).sessions[0]
        assert (status.credit_messages, status.outstanding_messages) == (0, WINDOW)
        for client in (source, pipeline):
            await client.close()


async def test_a_new_query_on_an_old_stream_waits_for_the_batch_of_another_and_reads_its_history_within_the_credit() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        old, new = Engine(address, "old"), Engine(address, "new")
        await old.attach({"orders/0": 100})
        source = Connector(address)
        await source.hello()
        await source.open()
        assert (await source.expect("stream_opened")).resume.sequence == 100
        await source.send(frame=numbered(1, 101, 10))
        await old.plan_until("orders/0", 110)
        await new.attach()
        assert list((await new.plan(wait_ms=100)).ranges) == [], "a batch that runs comes first"
        assert values_of(await old.fetch("orders/0", 100, 110)) == [b"%d" % n for n in range(101, 111)]
        assert list((await new.plan(wait_ms=0)).ranges) == []
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert not (await source.expect("stream_opened")).HasField("resume")
        for first in range(1, 101, 10):
            await source.send(frame=numbered(2, first, 10))
            end = (await new.plan_until("orders/0", first + 9)).end
            session = (await old.status()).sessions[0]
            assert session.outstanding_messages + session.credit_messages <= WINDOW, "history takes credit"
            await new.plan({"orders/0": end}, wait_ms=0)
        # The other's batch is read once more, as when its task was lost.
        await source.send(frame=numbered(2, 101, 10))
        assert len(values_of(await old.fetch("orders/0", 100, 110))) == 10
        for client in (source, old, new):
            await client.close()


async def test_a_batch_that_is_read_again_comes_before_what_another_query_reads() -> None:
    async with serve(Limits(session_messages=WINDOW)) as (_, address):
        behind, ahead = Engine(address, "behind"), Engine(address, "ahead")
        await behind.attach()
        source = Connector(address)
        await source.hello()
        await source.open()
        assert not (await source.expect("stream_opened")).HasField("resume")
        await source.send(frame=numbered(1, 1, 10))
        await behind.status_once(lambda status: status.sessions[0].outstanding_messages == 10)
        await ahead.attach({"orders/0": 1000}, {"orders/0": 1010})
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=2)
        assert (await source.expect("stream_opened")).resume.sequence == 1000
        await source.send(frame=numbered(2, 1001, 10))
        assert len(values_of(await ahead.fetch("orders/0", 1000, 1010))) == 10
        assert list((await behind.plan(wait_ms=0)).ranges) == []
        assert (await source.expect("reject")).reason == source_pb2.REJECT_REASON_REOPEN
        await source.open(stream_id=3)
        assert not (await source.expect("stream_opened")).HasField("resume")
        for client in (source, behind, ahead):
            await client.close()
