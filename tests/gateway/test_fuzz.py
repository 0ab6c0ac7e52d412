"""The whole wire under fuzz: the gateway lives, well-behaved callers continue, memory stays, every refusal is a proper one."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio
import psutil
import pytest
from tests.gateway.fuzz import METHODS, Call, answers, calls
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.sink_wire import AT_LEAST_ONCE, SinkClient, Writer, part, transaction
from tests.gateway.wire import Connector, Engine, numbered, values_of

from headrace.protocol.v1 import engine_pb2, sink_pb2

WORKERS = 12
CALL_S = 1.0
GOOD_S = 120.0
"""How long one round of the well-behaved callers may take on a busy machine."""
MEMORY_BYTES = 400 * 2**20
LIMITS = """
[limits]
buffer_bytes = "16MiB"
max_frame_bytes = "256KiB"
hello_timeout_seconds = 0.5
write_timeout_seconds = 2
"""
FAILURES = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
LEFT = re.compile(r'Failed \\"execute_batch\\"')
"""What gRPC logs of a client that left while it was being told why."""
OF_THE_CLIENT = ("execute_batch", "Internal error from Core", "RST_STREAM", "Stream removed")
"""What gRPC's client makes of a call that ended while it was still sending."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    config = tmp_path / "gateway.toml"
    config.write_text(LIMITS)
    with gateway_process("--config", config) as process:
        yield process


class Fuzz:
    """Makes calls, and keeps what was wrong with their ends."""

    def __init__(self, address: str, seed: str) -> None:
        self.ends: Counter[grpc.StatusCode] = Counter()
        self.methods: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._address = address
        self._seed = seed

    async def run(self, worker: int, until: float) -> None:
        async with grpc.aio.insecure_channel(self._address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            for call in calls(f"{self._seed}/{worker}"):
                if time.monotonic() > until or self.wrong:
                    return
                code, details = await self._make(channel, call)
                self.ends[code] += 1
                self.methods[call.method] += 1
                if code in FAILURES and not any(text in details for text in OF_THE_CLIENT):
                    self.wrong.append(f"{code.name} {details}: {call}")

    async def _make(self, channel: grpc.aio.Channel, call: Call) -> tuple[grpc.StatusCode, str]:
        """Makes a call, reads a little of what comes, and leaves."""
        method = METHODS[call.method]
        if method.containing_service.name == "SinkService":
            return await self._serve_sink(channel, call)
        kinds = (channel.unary_unary, channel.unary_stream, channel.stream_unary, channel.stream_stream)
        make = kinds[2 * method.client_streaming + method.server_streaming](call.method)
        request = _each(call.requests) if method.client_streaming else call.requests[0]
        made = make(request, timeout=CALL_S)
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            if method.server_streaming:
                for _ in range(100):
                    if await made.read() is grpc.aio.EOF:
                        break
            else:
                await made
        made.cancel()
        return await made.code(), await made.details() or ""

    async def _serve_sink(self, channel: grpc.aio.Channel, call: Call) -> tuple[grpc.StatusCode, str]:
        """Makes a sink's call, which answers its requests."""
        rng = random.Random(f"{self._seed}/{call}")
        made = channel.stream_stream(call.method, response_deserializer=sink_pb2.SinkServiceAttachResponse.FromString)(
            timeout=3 * CALL_S
        )
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for request in call.requests:
                await made.write(request)
            while (told := await made.read()) is not grpc.aio.EOF:
                for answer in answers(rng, told):
                    await made.write(answer.SerializeToString())
        made.cancel()
        return await made.code(), await made.details() or ""


async def read_on(address: str) -> None:
    """A query that reads what the hostile sources send, so that their streams are open; it is disturbed like everybody."""
    query = Engine(address, "fuzz-reader", streams="fuzz/*", skip_lost=True)
    try:
        while True:
            with suppress(grpc.aio.AioRpcError):
                await query.attach()
                planned = await query.plan(wait_ms=50)
                while True:
                    planned = await query.plan({r.stream: r.end for r in planned.ranges}, wait_ms=50)
    finally:
        await query.close()


async def _each(requests: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for n, request in enumerate(requests):
        yield request
        if n < 3:
            # So that what comes next meets a session that stands, and streams that are open.
            await asyncio.sleep(CALL_S / 50)
    # The call stays open for a moment, for what the gateway says to it.
    await asyncio.sleep(CALL_S / 10)


class Behaving:
    """A source, a query, and a sink that continue as they should."""

    def __init__(self, address: str) -> None:
        self.rounds = 0
        self._source = Connector(address)
        self._query = Engine(address, "good-query", streams="good-stream.9/partition.7")
        self._sink = SinkClient(address)
        self._writer = Writer(address)

    async def begin(self) -> None:
        await self._query.attach()
        await self._source.hello("good")
        await self._source.open("good-stream.9/partition.7")
        await self._source.expect("stream_opened")
        await self._sink.hello("good", sink="good-sink", mode=AT_LEAST_ONCE)

    async def run(self) -> None:
        while True:
            async with asyncio.timeout(GOOD_S):
                await self._read(self.rounds * 10 + 1)
                await self._write(self.rounds)
            self.rounds += 1

    async def _read(self, first: int) -> None:
        """A batch is sent, planned, read and acknowledged."""
        name, last = "good-stream.9/partition.7", first + 9
        await self._source.send(frame=numbered(1, first, 10))
        planned = await self._query.plan_until(name, last)
        frames = await self._query.fetch(name, first - 1 if first > 1 else None, planned.end)
        assert values_of(frames) == [b"%d" % n for n in range(first, last + 1)]
        await self._query.plan({name: last}, wait_ms=0)
        ack = await self._source.expect("ack")
        assert [s.position.sequence for s in ack.streams] == [last]

    async def _write(self, batch: int) -> None:
        """A batch is delivered, staged and voted for."""
        mine = part(batch, pipeline="good-writer")
        log = engine_pb2.ReportCommitsRequest(pipeline="good-writer", run="r1", run_number=1, sinks=["good-sink"])
        await self._writer.stub.ReportCommits(log, timeout=GOOD_S)
        requests = [
            engine_pb2.DeliverRequest(start=engine_pb2.DeliveryStart(sink="good-sink", part=mine, run_number=1)),
            engine_pb2.DeliverRequest(frame=numbered(0, 0, 3)),
            engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=3)),
        ]
        delivery = asyncio.ensure_future(self._writer.stub.Deliver(iter(requests), timeout=GOOD_S))
        await self._sink.take_part()
        await delivery
        written = transaction(batch, "good-writer")
        vote = engine_pb2.VoteRequest(sink="good-sink", transaction=written, parts=[mine], run_number=1)
        voting = asyncio.ensure_future(self._writer.stub.Vote(vote, timeout=GOOD_S))
        await self._sink.vote()
        await voting

    async def close(self) -> None:
        for client in (self._source, self._query, self._sink, self._writer):
            await client.close()


async def watch_memory(gateway: GatewayProcess) -> None:
    """Fails where the gateway takes more than it may, or dies."""
    process = psutil.Process(gateway.process.pid)
    while True:
        used = sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])
        assert used < MEMORY_BYTES, f"{used / 2**20:.0f} MiB of memory"
        await asyncio.sleep(0.2)


@pytest.mark.timeout(1200)
async def test_no_sequence_of_messages_harms_the_gateway_or_those_who_behave(
    gateway: GatewayProcess, fuzz_seconds: float, fuzz_seed: str
) -> None:
    print(f"--fuzz-seed {fuzz_seed}")
    fuzz, behaving = Fuzz(gateway.address, fuzz_seed), Behaving(gateway.address)
    await behaving.begin()
    until = time.monotonic() + fuzz_seconds
    going_on = [asyncio.create_task(task) for task in (behaving.run(), watch_memory(gateway), read_on(gateway.address))]
    hostile = asyncio.gather(*(fuzz.run(worker, until) for worker in range(WORKERS)))
    try:
        await asyncio.wait({*going_on, asyncio.ensure_future(hostile)}, return_when=asyncio.FIRST_COMPLETED)
        for task in going_on:
            assert not task.done(), f"seed {fuzz_seed}: {task.exception()!r}\n{gateway.log[-5000:]}"
        await hostile
    finally:
        hostile.cancel()
        for task in going_on:
            task.cancel()
        await asyncio.gather(hostile, *going_on, return_exceptions=True)
        await behaving.close()
    print(f"{fuzz.ends.total()} calls: {dict(fuzz.ends)}; {behaving.rounds} rounds beside")
    assert fuzz.wrong == [], f"seed {fuzz_seed}"
    assert gateway.process.poll() is None
    failed = [line for line in gateway.log.splitlines() if "Traceback" in line and not LEFT.search(line)]
    assert failed == [], f"seed {fuzz_seed}"
    assert behaving.rounds > 0
    assert set(fuzz.methods) == set(METHODS), "every method of every service"
