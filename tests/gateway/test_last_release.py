"""Gateways and programs of other releases.

Messages of the last release have the fields of proto/baseline.json, and no others. A later release has more than this one.
"""

from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tests.gateway.sink_wire import TWO_PHASE, SinkClient, Writer, transaction
from tests.gateway.wire import DEADLINE_S, Engine, numbered, serve, values_of
from tests.sdk.python.sinks import Plain

from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.sdk import GatewayRefused
from headrace.sdk import serve as serve_connector

BASELINE = Path(__file__).parents[2] / "proto" / "baseline.json"
PACKAGE = "headrace.protocol.v1"
LATER_CAPABILITY = 2000
LATER_FIELD = b"\x82\x7d\x01x"
"""The field 2000, with one byte."""


@pytest.fixture(scope="module")
def last() -> DescriptorPool:
    """The protocol of the last release."""
    files = json_format.Parse(BASELINE.read_text(), descriptor_pb2.FileDescriptorSet(), ignore_unknown_fields=True)
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


class OldSession:
    """One session of a connector of the last release."""

    def __init__(self, channel: grpc.aio.Channel, pool: DescriptorPool, service: str) -> None:
        [method] = pool.FindServiceByName(f"{PACKAGE}.{service}").methods
        self.request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        self._call = channel.stream_stream(
            f"/{PACKAGE}.{service}/{method.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=response.FromString,
        )(timeout=DEADLINE_S)

    async def send(self, **message: Any) -> None:
        await self._call.write(self.request(**message))

    async def expect(self, kind: str) -> Any:
        while (response := await self._call.read()).WhichOneof("message") != kind:
            assert response.WhichOneof("message") in ("pace", "credit"), response
        return getattr(response, kind)

    async def code(self) -> grpc.StatusCode:
        while await self._call.read() is not grpc.aio.EOF:
            pass
        return await self._call.code()


async def test_a_source_of_the_last_release_is_served(last: DescriptorPool) -> None:
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        old, engine = OldSession(channel, last, "SourceService"), Engine(address)
        await old.send(hello={"protocol_version": 1, "connector": "c", "instance": "i", "capabilities": [1]})
        assert (await old.expect("welcome")).protocol_version == 1
        await old.send(open_stream={"stream_id": 1, "stream": "orders/0", "kind": 1})
        await engine.attach()
        await old.expect("stream_opened")
        frame = numbered(1, 1, 3).SerializeToString()
        await old.send(frame=GetMessageClass(last.FindMessageTypeByName(f"{PACKAGE}.Frame")).FromString(frame))
        await engine.plan_until("orders/0", 3)
        assert values_of(await engine.fetch("orders/0", None, 3)) == [b"1", b"2", b"3"]
        await engine.plan({"orders/0": 3}, wait_ms=0)
        assert (await old.expect("ack")).streams[0].position.sequence == 3
        [session] = (await engine.status()).sessions
        assert (session.reported.HasField("sdk"), session.reported.state) == (False, 0)
        await old.send(goodbye={})
        assert await old.code() is grpc.StatusCode.OK
        await engine.close()


async def test_an_operator_of_the_last_release_reads_the_status(last: DescriptorPool) -> None:
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        method = last.FindServiceByName(f"{PACKAGE}.AdminService").methods_by_name["GetStatus"]
        ask = channel.unary_unary(
            f"/{PACKAGE}.AdminService/GetStatus",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

        status = await ask(GetMessageClass(method.input_type)(), timeout=DEADLINE_S)

        assert status.gateway.version


async def test_a_sink_of_the_last_release_is_served(last: DescriptorPool) -> None:
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        old, writer = OldSession(channel, last, "SinkService"), Writer(address)
        hello = {"protocol_version": 1, "connector": "c", "instance": "i", "sink": "out", "mode": int(TWO_PHASE)}
        await old.send(hello=hello)
        assert (await old.expect("welcome")).protocol_version == 1
        delivered = writer.deliver(0, [b"a", b"b"])
        started = await old.expect("start_part")
        assert started.part.transaction.batch == 0
        assert (await old.expect("frame")).frame.values == b"ab"
        await old.send(staged={"id": (await old.expect("end_part")).id})
        await delivered
        voted = writer.vote(0)
        prepared = {"pipeline": "query", "batch": (await old.expect("prepare")).transaction.batch}
        await old.send(prepared={"transaction": prepared})
        await voted
        await writer.report_commits(0)
        assert (await old.expect("commit")).transaction.batch == 0
        await old.send(committed={"transaction": prepared})
        await writer.close()


async def test_a_sink_at_a_gateway_without_its_service_is_told_what_to_do() -> None:
    server = grpc.aio.server()
    handlers = {"Ingest": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(f"{PACKAGE}.SourceService", handlers)])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        with pytest.raises(GatewayRefused, match=r"UNIMPLEMENTED.*upgrade it"):
            await serve_connector(Plain(), gateway=address)
    finally:
        await server.stop(None)


async def test_a_sink_of_a_later_release_is_served_without_what_is_new() -> None:
    async with serve() as (_, address):
        sink, writer = SinkClient(address), Writer(address)
        hello = sink_pb2.SinkHello(
            protocol_version=1,
            connector="c",
            instance="i",
            sink="out",
            mode=TWO_PHASE,
            capabilities=[source_pb2.CAPABILITY_HEARTBEAT, LATER_CAPABILITY],  # type: ignore[list-item]
        )
        await sink.send(hello=sink_pb2.SinkHello.FromString(hello.SerializeToString() + LATER_FIELD))
        assert source_pb2.CAPABILITY_HEARTBEAT in (await sink.expect("welcome")).capabilities

        delivered = writer.deliver(0, [b"a", b"b"])
        await sink.take_part()
        await delivered
        voted = writer.vote(0)
        await sink.vote()
        await voted
        await writer.report_commits(0)
        assert await sink.commit() == transaction(0)

        # A feature of a later release needs a capability that Welcome has not listed.
        await sink.call.write(sink_pb2.SinkServiceAttachRequest.FromString(LATER_FIELD))
        code, details = await sink.ended()
        assert (code, "send only what its Welcome lists" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        await sink.close()
        await writer.close()
