"""Machines over a real broker: what was published is compared with what is committed and dead-lettered, whatever breaks."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pika
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests import machines
from tests.brokers.network import FaultyNetwork
from tests.connectors.rabbitmq.rig import DEADLINE_S, Query, Rabbit, until
from tests.gateway.wire import serve as gateway_serving
from tests.gateway.wire import until_gone

from headrace.connectors.rabbitmq import (
    RabbitMQParameters,
    RabbitMQQueueSource,
    RabbitMQStreamParameters,
    RabbitMQStreamSource,
)
from headrace.connectors.rabbitmq.consumer import Consumer
from headrace.connectors.rabbitmq.deliveries import Arrived
from headrace.sdk import AsyncSource, Message, Settings, serve

ROUNDS = 5
"""How often a connector may give back messages that it has not sent, at an orderly end."""
LIMIT = 100
"""Larger messages are rejected by the connector, where it is told to, in bytes."""


class RabbitMachine(RuleBasedStateMachine):
    """A queue behind a network that breaks, a connector that reads it, a gateway, and a query with a checkpoint."""

    rabbit: Rabbit

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self._gateway = AsyncExitStack()
        self.queue = ""
        self.published: list[bytes] = []
        """The values of all confirmed messages, in order. Each begins with its number."""
        self.found: list[Message] = []
        """The messages of committed micro-batches."""
        self.connector: asyncio.Task[None] | None = None
        self.consumers: list[Consumer] = []
        """All that the connector has opened; the last one works, if any does."""
        self.alarms = False
        """Whether there may be a memory alarm."""
        self.alarmed = False

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def source(self, **connection: Any) -> AsyncSource:
        """A connector for the queue."""
        raise NotImplementedError

    def judge(self) -> Any:
        """Reads to the end, and compares."""
        raise NotImplementedError

    async def unconsumed(self) -> None:
        """Waits, after a connection was broken, until what that means for the queue has happened."""

    async def begin(self, queue: str) -> None:
        self.queue = queue
        self.network = self._open.enter_context(FaultyNetwork(self.rabbit.broker.port))
        patch = self._open.enter_context(pytest.MonkeyPatch.context())
        really_opened = Consumer.open

        async def noted(*arguments: Any, **options: Any) -> Consumer:
            consumer = await really_opened(*arguments, **options)
            self.consumers.append(consumer)
            return consumer

        patch.setattr(Consumer, "open", noted)
        _, self.address = await self._gateway.enter_async_context(gateway_serving())
        self.query = Query(self.address)
        self.start()

    def start(self) -> None:
        """Starts the connector."""
        self._stop = asyncio.Event()
        source = self.source(source="s", url=self.rabbit.broker.url_at(self.network.port), queue=[self.queue])
        settings = Settings(stuck_seconds=0.5)
        self.connector = asyncio.create_task(serve(source, gateway=self.address, stop=self._stop, settings=settings))

    async def end(self, *, orderly: bool) -> None:
        """Ends the connector."""
        assert self.connector is not None
        if orderly:
            self._stop.set()
        else:
            self.connector.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(self.connector, DEADLINE_S)
        await until_gone(self.address, "s")
        self.connector = None

    async def publish(self, sizes: list[int], **properties: Any) -> None:
        """Publishes messages of their own numbers, filled up to a size."""
        numbers = range(len(self.published), len(self.published) + len(sizes))
        values = [(b"%d " % number).ljust(size, b"x") for number, size in zip(numbers, sizes, strict=True)]
        await asyncio.to_thread(self.rabbit.publish, self.queue, values, **properties)
        self.published += values

    async def poll(self) -> None:
        """Runs and commits a micro-batch."""
        messages = await self.query.batch()
        await self.query.commit()
        self.found += messages

    async def read_to(self, value: bytes) -> None:
        """Runs and commits micro-batches until one has a message."""
        async with asyncio.timeout(DEADLINE_S):
            while not any(message.value == value for message in self.found):
                assert self.connector is not None
                assert not self.connector.done(), self.connector
                await self.poll()

    async def renew_query(self, **options: Any) -> None:
        """Replaces the query by another run, or by another query, with the same checkpoint."""
        committed = self.query.committed
        await self.query.close()
        self.query = Query(self.address, **options)
        self.query.committed = committed

    def teardown(self) -> None:
        try:
            if self.queue:
                self.run(self._end())
        finally:
            self._runner.close()

    async def _end(self) -> None:
        try:
            if self.alarmed:
                self.set_memory_limit("1GB")
            if self.connector is None:
                self.start()
            await self.judge()
        finally:
            if self.connector is not None:
                self.connector.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await self.connector
            await self.query.close()
            await self._gateway.aclose()
            await self._open.aclose()
            with contextlib.suppress(pika.exceptions.AMQPError):
                self.rabbit.delete(self.queue)

    def set_memory_limit(self, limit: str) -> None:
        self.rabbit.broker.ctl("set_vm_memory_high_watermark", "absolute", limit)
        self.alarmed = limit == "1"

    # What happens

    @precondition(lambda self: not self.alarmed)
    @rule(sizes=st.lists(st.sampled_from([0, 1, LIMIT + 1, 5_000]), min_size=1, max_size=40))
    def publishes(self, sizes: list[int]) -> None:
        self.run(self.publish(sizes))

    @rule(times=st.integers(1, 3))
    def reads(self, times: int) -> None:
        async def work() -> None:
            for _ in range(times):
                await self.poll()

        self.run(work())

    async def poll_without_committing(self) -> None:
        """Runs a micro-batch that is not committed."""
        await self.query.batch()

    @rule()
    def reads_without_committing(self) -> None:
        self.run(self.poll_without_committing())

    @rule()
    def query_runs_again(self) -> None:
        self.run(self.renew_query())

    @rule(milliseconds=st.sampled_from([1, 20, 300]))
    def time_passes(self, milliseconds: int) -> None:
        self.run(asyncio.sleep(milliseconds / 1000))

    @precondition(lambda self: self.connector is None)
    @rule()
    def connector_starts(self) -> None:
        async def work() -> None:
            self.start()

        self.run(work())

    @rule()
    def gateway_is_killed(self) -> None:
        async def work() -> None:
            port = int(self.address.rpartition(":")[2])
            await self._gateway.aclose()
            await self._gateway.enter_async_context(gateway_serving(port=port))
            await self.renew_query()
            await self.unconsumed()

        self.run(work())

    @precondition(lambda self: self.connector is not None)
    @rule(orderly=st.booleans())
    def connector_ends(self, orderly: bool) -> None:
        async def work() -> None:
            await self.end(orderly=orderly)
            await self.unconsumed()

        self.run(work())

    @rule(how=st.sampled_from(["reset", "refuse", "cut"]))
    def network_breaks(self, how: str) -> None:
        async def work() -> None:
            getattr(self.network, how)()
            await asyncio.sleep(0.02)
            self.network.restore()
            await self.unconsumed()

        self.run(work())

    @rule()
    def connection_is_aborted(self) -> None:
        """By the connector's own system, without a word from the broker."""

        async def work() -> None:
            # Whether there is a consumer depends on the time, so that it must not decide which rules may be drawn.
            if self.consumers and (transport := self.consumers[-1]._link.wire._transport) is not None:
                transport.abort()
            await asyncio.sleep(0)
            await self.unconsumed()

        self.run(work())

    @rule()
    def channel_is_closed(self) -> None:
        """The broker closes it, because a delivery is acknowledged that it has not made."""

        async def work() -> None:
            if self.consumers:
                self.consumers[-1].acknowledge_one(1 << 40)
            await asyncio.sleep(0.02)
            await self.unconsumed()

        self.run(work())

    @precondition(lambda self: self.alarms and not self.alarmed)
    @rule()
    def memory_alarm(self) -> None:
        """Publishers are blocked from now on. The command takes seconds of the processor: one in an example is enough."""
        self.set_memory_limit("1")
        self.alarms = False

    @precondition(lambda self: self.alarmed)
    @rule()
    def memory_alarm_ends(self) -> None:
        self.set_memory_limit("1GB")


class QueueMachine(RabbitMachine):
    """The `rabbitmq` source: each message at least once, or dead-lettered, and acknowledged once it is committed."""

    @initialize(
        kind=st.sampled_from(["classic", "quorum"]),
        temporary=st.sampled_from([None, None, None, "auto-delete", "expires"]),
        delivery_limit=st.sampled_from([1, 3, 1000]),
        prefetch=st.sampled_from([1, 7, 20_000]),
        rejects=st.booleans(),
        alarms=st.sampled_from([False, False, False, False, True]),
    )
    def begins(self, kind: str, temporary: str | None, delivery_limit: int, prefetch: int, rejects: bool, alarms: bool) -> None:
        self.alarms = alarms
        self.kind = "classic" if temporary == "auto-delete" else kind
        self.temporary = temporary
        self.prefetch, self.rejects = prefetch, rejects
        self.excused: set[bytes] = set()
        """Messages that went with their queue, or by the hand of an operator."""
        self.dead = self.rabbit.declare("classic")
        self.dead_lettered: set[bytes] = set()
        self.options: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": self.dead}
        if self.kind == "quorum":
            self.options["delivery_limit"] = delivery_limit
        if temporary == "expires":
            self.options["expires"] = 200
        queue = f"{self.dead}-read"
        self.declare(queue)
        self.run(self.begin(queue))

    def declare(self, queue: str) -> int:
        """Declares the queue, where it is not there; returns how many consumers it has."""
        arguments = {f"x-{key.replace('_', '-')}": value for key, value in self.options.items()}
        with contextlib.closing(self.rabbit.channel()) as channel:
            declared = channel.queue_declare(
                queue,
                durable=True,
                auto_delete=self.temporary == "auto-delete",
                arguments={"x-queue-type": self.kind, **arguments},
            )
        return int(declared.method.consumer_count)

    def source(self, **connection: Any) -> AsyncSource:
        return RabbitMQQueueSource(
            RabbitMQParameters(
                prefetch=self.prefetch,
                temporary_queue="accept",
                missing_queue="wait" if self.temporary else "fail",
                reject_above_bytes=LIMIT if self.rejects else None,
                **connection,
            )
        )

    async def publish(self, sizes: list[int], **properties: Any) -> None:
        self.declare(self.queue)
        await super().publish(sizes, **properties)
        if self.temporary == "expires" and not self._consumers():
            self.excused |= set(self.published)

    async def unconsumed(self) -> None:
        """A queue that goes with its last consumer has gone, with its messages. Until then, it is unknown what goes."""
        if not self.temporary:
            return
        self.network.refuse()
        await until(lambda: not self._consumers())
        self.network.restore()
        self.excused |= set(self.published)

    def _consumers(self) -> int:
        """How many consumers the queue has; none if it is gone."""
        channel = self.rabbit.channel()
        try:
            return int(channel.queue_declare(self.queue, passive=True).method.consumer_count)
        except pika.exceptions.ChannelClosedByBroker:
            return 0
        finally:
            if channel.is_open:
                channel.close()

    @precondition(lambda self: not self.alarmed)
    @rule(count=st.integers(1, 5), milliseconds=st.sampled_from([0, 50]))
    def publishes_messages_that_expire(self, count: int, milliseconds: int) -> None:
        self.run(self.publish([1] * count, expiration=str(milliseconds)))

    @precondition(lambda self: self.temporary is None)
    @rule(count=st.integers(1, 20))
    def another_consumer_gives_back(self, count: int) -> None:
        with contextlib.closing(self.rabbit.channel()) as channel:
            got = [channel.basic_get(self.queue)[0] for _ in range(count)]
            for method in reversed(got):
                if method is not None:
                    channel.basic_nack(method.delivery_tag, requeue=True)

    @precondition(lambda self: self.temporary is None)
    @rule()
    def queue_is_purged(self) -> None:
        self.declare(self.queue)
        with contextlib.closing(self.rabbit.channel()) as channel:
            channel.queue_purge(self.queue)
        self.excused |= set(self.published)

    async def judge(self) -> None:
        if self.temporary:
            await self._settle_down()
        await self.publish([0])
        await self.read_to(self.published[-1])
        if self.temporary:
            await self._read_all()
        else:
            await self._empty()
        committed = [message.value for message in self.found]
        assert set(committed) <= set(self.published), "nobody has published that"
        if self.rejects:
            assert max(map(len, committed)) <= LIMIT
        self._check_order()
        lost = self._missing()
        assert not lost, f"{len(lost)} messages are lost: they are neither committed nor dead-lettered nor in the queue"

    async def _settle_down(self) -> None:
        """Waits until the connector consumes a queue of which it is the only consumer."""
        async with asyncio.timeout(DEADLINE_S):
            while await asyncio.to_thread(self.declare, self.queue) != 1:
                await self.poll()

    async def _read_all(self) -> None:
        """Reads until each message is committed or dead-lettered."""
        async with asyncio.timeout(DEADLINE_S):
            while await asyncio.to_thread(self._missing):
                assert self.connector is not None
                assert not self.connector.done(), self.connector
                await self.poll()

    async def _empty(self) -> None:
        """Reads until the queue is empty, also after the connector has ended in good order."""
        for _ in range(ROUNDS):
            async with asyncio.timeout(DEADLINE_S):
                while await asyncio.to_thread(self.rabbit.count, self.queue):
                    await self.poll()
            ending = asyncio.create_task(self.end(orderly=True))
            while not ending.done():
                await self.poll()
            await ending
            if not self.rabbit.count(self.queue):
                return
            # It had received messages that it could no longer send.
            self.start()
        raise AssertionError("committed messages stay in the queue")

    def _missing(self) -> set[bytes]:
        """The messages that are neither committed nor dead-lettered."""
        with contextlib.closing(self.rabbit.channel()) as channel:
            while (got := channel.basic_get(self.dead, auto_ack=True))[0] is not None:
                self.dead_lettered.add(got[2])
        return set(self.published) - self.excused - self.dead_lettered - {message.value for message in self.found}

    def _check_order(self) -> None:
        """Messages that come for the first time come in the order in which they were published, and once."""
        fresh = [int(message.value.split()[0]) for message in self.found if "amqp-redelivered" not in dict(message.headers or ())]
        assert fresh == sorted(set(fresh)), f"not in the order of publication: {fresh}"


class StreamMachine(RabbitMachine):
    """The `rabbitmq-stream` source: each message once, in order, or the position is lost."""

    @initialize(limited=st.booleans(), prefetch=st.sampled_from([1, 7, 10_000]))
    def begins(self, limited: bool, prefetch: int) -> None:
        self.limited, self.prefetch, self.lost = limited, prefetch, 0
        limits = {"max_length_bytes": 20_000} if limited else {}
        self.run(self.begin(self.rabbit.declare("stream", stream_max_segment_size_bytes=5_000, **limits)))

    def source(self, **connection: Any) -> AsyncSource:
        return RabbitMQStreamSource(RabbitMQStreamParameters(prefetch=self.prefetch, **connection))

    async def poll(self) -> None:
        await self._accept_loss(super().poll())

    async def poll_without_committing(self) -> None:
        await self._accept_loss(super().poll_without_committing())

    async def _accept_loss(self, work: Awaitable[None]) -> None:
        try:
            await work
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DATA_LOSS or not self.limited:
                raise
            # Another query continues from the checkpoint, and skips the lost messages.
            self.lost += 1
            await self.query.detach()
            await self.renew_query(name=f"q{self.lost}", skip_lost=True)

    @precondition(lambda self: not self.alarmed)
    @rule()
    def stream_grows(self) -> None:
        """Beyond what a limited one keeps: several segments."""

        async def work() -> None:
            for _ in range(6):
                await self.publish([500] * 10)

        self.run(work())

    async def judge(self) -> None:
        await self.publish([0])
        await self.read_to(self.published[-1])
        committed = [message.value for message in self.found]
        assert [message.sequence for message in self.found] == sorted({message.sequence for message in self.found})
        first = self.published.index(committed[0])
        if self.lost or self.limited:
            places = [self.published.index(value) for value in committed]
            assert places == sorted(set(places)), "a message comes twice, or out of order"
        if not self.lost:
            # A query without a checkpoint begins with the first message that is left.
            assert first == 0 or self.limited
            assert committed == self.published[first:], "messages are gone without a word"


def test_a_queue_loses_nothing(rabbit: Rabbit, pytestconfig: pytest.Config) -> None:
    QueueMachine.rabbit = rabbit
    machines.run(QueueMachine, pytestconfig, 6.0)


def test_a_stream_gives_each_message_once_or_loses_the_position(rabbit: Rabbit, pytestconfig: pytest.Config) -> None:
    StreamMachine.rabbit = rabbit
    machines.run(StreamMachine, pytestconfig, 6.0)


def swapped(arrived: Arrived) -> Arrived:
    """Swaps the first two messages, but not their delivery tags."""
    for column in (arrived.routes, arrived.properties, arrived.values):
        column[:2] = column[1::-1]
    return arrived


def without_second(arrived: Arrived) -> Arrived:
    """Leaves a message out. Acknowledging a later one includes it."""
    return arrived.only([place != 1 or len(arrived) == 2 for place in range(len(arrived))])


@pytest.mark.parametrize(
    ("machine", "fault", "found"),
    [
        pytest.param(QueueMachine, swapped, "not in the order of publication", marks=pytest.mark.in_turn(1)),
        pytest.param(QueueMachine, without_second, "messages are lost", marks=pytest.mark.in_turn(2)),
        pytest.param(StreamMachine, without_second, "gone without a word|comes twice", marks=pytest.mark.in_turn(3)),
    ],
)
def test_a_fault_is_found(
    rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch, machine: type[RabbitMachine], fault: Callable[[Arrived], Arrived], found: str
) -> None:
    machine.rabbit = rabbit
    take = Consumer.take
    monkeypatch.setattr(Consumer, "take", lambda consumer: fault(take(consumer)))
    with pytest.raises(AssertionError, match=found):
        machines.find_fault(machine)
