"""Machines over a real server: what was stored in a stream is compared with what queries get, whatever happens to either."""

import asyncio
import contextlib
from array import array
from typing import Any

import grpc
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from nats.aio.msg import Msg
from nats.js.errors import APIError, NotFoundError
from scripts.brokers import Nats
from tests.connectors.nats.rig import DEADLINE, Query, Running, Server, connection, unused
from tests.connectors.nats.rig import server as connected
from tests.gateway.wire import serve, until_gone
from tests.machines import find_fault, run

from headrace.connectors.nats import NatsConsumerParameters, NatsConsumerSource, NatsParameters, NatsSource, _source
from headrace.connectors.nats.columns import batch_of
from headrace.sdk import AsyncSource, Batch, Message

SUBJECTS = st.sampled_from(["a", "b", "c"])
LAST = b"last"


class NatsMachine(RuleBasedStateMachine):
    """A stream, a connector that reads it, and a query with a checkpoint."""

    nats: Nats

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._open = contextlib.AsyncExitStack()
        self.server: Server
        self.query: Query
        self.running: Running | None = None
        self.stream = ""
        self.stored: dict[int, tuple[str, bytes]] = {}
        """All messages that were ever acknowledged, by sequence: their subjects and values."""
        self.excused: set[int] = set()
        """Those that somebody removed one by one, or by subject: a gap that any stream may have."""
        self.found: list[Message] = []

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def source(self) -> AsyncSource:
        """A connector for the stream."""
        raise NotImplementedError

    async def begin(self, **config: Any) -> None:
        self.server = await self._open.enter_async_context(connected(self.nats.url))
        _, self.address = await self._open.enter_async_context(serve())
        self.stream = await self.server.raw_stream(unused("MACHINE"), **config)
        self.query = Query(self.address)
        await self.query.attach()
        self.start()

    def start(self) -> None:
        self.running = Running(self.source(), self.address)

    async def end_connector(self, *, orderly: bool) -> None:
        assert self.running is not None
        if orderly:
            await self.running.stop()
        else:
            await self.running.close()
        await until_gone(self.address, "s")
        self.running = None

    async def publish(self, subject: str, value: bytes, **headers: str) -> int | None:
        """Stores a message; returns its sequence, None if the stream refuses it."""
        try:
            stored = await self.server.js.publish(f"{self.stream}.{subject}", value, timeout=DEADLINE, headers=headers or None)
        except APIError:
            return None
        self.stored[stored.seq] = (subject, value)
        return int(stored.seq)

    async def there(self) -> set[int]:
        """The sequences that the stream has now."""
        state = (await self.server.js.stream_info(self.stream)).state
        found = set()
        for sequence in range(state.first_seq, state.last_seq + 1):
            with contextlib.suppress(NotFoundError):
                await self.server.js.get_msg(self.stream, sequence)
                found.add(sequence)
        return found

    async def poll(self) -> None:
        """A micro-batch; the one before is committed."""
        self.found += await self.query.poll(wait_ms=100)

    async def check(self) -> None:
        """Compares."""
        raise NotImplementedError

    def teardown(self) -> None:
        try:
            if self.stream:
                self.run(self._end())
        finally:
            self._runner.close()

    async def _end(self) -> None:
        try:
            if self.running is None:
                self.start()
            await self.check()
        finally:
            if self.running is not None:
                await self.running.close()
            await self.query.close()
            await self.server.js.delete_stream(self.stream)
            await self._open.aclose()

    # What happens

    @rule(subject=SUBJECTS, count=st.integers(1, 12))
    def publishes(self, subject: str, count: int) -> None:
        async def work() -> None:
            for _ in range(count):
                await self.publish(subject, b"%d" % len(self.stored))

        self.run(work())

    @rule(times=st.integers(1, 3))
    def reads(self, times: int) -> None:
        async def work() -> None:
            for _ in range(times):
                await self.poll()

        self.run(work())

    @precondition(lambda self: self.running is not None)
    @rule(orderly=st.booleans())
    def connector_ends(self, orderly: bool) -> None:
        self.run(self.end_connector(orderly=orderly))

    @precondition(lambda self: self.running is None)
    @rule()
    def connector_starts(self) -> None:
        async def work() -> None:
            self.start()

        self.run(work())

    @rule(subject=SUBJECTS)
    def subject_is_purged(self, subject: str) -> None:
        async def work() -> None:
            self.excused |= {sequence for sequence, (own, _) in self.stored.items() if own == subject}
            await self.server.js.purge_stream(self.stream, subject=f"{self.stream}.{subject}")

        self.run(work())

    @precondition(lambda self: bool(self.stored))
    @rule(data=st.data())
    def message_is_deleted(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.stored)))

        async def work() -> None:
            self.excused.add(sequence)
            with contextlib.suppress(APIError):
                await self.server.js.delete_msg(self.stream, sequence)

        self.run(work())


class SequencesMachine(NatsMachine):
    """The `nats` source: each message once, in order, or the position is lost."""

    @initialize(
        per_subject=st.sampled_from([-1, -1, 1, 3]),
        max_msgs=st.sampled_from([-1, -1, 20]),
        discard=st.sampled_from(["old", "new"]),
        prefetch=st.sampled_from([1, 3, 4000]),
    )
    def begins(self, per_subject: int, max_msgs: int, discard: str, prefetch: int) -> None:
        self.per_subject, self.prefetch, self.lost = per_subject, prefetch, False
        limits = {"max_msgs_per_subject": per_subject, "max_msgs": max_msgs, "discard": discard}
        self.may_lose = max_msgs > 0 and discard == "old"
        self.run(self.begin(allow_rollup_hdrs=True, **limits))

    def source(self) -> AsyncSource:
        more = {"prefetch_messages": self.prefetch}
        return NatsSource(NatsParameters(**{"source": "s", "stream": self.stream, **connection(self.nats), **more}))

    async def poll(self) -> None:
        try:
            await super().poll()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DATA_LOSS or not self.may_lose:
                raise
            self.lost = True
            # Another query continues from its checkpoint, and skips what is lost.
            await self.query.engine.detach()
            await self.query.close()
            committed, self.query = self.query.committed, Query(self.address, f"q{len(self.found)}", skip_lost=True)
            self.query.committed = committed
            await self.query.attach()

    @rule()
    def consumers_are_deleted(self) -> None:
        async def work() -> None:
            for consumer in await self.server.js.consumers_info(self.stream):
                with contextlib.suppress(NotFoundError):
                    await self.server.js.delete_consumer(self.stream, consumer.name)

        self.run(work())

    @rule()
    def stream_is_purged(self) -> None:
        async def work() -> None:
            self.may_lose = True
            await self.server.js.purge_stream(self.stream)

        self.run(work())

    @rule(subject=SUBJECTS, what=st.sampled_from(["sub", "all"]))
    def rollup(self, subject: str, what: str) -> None:
        async def work() -> None:
            before = {sequence for sequence, (own, _) in self.stored.items() if own == subject}
            if await self.publish(subject, b"rolled up", **{"Nats-Rollup": what}) is not None:
                self.excused |= before
                self.may_lose = True

        self.run(work())

    async def check(self) -> None:
        # There is always room for it: a stream that refuses new messages has none for others.
        while (last := await self.publish("c", LAST)) is None:
            self.may_lose = True
            await self.server.js.purge_stream(self.stream, keep=1)
        async with asyncio.timeout(DEADLINE):
            while last not in [message.sequence for message in self.found]:
                assert self.running is not None
                assert not self.running.task.done(), self.running.task
                await self.poll()
        sequences = [message.sequence for message in self.found]
        assert sequences == sorted(set(sequences)), "each message comes once, in order"
        for message in self.found:
            assert message.value == self.stored[message.sequence][1]
        # A query without a checkpoint begins with the first message that there is.
        missing = {sequence for sequence in self.stored if sequence > sequences[0]} - set(sequences) - self.excused
        assert not missing & await self.there(), "a message that the stream has was left out"
        if self.per_subject > 0:
            # Newer ones have replaced them; a purge of such a stream cannot be told from that.
            return
        assert self.lost or not missing, "messages are gone without a word"


class ConsumerMachine(NatsMachine):
    """The `nats-consumer` source: each message at least once, and acknowledged once it is committed."""

    @initialize(
        retention=st.sampled_from(["limits", "workqueue", "interest"]),
        limits=st.fixed_dictionaries(
            {},
            optional={
                "max_ack_pending": st.integers(1, 5),
                "max_batch": st.integers(1, 5),
                "max_expires": st.sampled_from([200_000_000, 10**9]),
                "max_bytes": st.integers(200, 2000),
                "ack_wait": st.sampled_from([10**9, 10 * 10**9]),
            },
        ),
    )
    def begins(self, retention: str, limits: dict[str, int]) -> None:
        async def work() -> None:
            self.stream = await self.server.raw_stream(unused("MACHINE"), retention=retention)
            await self.server.raw_consumer(self.stream, **limits)

        async def begin() -> None:
            self.server = await self._open.enter_async_context(connected(self.nats.url))
            _, self.address = await self._open.enter_async_context(serve())
            await work()
            self.query = Query(self.address)
            await self.query.attach()
            self.start()

        self.run(begin())

    def source(self) -> AsyncSource:
        return NatsConsumerSource(
            NatsConsumerParameters(**{"source": "s", "stream": self.stream, "consumer": "c", **connection(self.nats)})
        )

    @rule(paused=st.booleans())
    def consumer_is_paused(self, paused: bool) -> None:
        async def work() -> None:
            await self.server.ask(f"CONSUMER.PAUSE.{self.stream}.c", {"pause_until": "2099-01-01T00:00:00Z"} if paused else {})

        self.run(work())

    async def check(self) -> None:
        await self.server.ask(f"CONSUMER.PAUSE.{self.stream}.c", {})
        await self.publish("c", LAST)
        wanted = {value for sequence, (_, value) in self.stored.items() if sequence not in self.excused}
        async with asyncio.timeout(DEADLINE):
            while wanted - {message.value for message in self.found}:
                assert self.running is not None
                assert not self.running.task.done(), self.running.task
                await self.poll()
            await self.query.commit()
            while True:
                info = await self.server.js.consumer_info(self.stream, "c")
                if not info.num_ack_pending and not info.num_pending:
                    break
                await self.poll()
        stored = {value for _, value in self.stored.values()}
        assert {message.value for message in self.found} <= stored


def test_a_stream_gives_each_message_once_or_loses_the_position(nats: Nats, pytestconfig: pytest.Config) -> None:
    SequencesMachine.nats = nats
    run(SequencesMachine, pytestconfig, 3.0)


def test_a_durable_consumer_loses_nothing(nats: Nats, pytestconfig: pytest.Config) -> None:
    ConsumerMachine.nats = nats
    run(ConsumerMachine, pytestconfig, 4.0)


def test_a_message_that_the_connector_leaves_out_is_missed(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_second(messages: list[Msg], shape: Any, *, times: Any, sequences: Any, cursor: bytes | None) -> Batch:
        kept = [place for place in range(len(messages)) if place != 1 or len(messages) == 2]
        return batch_of(
            [messages[place] for place in kept],
            shape,
            times=array("q", [times[place] for place in kept]),
            sequences=[sequences[place] for place in kept],
            cursor=cursor,
        )

    monkeypatch.setattr(_source, "batch_of", without_second)
    SequencesMachine.nats = nats
    with pytest.raises(AssertionError, match="a message that the stream has was left out"):
        find_fault(SequencesMachine)
