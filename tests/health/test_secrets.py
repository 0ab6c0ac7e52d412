"""Secrets and messages are planted, errors are provoked, and nothing that anybody can read contains them."""

import asyncio
import hashlib
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
from scripts.brokers import Nats
from tests.absent import absent
from tests.connectors.nats.rig import server
from tests.gateway.certificates import Authority
from tests.gateway.http_server import get
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.wire import REPLAYABLE, frame

from headrace.logs.output import HEAD
from headrace.processes import OwnedProcess, headrace
from headrace.protocol.v1 import source_pb2, source_pb2_grpc

DEADLINE_S = 120.0
TOKENS = {name: f"planted-token-of-{name}" for name in ("connectors", "query", "operator")}
WRONG_TOKEN, RIGHT_PASSWORD, WRONG_PASSWORD = "planted-token-of-nobody", "planted-right-password", "planted-wrong-password"
VALUE, KEY = "planted-value", "planted-key"

GATEWAY = """
[http]
listen = "127.0.0.1:0"
[tls]
cert = "{cert}"
key = "{key}"
[[tokens]]
name = "connectors"
token = "${{CONNECTORS_TOKEN}}"
sources = ["*/*"]
sinks = ["*"]
[[tokens]]
name = "query"
token = "${{QUERY_TOKEN}}"
pipelines = ["*"]
reads = ["*/*"]
writes = ["*"]
[[tokens]]
name = "operator"
token = "${{OPERATOR_TOKEN}}"
admin = true
control = true
"""
CONNECTOR = """
connector = "nats"
source = "{name}"
stream = "{stream}"
servers = ["nats://127.0.0.1:{port}"]
user = "headrace"
password = "{password}"
"""
# What they raise and refuse says nothing about a message: what a program itself says is its own affair.
APPLICATION = """
from headrace.pipelines import Pipeline


def count(value, state):
    if "bad" in value:
        raise ValueError("there is no price")
    return value


app = Pipeline("priced")
app.source("right/*", decode=bytes.decode).key_by(len).stateful(count, dict, name="counts").sink("out")
"""
SINK = """
import sys
from headrace.sdk import WRITTEN, Refused, Sink, run


class Out(Sink):
    name = "out"

    def write(self, rows):
        return [Refused("too long") if b"refuse" in message.value else WRITTEN for message in rows.messages()]


sys.exit(run(Out()))
"""


LOGS = ("gateway", "wrong-token", "right-password", "sink", "query")
PROVOKED = {
    "gateway": ["session opened", "session ended"],
    "wrong-token": ["connector stopped"],
    "wrong-password": ["rejects this client"],
    "postgresql": ["Connection refused"],
    "query": ["too long", "there is no price"],
    "/readyz": ["there is no price"],
    "status": ["there is no price"],
    "/metrics": ["headrace_received_messages_total"],
    "broken": ["frame"],
    "refused by HTTP": ["401"],
    "refused status": ["token"],
}
"""What must be there, so that there is something to search."""


class PlantedNats(Nats):
    """A server with a password that stands nowhere else."""

    password = RIGHT_PASSWORD


def environ(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}, **more}


async def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


async def send_a_broken_frame(address: str, ca: bytes) -> str:
    """Sends a frame whose columns do not fit; returns why the gateway ends the session."""
    credentials = grpc.ssl_channel_credentials(ca)
    async with grpc.aio.secure_channel(address, credentials) as channel:
        call = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=[("authorization", f"Bearer {TOKENS['connectors']}")])
        hello = source_pb2.Hello(protocol_version=1, connector="test", instance="broken")
        opened = source_pb2.OpenStream(stream_id=1, stream="right/broken", kind=REPLAYABLE)
        broken = frame(1, 1, [f"{VALUE} broken".encode()])
        broken.value_lengths = struct.pack("<I", 3)
        async with asyncio.timeout(DEADLINE_S):
            await call.write(source_pb2.IngestRequest(hello=hello))
            await call.write(source_pb2.IngestRequest(open_stream=opened))
            while True:
                try:
                    answer = await call.read()
                except grpc.aio.AioRpcError as error:
                    return error.details() or ""
                assert isinstance(answer, source_pb2.IngestResponse)
                if answer.HasField("stream_opened"):
                    await call.write(source_pb2.IngestRequest(frame=broken))


async def test_no_secret_and_no_message_is_in_anything_that_is_shown(tmp_path: Path) -> None:
    if not PlantedNats.is_installed():
        absent("nats-server is not installed")
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("gateway")
    (tmp_path / "gateway.toml").write_text(GATEWAY.format(cert=pair.cert, key=pair.key))
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "sink.py").write_text(SINK)
    tokens = environ(**{f"{name.upper()}_TOKEN": token for name, token in TOKENS.items()})
    broker = PlantedNats(tmp_path / "nats")
    await asyncio.to_thread(broker.start)
    try:
        options = ("--config", tmp_path / "gateway.toml", "--log-format", "json", "--log-level", "debug")
        with gateway_process(*options, environ=tokens) as gateway:
            gateway.wait_for_log("gateway serves HTTP")
            shown = await provoked(tmp_path, broker, gateway, authority.cert)
    finally:
        await asyncio.to_thread(broker.stop)

    missing = [(where, text, shown[where]) for where, texts in PROVOKED.items() for text in texts if text not in shown[where]]
    assert missing == []
    secrets = {*TOKENS.values(), WRONG_TOKEN, RIGHT_PASSWORD, WRONG_PASSWORD, VALUE, KEY}
    secrets |= {hashlib.sha256(token.encode()).hexdigest() for token in TOKENS.values()}
    secrets |= set(pair.key.read_text().splitlines()[1:-1])
    assert [(secret, where) for where, text in shown.items() for secret in secrets if secret in text] == []
    for name in LOGS:
        for line in shown[name].splitlines():
            assert set(HEAD) <= json.loads(line).keys(), (name, line)


async def provoked(folder: Path, broker: Nats, gateway: GatewayProcess, ca: Path) -> dict[str, str]:
    """Runs connectors, a sink and a query, provokes errors, and returns everything that is shown, by where it is."""
    reached = ["--gateway", gateway.address, "--tls-ca", str(ca)]
    connect = (*headrace("connector", "run"),)
    (http,) = (json.loads(line)["address"] for line in gateway.log.splitlines() if "gateway serves HTTP" in line)
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(server(broker.url))
        stream = await others.stream()
        for name, password in (("right", RIGHT_PASSWORD), ("wrong", WRONG_PASSWORD)):
            (folder / f"{name}.toml").write_text(CONNECTOR.format(name=name, stream=stream, port=broker.port, password=password))
        checkpoint = ["--checkpoint", str(folder / "checkpoint"), "--option", "onRefused=skip"]
        commands = {
            "wrong-token": ([*connect, "-c", str(folder / "right.toml"), *reached], WRONG_TOKEN),
            "right-password": ([*connect, "-c", str(folder / "right.toml"), *reached], TOKENS["connectors"]),
            "sink": ([sys.executable, str(folder / "sink.py")], TOKENS["connectors"]),
            "query": (headrace("run", str(folder / "app.py"), *checkpoint, *reached), TOKENS["query"]),
        }
        logs = {}
        for name, (command, token) in commands.items():
            more = {"HEADRACE_GATEWAY": gateway.address, "HEADRACE_TLS_CA": str(ca), "HEADRACE_LOG_FORMAT": "json"}
            process = OwnedProcess(name, command, folder, environ(**more, HEADRACE_TOKEN=token))
            stack.push_async_callback(asyncio.to_thread, process.stop, 20.0)
            process.start()
            logs[name] = process.log
            # Whoever comes later would take over the session of the same instance.
            if name == "wrong-token":
                await until(lambda: process.exit_code() is not None, name)  # noqa: B023 - it is awaited here
        broken = await send_a_broken_frame(gateway.address, await asyncio.to_thread(ca.read_bytes))
        for number, word in enumerate(["good", "refuse"]):
            await others.js.publish(f"{stream}.{KEY}", f"{VALUE} {word} {number}".encode())
        await until(lambda: "too long" in logs["query"].read_text(), f"nothing is refused: {logs['query'].read_text()}")
        await others.js.publish(f"{stream}.{KEY}", f"{VALUE} bad".encode())
        await until(lambda: process.exit_code() is not None, "the query does not fail")
        paths = ("/readyz", "/metrics", "/api/v1/status", "/api/v1/pipelines/priced/batches", "/api/v1/openapi.json")
        shown = {path: str((await get(http.removeprefix("http://"), path, TOKENS["operator"]))[1]) for path in paths}
        shown["refused by HTTP"] = str(await get(http.removeprefix("http://"), "/api/v1/status", WRONG_TOKEN))
        url = f"postgresql://headrace:{WRONG_PASSWORD}@127.0.0.1:1/nowhere"
        ended = {
            "status": (headrace("status", "--json", *reached), TOKENS["operator"]),
            "refused status": (headrace("status", "--json", *reached), WRONG_TOKEN),
            "wrong-password": (headrace("connector", "check", "-c", str(folder / "wrong.toml")), ""),
            "postgresql": (headrace("connector", "check", "postgresql", "--url", url, "--table", "t", "--source", "p"), ""),
        }
        for name, (command, token) in ended.items():
            done = await asyncio.to_thread(
                subprocess.run, command, env=environ(HEADRACE_TOKEN=token), capture_output=True, text=True, timeout=DEADLINE_S
            )
            shown[name] = done.stdout + done.stderr
    return {**shown, "broken": broken, "gateway": gateway.log, **{name: log.read_text() for name, log in logs.items()}}
