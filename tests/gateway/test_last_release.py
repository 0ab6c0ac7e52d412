"""Programs of the last release, which had no sinks: their messages have only the fields of proto/baseline.json."""

from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tests.gateway.wire import DEADLINE_S, Engine, numbered, serve, values_of

BASELINE = Path(__file__).parents[2] / "proto" / "baseline.json"
PACKAGE = "headrace.protocol.v1"


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
        assert "report" not in old.request.DESCRIPTOR.fields_by_name

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
