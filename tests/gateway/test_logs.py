"""Every log line about a micro-batch names its query and its number, in either format."""

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from typing import Any

import grpc
import pytest
from grpc._cython.cygrpc import ExecuteBatchError  # type: ignore[import-untyped]
from tests.gateway.processes import gateway_process
from tests.gateway.sink_wire import SinkClient, Writer
from tests.gateway.wire import Connector, Engine

from headrace.gateway.config import Log
from headrace.gateway.logs import configure_logging
from headrace.protocol.v1 import sink_pb2, source_pb2

EXPECTED = [
    ("run reports commits", {"pipeline": "query", "batch": -1, "run": "r1"}),
    ("a sink failed", {"pipeline": "query", "batch": 0, "partition": 0, "sink": "out", "instance": "i", "error": "full"}),
    ("a delivery failed", {"pipeline": "query", "batch": 0, "sink": "out", "instance": "i", "status": "ABORTED"}),
    ("a sink failed", {"pipeline": "query", "batch": 0, "sink": "out", "instance": "i", "error": "no table"}),
    ("a vote failed", {"pipeline": "query", "batch": 0, "sink": "out", "status": "ABORTED"}),
    ("transaction voted for", {"pipeline": "query", "batch": 0, "sink": "out", "instance": "i"}),
    ("transaction visible", {"pipeline": "query", "batch": 0, "sink": "out", "instance": "i"}),
    ("transaction voted for", {"pipeline": "query", "batch": 1, "sink": "out", "instance": "i"}),
    ("run reports commits", {"pipeline": "query", "batch": 0, "run": "r2"}),
    ("transaction aborted", {"pipeline": "query", "batch": 1, "sink": "out", "instance": "i"}),
]
"""What the gateway logs of the batches below, in order, with what must stand in each line."""


async def fail_twice_then_commit_and_abort(address: str) -> None:
    """A part and a vote that fail, a batch that is committed, and one that the next run's commit log does not have."""
    sink, writer = SinkClient(address), Writer(address)
    await sink.hello()
    delivery = writer.deliver(0)
    start = await sink.expect("start_part")
    await sink.send(failed=sink_pb2.Failed(part_id=start.id, reason="full"))
    with pytest.raises(grpc.aio.AioRpcError):
        await delivery
    await staged(sink, writer, 0, "b")
    vote = writer.vote(0, writer.part(0, attempt="b"))
    prepare = await until(sink, "prepare")
    await sink.send(failed=sink_pb2.Failed(transaction=prepare.transaction, reason="no table"))
    with pytest.raises(grpc.aio.AioRpcError):
        await vote
    await voted(sink, writer, 0, "c")
    await writer.report_commits(0)
    told = await until(sink, "commit")
    await sink.send(committed=sink_pb2.Committed(transaction=told.transaction))
    await voted(sink, writer, 1, "d")
    newer = Writer(address, "r2", first_batch=1)
    await newer.report_commits(0)
    delivery = newer.deliver(1)
    aborted = await until(sink, "abort")
    assert aborted.transaction.batch == 1
    delivery.cancel()
    for client in (sink, writer, newer):
        await client.close()


async def staged(sink: SinkClient, writer: Writer, batch: int, attempt: str) -> None:
    delivery = writer.deliver(batch, attempt=attempt)
    while (start := await until(sink, "start_part")).part.attempt != f"r1/{attempt}":
        pass
    # The end of the part that has failed may still be on its way.
    while (await until(sink, "end_part")).id != start.id:
        pass
    await sink.send(staged=sink_pb2.Staged(id=start.id))
    await delivery


async def voted(sink: SinkClient, writer: Writer, batch: int, attempt: str) -> None:
    await staged(sink, writer, batch, attempt)
    vote = writer.vote(batch, writer.part(batch, attempt=attempt))
    prepare = await until(sink, "prepare")
    await sink.send(prepared=sink_pb2.Prepared(transaction=prepare.transaction))
    await vote


async def until(sink: SinkClient, kind: str) -> Any:
    """The next message of a kind; others, such as that a part is dropped which has failed, are of no interest here."""
    while (response := await sink.receive()).WhichOneof("message") != kind:
        pass
    return getattr(response, kind)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The event of a line and its keys, from JSON or as the console shows them."""
    if line.startswith("{"):
        document = json.loads(line)
        return document.pop("event"), document
    shown = re.fullmatch(r"(?P<timestamp>\S+) (?P<level>[A-Z]+): (?P<event>.*?)(?P<rest>( \w+=('[^']*'|\S+))*)", line)
    assert shown is not None, line
    keys = {name: quoted or plain for name, quoted, plain in re.findall(r"(\w+)=(?:'([^']*)'|(\S+))", shown["rest"])}
    return shown["event"], {**shown.groupdict(), **keys}


async def test_lines_about_a_session_name_it_and_its_connector() -> None:
    with gateway_process("--log-format", "json") as gateway:
        source, engine, sink = Connector(gateway.address), Engine(gateway.address), SinkClient(gateway.address)
        welcome = await source.hello("orders-0")
        await engine.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=9, reason="pruned"))
        await source.expect("reject")
        await source.send(hello=source_pb2.Hello())
        await source.ended()
        attached = await sink.hello()
        await sink.send(hello=sink_pb2.SinkHello())
        await asyncio.to_thread(gateway.wait_for_log, "sink session closed")
        lines = [parsed(line) for line in gateway.log.splitlines()]
        for client in (source, engine, sink):
            await client.close()

    for event in ("session opened", "position lost", "session ended", "session closed"):
        (keys,) = [keys for found, keys in lines if found == event]
        assert (keys["session"], keys["instance"]) == (welcome.session, "orders-0"), event
    for event in ("sink session opened", "sink session ended", "sink session closed"):
        (keys,) = [keys for found, keys in lines if found == event]
        assert (keys["session"], keys["sink"], keys["instance"]) == (attached.session, "out", "i"), event
    # Lines about the gateway itself belong to no session.
    assert all("session" not in keys for event, keys in lines if event.startswith("gateway"))


@pytest.mark.parametrize("form", ["json", "console"])
async def test_lines_about_a_batch_name_its_query_and_its_number(form: str) -> None:
    with gateway_process("--log-format", form, "--log-level", "debug") as gateway:
        await fail_twice_then_commit_and_abort(gateway.address)
        await asyncio.to_thread(gateway.wait_for_log, "transaction aborted")
        lines = [parsed(line) for line in gateway.log.splitlines()]

    about = [(event, keys) for event, keys in lines if event in {expected for expected, _ in EXPECTED}]
    assert [event for event, _ in about][: len(EXPECTED)] == [event for event, _ in EXPECTED], about
    for (event, keys), (_, expected) in zip(about, EXPECTED, strict=False):
        assert {name: str(keys.get(name)) for name in expected} == {name: str(value) for name, value in expected.items()}, event
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", keys["timestamp"])


@pytest.mark.usefixtures("logs_of_its_own")
def test_a_caller_that_goes_away_while_it_is_answered_is_no_error() -> None:
    out = io.StringIO()
    configure_logging(Log(format="json"), out)
    core = logging.getLogger("grpc._cython.cygrpc")
    for error in (ExecuteBatchError("the caller is gone"), ValueError("a handler is wrong")):
        try:
            raise error
        except Exception:
            core.exception("raised in core by servicer method")
    (line,) = out.getvalue().splitlines()
    assert "a handler is wrong" in json.loads(line)["exception"]


def test_the_gateway_loads_no_rich() -> None:
    program = "import sys, headrace.gateway.server\nprint('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "False\n"
