"""The Go source keeps the rules of a session, through any trouble a gateway gives it."""

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from tests.fake_gateway.committing import CommittingGateway, Session
from tests.gateway.certificates import Authority
from tests.gateway.wire import Engine, serve
from tests.go_source.conftest import SOURCES
from tests.go_source.expected import message
from tests.go_source.processes import Program
from tests.sdk.go.toolchain import Toolchain

from headrace.gateway.config import Limits
from headrace.protocol.v1 import source_pb2 as pb

pytestmark = pytest.mark.timeout(600)  # The first build compiles gRPC.


def assert_complete(gateway: CommittingGateway, count: int, partitions: int = 1, source: str = "numbers") -> None:
    """Everything has come exactly once, in order, and was committed."""
    names = [f"{source}/{index}" for index in range(partitions)]
    assert sorted(gateway.streams) == sorted(names)
    for index, name in enumerate(names):
        assert gateway.streams[name].messages == [message(number) for number in range(index + 1, count + 1, partitions)]
        assert gateway.streams[name].committed == len(gateway.streams[name].messages)
        assert gateway.streams[name].ended
    assert gateway.sessions[-1].goodbye == "everything is acknowledged"


@pytest.mark.parametrize(("count", "partitions"), [(20_000, 1), (20_000, 3), (2, 4), (0, 1)])
async def test_everything_arrives_once_and_in_order(
    gateway: CommittingGateway, go_source: Program, count: int, partitions: int
) -> None:
    async with go_source.run(gateway.address, source="counted", count=count, partitions=partitions) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, count, partitions, "counted")


async def test_a_window_of_one_message(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.window_messages = 1
    async with go_source.run(gateway.address, count=50, partitions=2) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 50, 2)
    assert gateway.sessions[0].frames == 50


async def test_a_window_of_a_few_messages_and_small_frames(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.window_bytes = 1000
    gateway.max_frame_messages = 3
    async with go_source.run(gateway.address, count=300) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 300)


async def test_frames_do_not_become_small_when_credit_is_short(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.window_messages = 1000
    async with go_source.run(gateway.address, count=20_000) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 20_000)
    assert gateway.sessions[0].frames == 80


async def test_a_window_smaller_than_a_message_is_asked_to_grow(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.window_bytes = 60
    async with go_source.run(gateway.address, count=50) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 50)
    requests = gateway.sessions[0].credit_requests
    assert any(request.bytes > gateway.window_bytes and request.messages == 1 for request in requests)
    assert all(request.stream_id == 1 for request in requests)


async def test_a_batch_gets_one_partition_though_the_other_has_used_up_the_credit(go_source: Program) -> None:
    async with serve(Limits(session_messages=1000)) as (_, address):
        engine = Engine(address, streams="numbers/*")
        batch = {"numbers/0": 11, "numbers/1": 10_000}
        await engine.attach(planned=batch)
        async with go_source.run(address, count=20_000, partitions=2) as source:
            frames = await asyncio.wait_for(engine.fetch("numbers/1", None, 10_000), 120)
            assert sum(frame.count for frame in frames) >= 5000
            committed = dict(batch)
            while source.running:
                committed |= {r.stream: r.end.sequence for r in (await engine.plan(committed, wait_ms=100)).ranges}
            assert await source.wait() == 0, source.log
        await engine.close()


async def test_exit_waits_for_the_last_acknowledgement(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.commits.clear()
    async with go_source.run(gateway.address, count=100) as source:
        await gateway.until(lambda: "numbers/0" in gateway.streams and gateway.streams["numbers/0"].ended)
        assert source.running
        assert gateway.sessions[0].goodbye is None
        gateway.commits.set()
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 100)


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
async def test_a_lost_session_goes_on_from_the_checkpoint(
    gateway: CommittingGateway, go_source: Program, status: grpc.StatusCode
) -> None:
    gateway.after = [(count, lambda session: session.end(status)) for count in (1000, 1500, 9000)]
    gateway.max_frame_messages = 500
    async with go_source.run(gateway.address, count=20_000, partitions=2) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 20_000, 2)
    assert len(gateway.sessions) == 4


async def test_a_broken_connection_and_a_gateway_that_is_away(gateway: CommittingGateway, go_source: Program) -> None:
    stuck = asyncio.Event()

    async def stick(session: Session) -> None:
        stuck.set()
        await asyncio.Event().wait()

    gateway.after = [(1000, stick)]
    gateway.max_frame_messages = 300
    async with go_source.run(gateway.address, count=5000) as source:
        await asyncio.wait_for(stuck.wait(), 120)
        await gateway.stop()
        await source.wait_for_log("connection refused")
        await gateway.start()
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 5000)
    assert len(gateway.sessions) == 2


async def test_a_rejected_stream_is_opened_again_where_the_gateway_says(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.after = [(2000, lambda session: session.reject("numbers/1", pb.REJECT_REASON_REOPEN))]
    gateway.max_frame_messages = 100
    async with go_source.run(gateway.address, count=10_000, partitions=2) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 10_000, 2)
    assert sorted(gateway.sessions[0].names.values()) == ["numbers/0", "numbers/1", "numbers/1"]


async def test_a_stream_that_another_owns_is_asked_for_later(gateway: CommittingGateway, go_source: Program) -> None:
    async def owned(session: Session) -> None:
        await session.reject("numbers/0", pb.REJECT_REASON_OWNED, retry_after_ms=100)

    gateway.on_open = [owned, owned]
    async with go_source.run(gateway.address, count=100) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 100)
    assert len(gateway.sessions[0].names) == 3


async def test_a_draining_gateway_is_left_when_its_deadline_passes(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.after = [(50, lambda session: session.drain(200))]
    async with go_source.run(gateway.address, count=300, rate=500) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 300)
    assert gateway.sessions[0].goodbye == "drained"


async def test_a_draining_gateway_is_left_once_everything_is_acknowledged(gateway: CommittingGateway, go_source: Program) -> None:
    async def drain(session: Session) -> None:
        await session.drain(60_000)
        await gateway.commit_all(session)

    gateway.after = [(50, drain)]
    async with go_source.run(gateway.address, count=2000, rate=1000) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 2000)
    assert [session.goodbye for session in gateway.sessions] == ["drained", "everything is acknowledged"]
    assert gateway.sessions[0].messages < 2000


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (lambda session: session.end(grpc.StatusCode.UNAUTHENTICATED), "as the test says"),
        (lambda session: session.end(grpc.StatusCode.ABORTED), "as the test says"),
        (lambda session: session.end(grpc.StatusCode.FAILED_PRECONDITION), "as the test says"),
        (lambda session: session.reject("numbers/0", pb.REJECT_REASON_NOT_PERMITTED), "numbers/0"),
    ],
)
async def test_what_cannot_get_better_ends_the_program(
    gateway: CommittingGateway, go_source: Program, action: Callable[[Session], Awaitable[None]], reason: str
) -> None:
    gateway.on_open = [action]
    async with go_source.run(gateway.address) as source:
        assert await source.wait() == 1
        assert reason in source.log.splitlines()[-1]
    assert len(gateway.sessions) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_says_goodbye(gateway: CommittingGateway, go_source: Program, number: signal.Signals, code: int) -> None:
    gateway.linger_ms = 50
    async with go_source.run(gateway.address, count=1_000_000, rate=1000) as source:
        await gateway.until(lambda: gateway.received > 0)
        source.process.send_signal(number)
        assert await source.wait() == code
        assert "before everything was acknowledged" in source.log.splitlines()[-1]
    await gateway.until(lambda: gateway.sessions[0].goodbye == "stopped")


async def test_a_signal_ends_the_wait_for_a_gateway_that_does_not_answer(go_source: Program) -> None:
    connected = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server, go_source.run(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as source:
        async with asyncio.timeout(120):
            await connected.wait()
        source.process.terminate()
        assert await source.wait() == 143


async def test_pace_gathers_messages(gateway: CommittingGateway, go_source: Program) -> None:
    gateway.linger_ms = 100
    async with go_source.run(gateway.address, count=500, rate=1000) as source:
        assert await source.wait() == 0, source.log
    assert_complete(gateway, 500)
    assert gateway.sessions[0].frames <= 10


async def test_tls_and_token(go_source: Program, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("gateway")
    gateway = CommittingGateway()
    await gateway.start(grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())]))
    try:
        async with go_source.run(gateway.address, tls_ca=authority.cert, token="secret", instance="mine", count=10) as source:
            assert await source.wait() == 0, source.log
    finally:
        await gateway.stop()
    assert_complete(gateway, 10)
    assert gateway.sessions[0].metadata["authorization"] == "Bearer secret"
    assert gateway.sessions[0].hello.instance == "mine"


def test_a_wrong_command_line_ends_with_2(go_source: Program) -> None:
    for arguments in (["--partitions=0"], ["--nonsense"], ["surplus"]):
        assert subprocess.run([go_source.binary, *arguments], capture_output=True, check=False).returncode == 2


def test_the_go_code_is_formatted_vetted_and_tested(go: Toolchain) -> None:
    assert go.unformatted(SOURCES) == ""
    for done in (go.run("vet", "./...", folder=SOURCES), go.test(SOURCES)):
        assert done.returncode == 0, done.stdout + done.stderr
