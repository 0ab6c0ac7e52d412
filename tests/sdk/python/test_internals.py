"""The private parts of grpcio that the SDK uses are as it expects, and it needs them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc.aio
import pytest
from tests.fake_gateway.server import DEADLINE, FakeServer

from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, SourceServiceStub, add_SourceServiceServicer_to_server
from headrace.sdk.wire import keep_status

CALLS = 40


@pytest.fixture
def calls_keep_their_status() -> None:
    """Here, calls are grpcio's own."""


class Refusing(FakeServer, SourceServiceServicer):
    """Ends every call at its first message, with ABORTED."""

    register = add_SourceServiceServicer_to_server

    async def Ingest(self, request_iterator: AsyncIterator[pb.IngestRequest], context: Any) -> None:  # type: ignore[override]
        await anext(request_iterator)
        await context.abort(grpc.StatusCode.ABORTED, "as the test says")


async def statuses(prepare: Callable[[Any], None]) -> set[grpc.StatusCode]:
    """How calls end that write for as long as they can."""
    gateway = Refusing()
    await gateway.start()
    try:
        async with asyncio.timeout(DEADLINE), grpc.aio.insecure_channel(gateway.address) as channel:
            return {await written_out(SourceServiceStub(channel).Ingest(), prepare) for _ in range(CALLS)}
    finally:
        await gateway.stop()


async def written_out(call: Any, prepare: Callable[[Any], None]) -> grpc.StatusCode:
    prepare(call)
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await call.write(pb.IngestRequest(backlog=pb.Backlog(stream_id=1)))
    code = await call.code()
    assert isinstance(code, grpc.StatusCode)
    return code


async def test_the_status_of_a_call_that_ends_while_it_writes_is_the_gateways() -> None:
    assert await statuses(keep_status) == {grpc.StatusCode.ABORTED}


async def test_grpcio_alone_hides_the_status() -> None:
    # Once this fails, a release of grpcio has mended it, and `keep_status` can go.
    assert grpc.StatusCode.INTERNAL in await statuses(lambda call: None)


async def test_a_call_has_a_core_that_can_be_wrapped() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        call = SourceServiceStub(channel).Ingest()
        assert callable(call._cython_call.set_internal_error)
        keep_status(call)
        call._cython_call.set_internal_error("no effect")
        assert not call.done()
        call.cancel()
