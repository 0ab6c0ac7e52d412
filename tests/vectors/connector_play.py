"""Plays the gateway of a script against a connector that Python's SDK serves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from tests.fake_gateway.server import DEADLINE, FakeServer, ScriptedCall, until
from tests.vectors.connectors import SINKS, ScriptSource
from tests.vectors.messages import build, difference, kind_of
from tests.vectors.packing import pack, unpack
from tests.vectors.scripts import Script, step_of

from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, add_SourceServiceServicer_to_server
from headrace.sdk import GatewayRefused, Settings, serve

_UNASKED = ("backlog", "credit_request", "report", "busy")
"""What a connector may say at any time."""


class _Gateway(FakeServer, SourceServiceServicer, SinkServiceServicer):
    """Accepts calls, and does nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: asyncio.Queue[ScriptedCall[Any, Any]] = asyncio.Queue()

    @staticmethod
    def register(service: Any, server: grpc.aio.Server) -> None:
        add_SourceServiceServicer_to_server(service, server)
        add_SinkServiceServicer_to_server(service, server)

    async def call(self) -> ScriptedCall[Any, Any]:
        """The next call of the connector."""
        async with asyncio.timeout(DEADLINE):
            return await self._calls.get()

    async def Ingest(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # type: ignore[override]
        await self._serve(request_iterator, context)

    async def Attach(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # type: ignore[override]
        await self._serve(request_iterator, context)

    async def _serve(self, requests: AsyncIterator[Any], context: Any) -> None:
        call = ScriptedCall[Any, Any](metadata=dict(context.invocation_metadata()))
        self._calls.put_nowait(call)
        await call.serve(requests, context)


class ConnectorPlay:
    """One script, played against a connector of its own."""

    def __init__(self, script: Script, stack: AsyncExitStack) -> None:
        self._script = script
        self._stack = stack
        self._of_sink = "sink" in script
        self._request = sink_pb2.SinkServiceAttachRequest if self._of_sink else source_pb2.IngestRequest
        self._response = sink_pb2.SinkServiceAttachResponse if self._of_sink else source_pb2.IngestResponse
        self._connector: Any = SINKS[script["sink"]["mode"]](script["sink"]) if self._of_sink else ScriptSource(script["source"])
        self._gateway = _Gateway()
        self._call: ScriptedCall[Any, Any] | None = None
        self._stream_ids: dict[int, int] = {}
        self._stop = asyncio.Event()
        self._credit_bytes = self._credit_messages = self._overhead = 0

    async def run(self) -> None:
        await self._gateway.start()
        self._stack.push_async_callback(self._gateway.stop)
        settings = Settings(partition_poll_seconds=0.05, first_backoff_seconds=0.01, max_backoff_seconds=0.02)
        serving = asyncio.create_task(
            serve(
                self._connector,
                gateway=self._gateway.address,
                instance="instance-0",
                token=self._script.get("token"),
                settings=settings,
                stop=self._stop,
            )
        )
        self._stack.push_async_callback(_end, serving)
        for number, step in enumerate(self._script["steps"]):
            who, what = step_of(step)
            try:
                async with asyncio.timeout(DEADLINE):
                    await self._play(who, what, serving)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"step {number}, {step}: {error}") from error
        if self._stop.is_set():
            await asyncio.wait_for(serving, DEADLINE)

    async def _play(self, who: str, what: Any, serving: "asyncio.Task[None]") -> None:
        match who:
            case "connector":
                await self._hear(what)
            case "connector_in_any_order":
                await self._hear_all(what)
            case "gateway":
                self._say(what)
            case "gateway_bytes":
                assert self._call is not None
                # What this version does not know is kept as it is.
                self._call.outgoing.put_nowait(self._response.FromString(bytes.fromhex(what)))
            case "lost":
                self._close(grpc.StatusCode.UNAVAILABLE)
            case "end":
                if what["status"] != "OK":
                    self._close(grpc.StatusCode[what["status"]])
                self._call = None
            case "source" | "sink":
                await self._act(what)
            case "outcome":
                await self._await_outcome(what, serving)
            case "query" | "others" | "operator":
                pass  # What only a gateway notices.
            case _:
                raise AssertionError(f"nobody is called {who}")

    # The session

    async def _next(self, *wanted: str) -> Any:
        """The connector's next message, without unwanted ones that it may send at any time."""
        if self._call is None:
            self._call, self._stream_ids = await self._gateway.call(), {}
            assert self._call.metadata.get("authorization") == (f"Bearer {t}" if (t := self._script.get("token")) else None)
        while True:
            message = await self._call.inbox.get()
            assert message is not None, "the connector has ended the call"
            kind = message.WhichOneof("message")
            if kind == "frame":
                self._credit_bytes -= message.frame.ByteSize() + self._overhead
                self._credit_messages -= message.frame.count
                assert self._credit_bytes >= 0, f"{-self._credit_bytes} bytes more than there was credit for"
                assert self._credit_messages >= 0, f"{-self._credit_messages} messages more than there was credit for"
            if kind in wanted or kind not in _UNASKED:
                return message

    async def _hear(self, written: dict[str, Any]) -> None:
        """The connector's next message must be this. Of what it may send at any time, one must be."""
        kind = kind_of(written)
        if kind == "frame":
            await self._hear_frames(written["frame"])
            return
        while (where := self._difference(written, found := await self._next(kind))) is not None:
            assert kind in _UNASKED, f"{where}; got {found}"

    async def _hear_all(self, all_written: list[dict[str, Any]]) -> None:
        """The connector's next messages must be these, in any order."""
        missing = list(all_written)
        while missing:
            found = await self._next(*map(kind_of, missing))
            same = [written for written in missing if self._difference(written, found) is None]
            assert same, f"got {found}"
            missing.remove(same[0])

    async def _hear_frames(self, columns: dict[str, Any]) -> None:
        """The connector's next messages must be frames that together hold these columns."""
        expected = unpack(pack(columns))
        found: dict[str, list[Any]] = {name: [] for name in expected if isinstance(expected[name], list)}
        while len(found["values"]) < len(columns["values"]):
            message = await self._next("frame")
            assert message.WhichOneof("message") == "frame", f"got {message} instead of a frame"
            assert message.frame.stream_id == self._stream_ids[columns["stream_id"]], f"got {message}"
            frame = unpack(message.frame)
            for name, entries in found.items():
                entries += frame[name]
        for name, entries in found.items():
            assert entries == expected[name], f"{name}: {entries}"
        assert frame["cursor"] == columns.get("cursor", frame["cursor"])

    def _difference(self, written: dict[str, Any], found: Any) -> str | None:
        kind = kind_of(written)
        if found.WhichOneof("message") != kind:
            return f"is not {kind}"
        label = written[kind].get("stream_id")
        fresh = kind == "open_stream" and written[kind]["stream"] == found.open_stream.stream
        if fresh:
            assert found.open_stream.stream_id not in self._stream_ids.values(), f"an id that was used before: {found}"
            self._stream_ids[label] = found.open_stream.stream_id
        return difference(written, build(self._request, written, self._relabel), found)

    def _relabel(self, name: str, label: int) -> int:
        return self._stream_ids.get(label, -1 & 0xFFFFFFFF) if name == "stream_id" else label

    def _say(self, written: dict[str, Any]) -> None:
        assert self._call is not None
        message = build(self._response, written, self._relabel)
        if not self._of_sink:
            self._overhead = message.welcome.frame_overhead_bytes or self._overhead
            if message.HasField("welcome"):
                self._credit_bytes = self._credit_messages = 0
            for credit in (message.welcome.credit, message.ack.credit, message.credit):
                self._credit_bytes += credit.bytes
                self._credit_messages += credit.messages
        self._call.outgoing.put_nowait(message)

    def _close(self, status: grpc.StatusCode) -> None:
        assert self._call is not None
        self._call.close(status)
        self._call = None

    # What happens beside the session

    async def _act(self, what: dict[str, Any]) -> None:
        ((does, how),) = what.items()
        match does:
            case "stop":
                self._stop.set()
            case "append":
                self._connector.append(how)
            case "settled":
                await until(lambda: self._connector.settled == how)
            case "visible":
                assert self._connector.visible == how, self._connector.visible
            case _:
                raise AssertionError(f"no connector does {does}")

    async def _await_outcome(self, outcome: str, serving: "asyncio.Task[None]") -> None:
        match outcome:
            case "ended":
                await serving
            case "failed":
                with pytest.raises(GatewayRefused):
                    await serving
            case "reconnects":
                again = asyncio.create_task(self._next("hello"))
                await asyncio.wait({again, serving}, return_when=asyncio.FIRST_COMPLETED)
                assert again.done(), "the connector has ended"
                assert (await again).HasField("hello")


async def _end(serving: "asyncio.Task[None]") -> None:
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
