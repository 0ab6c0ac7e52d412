"""Plays the connector of a script against a gateway, with queries that read and write as the script says."""

import asyncio
import hashlib
from contextlib import AsyncExitStack, suppress
from typing import Any

import grpc.aio
from tests.gateway.sink_wire import SinkClient, serving_instances
from tests.gateway.wire import DEADLINE_S, Connector, serve, until_gone
from tests.vectors.ends import end_of
from tests.vectors.messages import build, difference, kind_of
from tests.vectors.queries import Queries
from tests.vectors.scripts import Script, is_of_sink, step_of

from headrace.gateway.config import Limits, Token
from headrace.gateway.core import Gateway
from headrace.protocol.v1 import sink_pb2, source_pb2

_SERVICES = {
    False: ("SourceService/Ingest", source_pb2.IngestRequest, source_pb2.IngestResponse),
    True: ("SinkService/Attach", sink_pb2.SinkServiceAttachRequest, sink_pb2.SinkServiceAttachResponse),
}
_UNASKED = ("pace", "credit")
"""What a gateway may say at any time."""
_NOT_COMPARED = {"welcome": frozenset({"protocol_version"}), "ack": frozenset({"streams"})}
"""The fields of messages that are the same for every gateway; of other messages, all are."""


def _comparable(written: dict[str, Any]) -> dict[str, Any]:
    """A message of the gateway without what depends on its limits, and without texts and times."""
    kind, content = kind_of(written), dict(written[kind_of(written)])
    for name in ("retry_after_ms", "deadline_ms"):
        content.pop(name, None)
    if kind in _NOT_COMPARED:
        content = {name: value for name, value in content.items() if name in _NOT_COMPARED[kind]}
    return {kind: content}


class GatewayPlay:
    """One script, played against a gateway of its own."""

    def __init__(self, script: Script, stack: AsyncExitStack) -> None:
        self._script = script
        self._stack = stack
        self._sink = is_of_sink(script)
        self._method, self._request, self._response = _SERVICES[self._sink]
        self._call: Any = None
        self._credit_bytes = self._credit_messages = self._overhead = 0
        self._epochs: dict[int, int] = {}
        self._queries: Queries
        self._others: list[Connector | SinkClient] = []
        self._instance = ""
        self._gateway: Gateway
        self._address = ""

    async def run(self) -> None:
        limits = Limits(**self._script.get("limits", {}))
        tokens = [_token(number, token) for number, token in enumerate(self._script.get("tokens", ()))]
        self._gateway, self._address = await self._stack.enter_async_context(serve(limits, tokens=tokens))
        self._channel = grpc.aio.insecure_channel(self._address)
        self._stack.push_async_callback(self._channel.close)
        self._queries = Queries(self._address, self._stack, self._epochs)
        for number, step in enumerate(self._script["steps"]):
            who, what = step_of(step)
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await self._play(who, what)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"step {number}, {step}: {error}") from error
        await self._queries.finish()

    async def _play(self, who: str, what: Any) -> None:
        match who:
            case "connector":
                await self._say(what)
            case "connector_in_any_order":
                for written in what:
                    await self._say(written)
            case "connector_calls":
                self._begin()
            case "connector_bytes":
                await self._call.write(bytes.fromhex(what))
            case "gateway":
                await self._hear(what)
            case "end":
                end = await end_of(self._call)
                assert (end.status, end.reason) == (what["status"], what.get("reason")), end
            case "lost":
                await self._lose()
            case "query":
                await self._queries.do(what)
            case "others":
                await self._let_others(what)
            case "operator":
                draining = asyncio.create_task(self._gateway.drain())
                self._stack.push_async_callback(asyncio.wait, {draining})
            case "source" | "sink" | "outcome":
                pass  # The actions of a connector's own side.
            case _:
                raise AssertionError(f"nobody is called {who}")

    # The session

    async def _say(self, written: dict[str, Any]) -> None:
        kind = kind_of(written)
        if kind == "hello":
            written = {"hello": {"connector": "test", **written["hello"]}}
            self._instance = written["hello"].get("instance", "")
        if kind == "hello" or self._call is None:
            self._begin()
        message = build(self._request, written)
        if kind == "frame":
            await self._await_credit(message.frame)
        # Where the gateway has ended the call already, the next step finds out.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(message.SerializeToString())

    def _begin(self) -> None:
        """Makes the call, or for a second Hello of a session keeps to it."""
        if self._call is None:
            token = self._script.get("token")
            self._call = self._channel.stream_stream(
                f"/headrace.protocol.v1.{self._method}",
                request_serializer=lambda data: data,
                response_deserializer=self._response.FromString,
            )(metadata=(("authorization", f"Bearer {token}"),) if token else ())

    async def _hear(self, written: dict[str, Any]) -> None:
        """The gateway's next message must be this."""
        written = _comparable(written)
        kind = kind_of(written)
        while (found := await self._next()).WhichOneof("message") != kind:
            assert found.WhichOneof("message") in _UNASKED, f"got {found}"
        wanted = build(self._response, written, lambda name, label: self._epoch(name, label, found))
        assert (where := difference(written, wanted, found)) is None, f"{where}; got {found}"

    def _epoch(self, name: str, label: int, found: Any) -> int:
        """The epoch that the gateway has chosen where the script has a label."""
        if name != "epoch" or label == 0:
            return label
        if label not in self._epochs:
            self._epochs[label] = found.stream_opened.epoch
            assert list(self._epochs.values()) == sorted(set(self._epochs.values()))
            assert self._epochs[label] > 0
        return self._epochs[label]

    async def _next(self) -> Any:
        message = await self._call.read()
        assert message is not grpc.aio.EOF, f"the session ended: {await end_of(self._call)}"
        if not self._sink:
            for credit in (message.welcome.credit, message.ack.credit, message.credit):
                self._credit_bytes += credit.bytes
                self._credit_messages += credit.messages
            self._overhead = self._overhead or message.welcome.frame_overhead_bytes
        return message

    async def _await_credit(self, frame: Any) -> None:
        """Reads until there is credit for a frame, and uses it."""
        size = frame.ByteSize() + self._overhead
        while self._credit_bytes < size or self._credit_messages < frame.count:
            found = await self._next()
            assert found.WhichOneof("message") in _UNASKED, f"got {found} while credit is awaited"
        self._credit_bytes -= size
        self._credit_messages -= frame.count

    async def _lose(self) -> None:
        """Breaks the connection, and waits until the gateway has noticed."""
        self._call.cancel()
        self._call = None
        self._credit_bytes = self._credit_messages = 0
        await (serving_instances(self._address, []) if self._sink else until_gone(self._address, self._instance))

    # Others

    async def _let_others(self, what: dict[str, Any]) -> None:
        if "leave" in what:
            other = self._others.pop()
            await other.close()
            await until_gone(self._address, "instance-1")
        elif "sink" in what:
            sink = SinkClient(self._address)
            self._others.append(sink)
            self._stack.push_async_callback(sink.close)
            await sink.hello(instance=what["sink"])
        else:
            source = Connector(self._address)
            self._others.append(source)
            self._stack.push_async_callback(source.close)
            await source.hello(instance=what["hello"])
            if "open" in what:
                await source.open(what["open"])
                await source.expect("stream_opened")


def _token(number: int, written: dict[str, Any]) -> Token:
    rights = {name: tuple(value) for name, value in written.items() if name != "token"}
    return Token(name=f"token-{number}", sha256=(hashlib.sha256(written["token"].encode()).hexdigest(),), **rights)
