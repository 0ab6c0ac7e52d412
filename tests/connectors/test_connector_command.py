"""`headrace connector`, as a process, against the scripted gateway."""

import asyncio
import os
import re
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.json_shape import result_of
from tests.fake_gateway.sinks import FakeSinkGateway, part, transaction
from tests.fake_gateway.sources import FakeGateway


@pytest.fixture
async def gateway():
    fake = FakeGateway()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def sink_gateway():
    fake = FakeSinkGateway()
    await fake.start()
    yield fake
    await fake.stop()


async def headrace(*arguments: str | Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace.cli",
        "connector",
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200"},
    )


async def test_list():
    out, _ = await (await headrace("list")).communicate()
    assert "lines or length-prefixed records" in out.decode()
    out, _ = await (await headrace("list", "--json")).communicate()
    assert {"file", "file-sink", "stdout-sink"} <= {c["name"] for c in result_of(out)["connectors"]}


async def test_files_are_streamed_to_their_end(gateway, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    (tmp_path / "b.txt").write_bytes(b"three")
    process = await headrace(
        *("run", "file", "--path", tmp_path / "*.txt", "--source", "s", "--no-follow"),
        *("--gateway", gateway.address, "--instance", "i", "--token", "t"),
    )
    session = await gateway.session()
    assert (session.hello.connector, session.hello.instance, session.metadata["authorization"]) == ("file", "i", "Bearer t")
    a = (await session.next("open_stream")).open_stream
    b = (await session.next("open_stream")).open_stream
    assert (a.stream, b.stream) == ("s/a.txt", "s/b.txt")
    session.answer_open(a.stream_id)
    assert [(m.sequence, m.value) for m in await session.messages(2)] == [(4, b"one"), (8, b"two")]
    await session.next("close_stream")
    session.answer_open(b.stream_id)
    assert [(m.sequence, m.value) for m in await session.messages(1)] == [(5, b"three")]
    await session.next("close_stream")
    session.ack(a.stream_id, 8)
    session.ack(b.stream_id, 5)
    await session.next("goodbye")
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, out, errors) == (0, b"", b"")


async def test_each_line_of_the_log_begins_with_its_time(tmp_path):
    begun = datetime.now(UTC)
    process = await headrace("run", "stdout-sink", "--sink", "s", "--gateway", "127.0.0.1:1", "--verbose")
    lines = [(await asyncio.wait_for(process.stderr.readline(), 60)).decode()]
    process.send_signal(signal.SIGTERM)
    _, rest = await asyncio.wait_for(process.communicate(), 60)
    lines += rest.decode().splitlines(keepends=True)
    ended = datetime.now(UTC)
    for line in lines:
        shown = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z (INFO|WARNING|ERROR): .+\n", line)
        assert shown is not None, lines
        # To the millisecond, in UTC.
        assert begun - timedelta(milliseconds=1) <= datetime.fromisoformat(f"{shown[1]}+00:00") <= ended, lines


async def test_a_followed_file_is_streamed_until_a_signal(gateway, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n")
    process = await headrace("run", "file", "--path", path, "--source", "s", "--gateway", gateway.address)
    session = await gateway.session()
    stream = await session.open("s/a.txt")
    await session.messages(1)
    with path.open("ab") as file:
        file.write(b"two\n")
    await session.messages(1)
    session.ack(stream, 8)
    process.send_signal(signal.SIGTERM)
    await session.next("goodbye")
    assert await asyncio.wait_for(process.wait(), 120) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--path", "/not/there", "--source", "s", "--no-follow"], 2, "Error: no such file: /not/there"),
        (["--path", "x", "--source", "a/b"], 2, "source name 'a/b'"),
        (["--path", "x", "--source", "s", "--tls-key", os.devnull], 2, "--tls-key"),
        (["--path", "x"], 2, "--source"),
    ],
)
async def test_mistakes_are_told_in_a_line(arguments, code, message):
    process = await headrace("run", "file", *arguments)
    _, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == code
    assert message in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_a_file_sink_writes_and_recovers(sink_gateway, tmp_path):
    arguments = ("run", "file-sink", "--path", tmp_path / "out", "--format", "lines", "--sink", "s", "--rotate-bytes", "3")
    process = await headrace(*arguments, "--gateway", sink_gateway.address, "--instance", "i", "--token", "t")
    session = await sink_gateway.session()
    assert (session.hello.connector, session.hello.sink, session.hello.instance) == ("file-sink", "s", "i")
    await session.staged(part(0), b"one", b"two")
    await session.prepared(transaction(0), part(0))
    await session.committed(transaction(0))
    await session.staged(part(1), b"three")
    await session.prepared(transaction(1), part(1))
    process.kill()
    await process.wait()

    process = await headrace(*arguments, "--gateway", sink_gateway.address)
    session = await sink_gateway.session()
    assert list(session.hello.staged) == [part(1)]
    assert list(session.hello.prepared) == [transaction(1)]
    assert list(session.hello.committed) == [transaction(0)]
    await session.committed(transaction(1))
    assert (tmp_path / "out" / "s-000001.lines").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "out" / "s-000002.lines").read_bytes() == b"three\n"

    other = await headrace(*arguments, "--gateway", sink_gateway.address)
    _, errors = await asyncio.wait_for(other.communicate(), 120)
    assert other.returncode == 2
    assert errors.decode().startswith(f"Error: another process writes the sink s to {tmp_path / 'out'}")

    process.terminate()
    await session.next("goodbye")
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, out, errors) == (0, b"", b"")


@pytest.mark.behaviour("stdout", "a message without a value", "prints an empty line, or `null` as JSON")
@pytest.mark.parametrize(
    ("options", "printed"),
    [((), b"one\n\n"), (("--json",), b'{"key":"k","value":"one"}\n{"key":"k","value":null}\n')],
)
async def test_a_stdout_sink_prints(sink_gateway, options, printed):
    process = await headrace("run", "stdout-sink", "--sink", "s", *options, "--gateway", sink_gateway.address)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"one", None], keys=[b"k", b"k"])
    session.end(id_, 2)
    await session.next("staged")
    process.terminate()
    await session.next("goodbye")
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, out) == (0, printed)


@pytest.mark.behaviour("stdout", "a reader of its output that has ended", "ends with exit code 0")
async def test_a_stdout_sink_that_nobody_reads_ends(sink_gateway):
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "headrace.cli",
            "connector",
            "run",
            "stdout-sink",
            "--sink",
            "s",
            "--gateway",
            sink_gateway.address,
        ),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    os.close(reading)
    session = await sink_gateway.session()
    session.rows(session.start(part(0)), [b"one"])
    assert (await session.next("failed")).reason == "BrokenPipeError: [Errno 32] Broken pipe"
    await session.next("goodbye")
    assert await asyncio.wait_for(process.wait(), 120) == 0
