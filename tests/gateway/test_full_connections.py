"""A gateway, nearly all of whose connections are in use: it names that everywhere until some of them end."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
from tests.gateway.http_server import get
from tests.gateway.processes import gateway_process
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered

from headrace.gateway_cli.message_lines import message_lines
from headrace.gateway_cli.problems import problem_lines
from headrace.gateway_status import message_document, status_document
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

PART, KIND = "gRPC connections", "descriptors-exhausted"
DESCRIPTORS = 300
"""Of which a gateway leaves a quarter to connections, 75: it is full with 67, of which it drops none, since all have calls."""
ENOUGH, FULL = 40, 68


class Supervisor:
    """A connection whose call does not end."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.admin = AdminServiceStub(self.channel)

    async def call(self, number: int) -> None:
        """Begins the call, again if the connection was dropped before: the gateway makes room by those without a call."""
        hello = pb.SuperviseRequest(hello=pb.SuperviseHello(deployment=f"d{number}", run="r1"))
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self._call = self.admin.Supervise(wait_for_ready=True)
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await self._call.write(hello)
                    if await self._call.read() is not grpc.aio.EOF:
                        return


@asynccontextmanager
async def supervisors(address: str) -> AsyncIterator[list[Supervisor]]:
    """Connections in use, one after the other."""
    made: list[Supervisor] = []
    try:
        for number in range(FULL):
            made.append(Supervisor(address))
            await made[-1].call(number)
        yield made
    finally:
        for one in made:
            await one.channel.close()


async def until(http: str, kind: str | None) -> dict[str, Any]:
    """What `/readyz` lists of the connections, once it has a kind; once it lists nothing, for None."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            code, document = await get(http, "/readyz")
            found: dict[str, Any] = next((one for one in document["problems"] if one["part"] == PART), {})
            if found.get("kind") == kind:
                assert code == 503 or kind is None
                return found
            await asyncio.sleep(0.05)


async def shown(http: str, admin: AdminServiceStub, address: str) -> tuple[bool, ...]:
    """Whether the API that the console reads, `headrace status` and the metrics show the fault."""
    _, document = await get(http, "/api/v1/status")
    status = status_document(address, await admin.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE_S))
    _, metrics = await get(http, "/metrics")
    return (
        any(one["part"] == PART and one["kind"] == KIND for one in document["problems"]),
        any(f"{PART} for " in line.plain for line in problem_lines(status)),
        f'headrace_problems{{kind="{KIND}"}} 1.0' in metrics,
    )


async def until_told(admin: AdminServiceStub, *kinds: str) -> None:
    """Waits until the events of the connections are these."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            events = (await admin.ListEvents(pb.ListEventsRequest(), timeout=DEADLINE_S)).events
            told = [event for event in events if event.part == PART]
            assert all(event.text.startswith(KIND) for event in told)
            if tuple(event.kind for event in told) == kinds:
                return
            await asyncio.sleep(0.05)


async def test_nearly_all_connections_in_use_are_named_until_some_end(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text("[http]\nlisten = '127.0.0.1:0'\n")
    with gateway_process("--config", config, descriptors=DESCRIPTORS) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        engine, source = Engine(gateway.address), Connector(gateway.address)
        await engine.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        await engine.plan_until("orders/0", 3)
        async with supervisors(gateway.address) as made:
            admin = made[0].admin
            found = await until(http, KIND)
            assert re.match(r"nearly all of 75 gRPC connections have calls in progress", found["cause"])
            assert "LimitNOFILE" in found["remedy"]
            assert await shown(http, admin, gateway.address) == (True, True, True)
            await until_told(admin, "fault-began")

            # A message is explained as ever.
            request = pb.LocateMessageRequest(stream="orders/0", sequence=3)
            located = message_document(await admin.LocateMessage(request, timeout=DEADLINE_S))
            assert "micro-batch" in next(message_lines(located)).plain

            for one in made[ENOUGH:]:
                await one.channel.close()
            await until(http, None)
            assert await shown(http, admin, gateway.address) == (False, False, False)
            await until_told(admin, "fault-began", "fault-ended")
        await source.close()
        await engine.close()
