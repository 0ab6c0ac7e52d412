"""When the gateway takes a stream for stalled: its source has messages left and credit, and sends nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.test_reports import DEGRADED, RUNNING, error, report
from tests.gateway.wire import DEADLINE_S, REDELIVERING, REPLAYABLE, Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway.config import Limits
from headrace.gateway.core import Gateway, Kind, problems
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.status import snapshot
from headrace.gateway.core.streams.session import pass_round_of_streams
from headrace.gateway.core.streams.stall import STALLED_AFTER_S, Outlook, Stall
from headrace.gateway.core.streams.stream import Backlog
from headrace.protocol.v1 import admin_pb2, source_pb2

# One stream, by rounds


def rounds(of: Stall, seen: Outlook | None, seconds: float = STALLED_AFTER_S, *, has_credit: bool = True) -> None:
    for _ in range(int(seconds)):
        of.pass_round(1.0, seen, has_credit=has_credit)


def test_a_stream_stalls_after_twenty_seconds_and_no_longer_once_it_sends() -> None:
    stall, behind = Stall(), Outlook(7, 5, 0)
    rounds(stall, behind)
    assert stall.stalled_ms is None
    rounds(stall, behind, 1)
    assert stall.stalled_ms is not None
    rounds(stall, Outlook(8, 5, 0), 1)
    assert stall.stalled_ms is None


def test_a_gateway_that_was_held_up_itself_blames_no_stream() -> None:
    with clock.use(VirtualClock()) as now:
        stall, behind = Stall(), Outlook(7, 5, 0)
        rounds(stall, behind, 1)
        now.advance(60)
        rounds(stall, behind, 1)
        assert stall.stalled_ms is None
        rounds(stall, behind)
        assert stall.stalled_ms == 60_000


def test_rounds_without_credit_do_not_count_and_do_not_begin_anew() -> None:
    stall, behind = Stall(), Outlook(7, 5, 0)
    for _ in range(int(STALLED_AFTER_S)):
        rounds(stall, behind, 1)
        rounds(stall, behind, 3, has_credit=False)
    assert stall.stalled_ms is None
    rounds(stall, behind, 1)
    assert stall.stalled_ms is not None


@given(
    st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.booleans())), max_size=80)
)
def test_only_so_many_rounds_in_a_row_without_any_progress_are_a_stall(seen: list[tuple[int, int, int, bool] | None]) -> None:
    stall, counted, before = Stall(), 0, None
    for one in seen:
        outlook = Outlook(*one[:3]) if one is not None else None
        stall.pass_round(1.0, outlook, has_credit=one is not None and one[3])
        if one is None or before is None or one[0] != before[0] or one[1] < before[1] or one[2] < before[2]:
            counted = 0
        elif one[3]:
            counted += 1
        before = one
        assert (stall.stalled_ms is not None) == (counted >= STALLED_AFTER_S)


# Sessions

STALLED = {"stream orders/0": Kind.SOURCE_STALLED}


class Source:
    """A connector with streams, a query that reads them, and the rounds of their gateway."""

    def __init__(self, gateway: Gateway, connector: Connector, engine: Engine) -> None:
        self.gateway, self.connector, self.engine = gateway, connector, engine

    async def opens(self, *streams: str, kind: Any = REPLAYABLE) -> None:
        for number, stream in enumerate(streams, start=1):
            await self.connector.open(stream, number, kind)
            await self.connector.expect("stream_opened")

    async def until(self, holds: Callable[[Any], bool], stream: str = "orders/0") -> None:
        """Waits until something holds for a stream."""
        async with asyncio.timeout(DEADLINE_S):
            while stream not in self.gateway.streams or not holds(self.gateway.streams[stream]):  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)

    async def backlog(self, stream_id: int = 1, stream: str = "orders/0", **fields: Any) -> None:
        """Reports a backlog, which the gateway has received when this returns."""
        told = source_pb2.Backlog(stream_id=stream_id, **fields)
        await self.connector.send(backlog=told)
        # An empty stream has no message 0 either.
        latest = (told.latest_sequence or BEGINNING.sequence) if told.HasField("latest_sequence") else None
        wanted = Backlog(latest, told.messages, told.bytes)
        await self.until(lambda one: one.backlog == wanted, stream)

    async def sends(self, first: int, count: int) -> None:
        """Sends a frame, which the gateway has received when this returns."""
        await self.connector.send(frame=numbered(1, first, count))
        await self.until(lambda one: one.received.sequence == first + count - 1)

    async def degraded(self, seconds: float = STALLED_AFTER_S + 1) -> dict[str, Kind]:
        """The degraded parts after some rounds, with the kind."""
        for _ in range(int(seconds)):
            for session in self.gateway.sessions.values():
                pass_round_of_streams(session, 1.0)
        status = await snapshot(self.gateway)
        return {problem.part: problem.kind for problem in problems(status, 900_000, 900_000)}


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    async with serve(Limits(query_lease_seconds=86400)) as (gateway, address):
        connector, engine = Connector(address), Engine(address, streams="orders/*")
        await connector.hello()
        await engine.attach()
        yield Source(gateway, connector, engine)
        await connector.close()
        await engine.close()


@pytest.mark.parametrize("left", [{"messages": 5}, {"bytes": 5}, {"latest_sequence": 5}])
async def test_a_stream_that_is_behind_and_sends_nothing_is_a_fault(source: Source, left: dict[str, int]) -> None:
    await source.opens("orders/0")
    await source.backlog(**left)
    assert await source.degraded() == STALLED
    [stream] = (await source.engine.status()).streams
    assert "has sent none for" in stream.detail
    await source.sends(1, 5)
    await source.backlog(messages=0, latest_sequence=5)
    assert await source.degraded() == {}


async def test_a_stream_that_has_caught_up_or_never_told_is_none(source: Source) -> None:
    await source.opens("orders/0", "orders/1")
    await source.backlog(messages=0, bytes=0, latest_sequence=0)
    assert await source.degraded() == {}


async def test_one_stream_stalls_whatever_the_others_of_its_connector_do(source: Source) -> None:
    await source.opens("orders/1", "orders/0")
    await source.backlog(2, messages=5)
    for first in range(1, 30):
        await source.connector.send(frame=numbered(1, first, 1))
        await source.until(lambda one, wanted=first: one.received.sequence == wanted, "orders/1")
        degraded = await source.degraded(1)
    assert degraded == STALLED


async def test_what_says_that_it_works_is_named_though_it_has_reported_an_error(source: Source) -> None:
    await source.opens("orders/0")
    await source.backlog(messages=5)
    await source.connector.send(report=report(RUNNING, errors=[error("a message was too large", stream="orders/0")]))
    await source.engine.status_once(lambda status: bool(status.sessions[0].reported.errors))
    assert (await source.degraded())["stream orders/0"] is Kind.SOURCE_STALLED


async def test_a_stream_whose_connector_reports_why_is_named_for_that(source: Source) -> None:
    await source.opens("orders/0")
    await source.backlog(messages=5)
    await source.connector.send(report=report(DEGRADED, reason="a transaction that has not ended holds back partition 0"))
    await source.engine.status_once(lambda status: status.sessions[0].reported.state == DEGRADED)
    assert await source.degraded() == {"connector test-0": Kind.CONNECTOR_REPORTS, "stream orders/0": Kind.CONNECTOR_REPORTS}
    await source.connector.send(report=report(RUNNING))
    await source.engine.status_once(lambda status: status.sessions[0].reported.state == RUNNING)
    assert await source.degraded(STALLED_AFTER_S - 1) == {}
    assert await source.degraded(2) == STALLED


async def test_a_stream_that_waits_for_credit_is_none(source: Source) -> None:
    await source.opens("orders/0", "orders/1")
    await source.backlog(messages=5)
    await source.connector.send(credit_request=source_pb2.CreditRequest(stream_id=1, bytes=100, messages=1))
    await source.until(lambda one: one.attachment.requested_credit is not None)
    assert await source.degraded() == {}


async def test_a_source_that_passes_over_what_it_does_not_send_has_not_stalled(source: Source) -> None:
    await source.opens("orders/0")
    for left in range(30, 0, -1):
        await source.backlog(messages=left)
        degraded = await source.degraded(10)
    assert degraded == {}


async def test_a_backlog_that_grows_is_no_progress(source: Source) -> None:
    await source.opens("orders/0")
    for left in range(1, 30):
        await source.backlog(messages=left, latest_sequence=left)
        degraded = await source.degraded(1)
    assert degraded == STALLED


@pytest.mark.parametrize(("kind", "expected"), [(REPLAYABLE, STALLED), (REDELIVERING, {})])
async def test_a_queue_may_wait_for_acknowledgements(source: Source, kind: Any, expected: dict[str, Kind]) -> None:
    await source.opens("orders/0", kind=kind)
    await source.sends(1, 3)
    await source.backlog(messages=5)
    assert await source.degraded() == expected
    plan = await source.engine.plan_until("orders/0", 3)
    await source.engine.plan({"orders/0": plan.end}, wait_ms=0)
    await source.until(lambda one: one.attachment.told.sequence == 3)
    assert await source.degraded() == STALLED


async def test_a_stream_that_is_paused_is_none(source: Source) -> None:
    await source.opens("orders/0")
    await source.backlog(messages=5)
    request = admin_pb2.PauseRequest(kind=admin_pb2.PART_KIND_STREAM, name="orders/0")
    await source.engine.admin.Pause(request, timeout=DEADLINE_S)
    assert set((await source.degraded()).values()) == {Kind.PAUSED}


async def test_a_connector_that_is_silent_is_named_for_that_and_has_its_time_afterwards(source: Source) -> None:
    await source.opens("orders/0")
    await source.backlog(messages=5)
    [session] = source.gateway.sessions.values()
    with mock.patch.object(type(session.heartbeat), "silent_ms", 7_000):
        degraded = await source.degraded()
    assert degraded["stream orders/0"] is Kind.CONNECTOR_SILENT
    assert await source.degraded(STALLED_AFTER_S - 1) == {}


async def test_a_connector_that_asks_for_no_credit_may_have_used_up_most_of_it(source: Source) -> None:
    await source.opens("orders/0")
    [session] = source.gateway.sessions.values()
    await source.sends(1, 3)
    await source.backlog(messages=5)
    session.account.messages_left = 0
    assert await source.degraded() == {}
    session.account.messages_left = 10
    assert await source.degraded() == STALLED


async def test_a_stream_that_no_query_reads_is_none(source: Source) -> None:
    await source.connector.open("other/0")
    await source.until(lambda one: one.attachment is not None, "other/0")
    await source.backlog(stream="other/0", messages=5)
    assert await source.degraded() == {"stream other/0": Kind.NOT_READ}
