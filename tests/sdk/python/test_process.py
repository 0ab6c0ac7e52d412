"""`run`: the connector as a process of its own, with signals and exit codes; and the example in the README."""

import asyncio
import logging
import re
import signal
import sys
from pathlib import Path

import grpc
import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import part

from headrace.sdk._run import _signals_set

README = Path(__file__).parents[3] / "sdk" / "python" / "README.md"

ENDLESS = """
import sys
from headrace.sdk import Message, Settings, Source, run

class Endless(Source):
    name = "endless"

    def read(self, partition, position):
        yield Message(b"first")
        while True:
            yield None

sys.exit(run(Endless(), settings=Settings(drain_seconds=float(sys.argv[1]))))
"""


SLOW_SINK = """
import sys
from headrace.sdk import Sink, run

class Slow(Sink):
    name = "slow"

    def write(self, rows):
        return None

    def flush(self):
        print("flushing", flush=True)
        sys.stdin.readline()

sys.exit(run(Slow()))
"""


async def start(gateway, code: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"HEADRACE_GATEWAY": gateway.address, "GRPC_VERBOSITY": "NONE"},
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_in_good_order(gateway, number):
    process = await start(gateway, ENDLESS, "10")
    session = await gateway.session()
    stream = await session.open()
    await session.messages(1)
    process.send_signal(number)
    session.ack(stream, 1)
    await session.next("goodbye")
    assert await asyncio.wait_for(process.wait(), 120) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_sink_answer_what_has_arrived(sink_gateway, number):
    process = await start(sink_gateway, SLOW_SINK)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    # The whole part has arrived now, with its end.
    assert await process.stdout.readline() == b"flushing\n"
    process.send_signal(number)
    process.stdin.write(b"\n")
    assert (await session.next("staged")).id == id_
    await session.next("goodbye")
    assert await asyncio.wait_for(process.wait(), 120) == 0


async def test_a_second_signal_stops_at_once(gateway):
    process = await start(gateway, ENDLESS + "", "60")
    session = await gateway.session()
    await session.open()
    await session.messages(1)
    # The first is known to have been handled only once a second one ends the process.
    while process.returncode is None:
        process.terminate()
        await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=0.1)
    assert process.returncode == 143


async def test_hangups_that_come_before_it_looks_again_are_one(caplog):
    caplog.set_level(logging.INFO)
    before = signal.getsignal(signal.SIGHUP)
    with _signals_set(asyncio.Event()):
        for _ in range(100):
            signal.raise_signal(signal.SIGHUP)
        await until(lambda: "SIGHUP: reading certificates again" in caplog.text)
        assert caplog.text.count("SIGHUP") == 1
        signal.raise_signal(signal.SIGHUP)
        await until(lambda: caplog.text.count("SIGHUP") == 2)
    assert signal.getsignal(signal.SIGHUP) == before


async def test_a_failure_is_one_line_and_exit_code_1(gateway):
    process = await start(gateway, ENDLESS, "1")
    (await gateway.session()).close(grpc.StatusCode.UNAUTHENTICATED, "no such token")
    _, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 1
    assert re.fullmatch(r"connector stopped: gateway 127.0.0.1:\d+: no such token \(UNAUTHENTICATED\)\n", errors.decode())


def example() -> str:
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) <= 20
    return code


async def test_the_example_in_the_readme_runs(gateway, tmp_path, monkeypatch):
    process = await start(gateway, example())
    session = await gateway.session()
    stream = await session.open("countdown/0")
    received = await session.messages(10)
    assert [m.value for m in received[:3]] == [b"10", b"9", b"8"]
    await session.next("close_stream")
    session.ack(stream, received[-1].sequence)
    await session.next("goodbye")
    assert await asyncio.wait_for(process.wait(), 120) == 0


async def test_the_example_resumes(gateway):
    process = await start(gateway, example())
    session = await gateway.session()
    await session.open(resume={"sequence": 8})
    assert [m.value for m in await session.messages(2)] == [b"2", b"1"]
    process.kill()
    await process.wait()
