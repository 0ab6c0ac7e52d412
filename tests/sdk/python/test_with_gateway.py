"""The SDK with the real gateway, and an engine that speaks the protocol message by message."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.fake_gateway.server import until
from tests.gateway.certificates import Authority
from tests.gateway.processes import gateway_process
from tests.gateway.wire import Engine, values_of
from tests.gateway.wire import serve as gateway

from headrace.gateway.config import Limits
from headrace.protocol.v1 import frame_pb2
from headrace.sdk import GONE, AsyncSource, Message, Position, PositionLost, Settings, Source, SourceKind, Tls, serve


class Log(Source):
    """A log in memory, sequences 10, 20, ..., that may have lost its beginning."""

    name = "orders"

    def __init__(self, values: list[bytes], *, first: int = 0) -> None:
        self.values = values
        self.first = first
        self.acks: list[int] = []

    def read(self, partition, position):
        start = position.sequence // 10 if position else 0
        if position and start < self.first:
            raise PositionLost("pruned", earliest=10 * (self.first + 1))
        for at in range(max(start, self.first), len(self.values)):
            yield Message(self.values[at], sequence=10 * (at + 1))

    def acknowledged(self, partition, position):
        self.acks.append(position.sequence)


@pytest.fixture
async def run():
    """Runs a source; stops it at the end of the test."""
    tasks = []

    def start(source, address, **options):
        tasks.append(asyncio.create_task(serve(source, gateway=address, **options)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: not any(thread.name.startswith("headrace ") for thread in threading.enumerate()))


async def test_a_source_is_read_committed_acknowledged_and_ends(run):
    async with gateway() as (_, address):
        source = Log([b"%d" % n for n in range(1000)])
        task = run(source, address)
        engine = Engine(address)
        await engine.attach()
        half = await engine.plan_until("orders/0", 4000, max_messages=400)
        await engine.plan({"orders/0": half.end}, wait_ms=0)
        await until(lambda: source.acks == [half.end.sequence])
        rest = await engine.plan_until("orders/0", 10_000)
        assert not task.done()
        await engine.plan({"orders/0": rest.end}, wait_ms=0)
        await asyncio.wait_for(task, 60)
        assert source.acks == [half.end.sequence, 10_000]
        await engine.close()


class Days(Source):
    """A partition at a time, which is gone once it was read, though its name may be used again."""

    name = "orders"

    def __init__(self, listed: list[str]) -> None:
        self.listed = listed
        self.read_from: list[tuple[str, Position | None]] = []

    def partitions(self):
        return list(self.listed)

    def read(self, partition, position):
        self.read_from.append((partition, position))
        yield Message(b"one", sequence=1)
        yield GONE


class AsyncDays(AsyncSource):
    """The same on the loop."""

    name = "orders"

    def __init__(self, listed: list[str]) -> None:
        self.blocking = Days(listed)
        self.read_from = self.blocking.read_from

    async def partitions(self):
        return self.blocking.partitions()

    async def read(self, partition, position):
        for item in self.blocking.read(partition, position):
            yield item


@pytest.mark.parametrize("kind", [Days, AsyncDays])
async def test_a_partition_that_is_gone_is_forgotten_and_its_name_free(run, kind):
    async with gateway() as (_, address):
        listed = ["1"]
        source = kind(listed)
        task = run(source, address, settings=Settings(partition_poll_seconds=0.01))
        engine = Engine(address)
        await engine.attach()
        await engine.plan_until("orders/1", 1)
        await engine.plan({"orders/1": 1}, wait_ms=0)
        assert not task.done(), "others may follow"
        listed[:] = ["2"]
        while "orders/1" not in (told := await engine.plan(wait_ms=1000)).forgotten:
            pass
        assert [r.stream for r in told.ranges] == ["orders/2"]
        listed[:] = ["1", "2"]
        one = frame_pb2.StreamPosition(stream="orders/1", position=frame_pb2.Position(sequence=1))
        await engine.plan({"orders/2": 1}, forgotten=[one], wait_ms=0)
        assert (await engine.plan_until("orders/1", 1)).messages == 1
        assert source.read_from == [("1", None), ("2", None), ("1", None)]
        await engine.close()


async def test_a_pipeline_that_goes_on_from_its_checkpoint(run):
    async with gateway() as (_, address):
        source = Log([b"%d" % n for n in range(10)])
        run(source, address)
        engine = Engine(address)
        await engine.attach({"orders/0": 40})
        planned = await engine.plan_until("orders/0", 100)
        assert planned.messages == 6
        assert source.acks == [40]
        await engine.close()


async def test_credit_far_below_what_the_source_has(run):
    limits = Limits(buffer_bytes=1 << 20, max_frame_bytes=700_000, session_messages=100)
    async with gateway(limits) as (_, address):
        source = Log([b"x" * 100] * 2000 + [b"y" * 600_000] + [b"z"])
        task = run(source, address)
        engine = Engine(address)
        await engine.attach()
        committed = {}
        while not task.done():
            for planned in (await engine.plan(committed, wait_ms=100)).ranges:
                committed[planned.stream] = planned.end
        assert source.acks[-1] == 20_020
        await engine.close()


async def test_a_batch_that_needs_the_slower_of_two_partitions_gets_it_though_the_other_has_used_up_the_credit(run):
    slow = threading.Event()

    class Partitions(Source):
        """Partition 0 has much at once; partition 1 lags behind it, as after a restart of the gateway in mid-batch."""

        name = "orders"

        def partitions(self):
            return ["0", "1"]

        def read(self, partition, position):
            if partition == "1":
                while not slow.is_set():
                    yield None
            for sequence in range((position.sequence if position else 0) + 1, 3001):
                yield Message(b"%d" % sequence, sequence=sequence)

    async with gateway(Limits(session_messages=1000)) as (_, address):
        engine = Engine(address)
        batch = {"orders/0": 500, "orders/1": 2500}
        await engine.attach(planned=batch)
        run(Partitions(), address)
        fast = asyncio.create_task(engine.fetch("orders/0", None, 500))
        await until(lambda: fast.done())
        async with asyncio.timeout(60):
            while (await engine.status()).sessions[0].credit_messages:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)
        slow.set()
        messages = values_of(await asyncio.wait_for(engine.fetch("orders/1", None, 2500), 60))
        assert messages[:2500] == [b"%d" % n for n in range(1, 2501)]
        committed = {"orders/0": 500, "orders/1": 2500}
        async with asyncio.timeout(60):
            while committed != {"orders/0": 3000, "orders/1": 3000}:
                committed |= {r.stream: r.end.sequence for r in (await engine.plan(committed, wait_ms=1000)).ranges}
        await engine.close()


async def test_a_gateway_with_as_many_sessions_as_it_may_have_is_tried_again(run):
    async with gateway(Limits(max_sessions=1)) as (served, address):
        first = run(Log([b"a"]), address, instance="first")
        engine = Engine(address)
        await engine.status_once(lambda status: len(status.sessions) == 1)
        second = run(Log([b"a"]), address, instance="second")
        await until(lambda: served.rejected_sessions.get("UNAVAILABLE", 0) > 1)
        assert not second.done()
        first.cancel()
        await engine.status_once(lambda status: [s.instance for s in status.sessions] == ["second"])
        await engine.close()


async def test_partitions_that_have_ended_make_room_for_others(run):
    class Hours(Source):
        name = "orders"
        hours = 1

        def partitions(self):
            return [str(hour) for hour in range(self.hours)]

        def read(self, partition, position):
            if position is None:
                yield Message(b"one", sequence=1)

    async with gateway(Limits(max_streams_per_session=2)) as (_, address):
        source, engine, committed = Hours(), Engine(address), {}
        await engine.attach()
        task = run(source, address, settings=Settings(partition_poll_seconds=0.02))
        async with asyncio.timeout(60):
            while len(committed) < 6:
                for planned in (await engine.plan(committed, wait_ms=50)).ranges:
                    committed[planned.stream] = planned.end
                    source.hours += 1
                assert not task.done() or not task.exception(), task.exception()
        await engine.close()


async def test_a_lost_position_is_skipped_where_the_pipeline_accepts_it(run):
    async with gateway() as (_, address):
        source = Log([b"%d" % n for n in range(10)], first=7)
        run(source, address)
        engine = Engine(address, skip_lost=True)
        await engine.attach({"orders/0": 30})
        planned = await engine.plan_until("orders/0", 100)
        assert planned.messages == 3
        await engine.close()


async def test_a_redelivering_source_is_settled(run):
    class Queue(Source):
        name = "orders"
        kind = SourceKind.REDELIVERING
        idle_seconds = 0.002
        settled: list[object] = []  # noqa: RUF012

        def read(self, partition, position):
            for n in range(100):
                yield Message(b"%d" % n, token=n)
            while True:
                yield None

        def settle(self, partition, tokens):
            self.settled.extend(tokens)

    async with gateway() as (_, address):
        source = Queue()
        run(source, address)
        engine = Engine(address)
        await engine.attach()
        planned = await engine.plan_until("orders/0", 60, max_messages=60)
        assert planned.end.epoch > 0
        await engine.plan({"orders/0": planned.end}, wait_ms=0)
        await until(lambda: source.settled == list(range(60)))
        await engine.close()


async def test_mutual_tls_and_a_token(run, tmp_path: Path):
    authority = Authority(tmp_path, "authority")
    server, client = authority.issue("server"), authority.issue("client")
    files = ("--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", authority.cert)
    with gateway_process(*files) as process:
        tls = Tls(ca=authority.cert, certificate=client.cert, key=client.key)
        run(Log([b"a"]), process.address, tls=tls, token="any")
        await asyncio.to_thread(process.wait_for_log, "session opened")
