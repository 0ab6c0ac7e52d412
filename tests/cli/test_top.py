"""`headrace top` and `headrace status --watch` in a real terminal, at a real gateway with faults injected."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner
from tests.cli.statuses import BUSY, gateway_that_says
from tests.cli.terminals import TerminalProcess, in_terminal
from tests.gateway.processes import gateway_process
from tests.gateway.sink_wire import SinkClient, Writer
from tests.gateway.wire import Connector, Engine, numbered

from headrace.cli import cli
from headrace.protocol.v1 import admin_pb2 as pb

STREAMS = 1_000


def many_streams() -> pb.GetStatusResponse:
    """The status of 200 connectors with five streams each."""
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0", uptime_ms=5_000), problems_in_all=0)
    for number in range(STREAMS):
        instance = f"c{number // 5}"
        status.streams.add(
            stream=f"orders/{number}", state=pb.STREAM_STATE_LIVE, instance=instance, lag_messages=number, received_messages=9
        )
        if number % 5 == 0:
            status.sessions.add(session=f"s{number}", instance=instance, streams=5, credit_bytes=1)
    return status


@asynccontextmanager
async def query_and_source(address: str) -> AsyncIterator[tuple[Engine, Connector]]:
    """A query that reads orders/* and writes to sink `out`, which nobody serves, and a source that has sent three messages."""
    engine, source, writer = Engine(address), Connector(address), Writer(address, "r1", readers=["p"])
    await source.hello()
    await source.open()
    await engine.attach({})
    await source.expect("stream_opened")
    await writer.report_commits()
    await source.send(frame=numbered(1, 1, 3))
    await engine.plan_until("orders/0", 3)

    async def report() -> None:
        while True:
            await writer.report_commits()
            await asyncio.sleep(0.2)

    reporting = asyncio.create_task(report())
    yield engine, source
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    await source.close()
    await engine.close()
    await writer.close()


async def test_what_is_wrong_stands_first_and_goes_once_it_is_repaired() -> None:
    with gateway_process("--http-listen", "off") as gateway:
        async with query_and_source(gateway.address) as (engine, source):

            def watched() -> None:
                with in_terminal("top", "--gateway", gateway.address, "--interval-seconds", "0.2") as top:
                    screen = top.until_shows("sink out for", "no connector serves it", "pipeline p for", "because of sink out")
                    assert screen.index("sink out for") < screen.index("[1 pipelines 1]")
                    assert "start its connector" in screen
                    to_test.set()
                    top.until_shows("All is well.")
                    top.press("2")
                    top.until_shows("[2 streams 1]", "orders/0", "stalled")
                    to_test.set()
                    top.until_shows("idle")
                    to_test.set()
                    top.until_shows("connector test-0 for", "its session has ended", "start the connector", "trouble")
                    top.press("q")
                    assert top.ended() == 0

            to_test = Steps()
            watching = asyncio.create_task(asyncio.to_thread(watched))
            await to_test.next(watching)
            sink = SinkClient(gateway.address)
            await sink.hello()
            await to_test.next(watching)
            await engine.plan({"orders/0": 3}, wait_ms=0)
            await to_test.next(watching)
            # A message that is not read: somebody waits for this connector.
            await source.send(frame=numbered(1, 4, 1))
            await engine.plan_until("orders/0", 4)
            await source.close()
            await watching
            await sink.close()


class Steps:
    """Lets a thread tell the event loop that it has come to the next step."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._step = asyncio.Event()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._step.set)

    async def next(self, watching: asyncio.Task[None]) -> None:
        step = asyncio.create_task(self._step.wait())
        await asyncio.wait({step, watching}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            step.cancel()
            await watching
        self._step.clear()


@pytest.mark.parametrize("command", [["top"], ["status", "--watch"]], ids=" ".join)
def test_while_the_gateway_is_away_the_last_rows_stay_and_are_marked_stale(command: list[str]) -> None:
    with gateway_process("--http-listen", "off") as gateway:
        address = gateway.address
        watching = in_terminal(*command, "--gateway", address, "--interval-seconds", "0.2", columns=100)
        with watching as screen:
            screen.until_shows("All is well.", f"gateway {address}")
            gateway.process.kill()
            gateway.wait()
            screen.until(lambda text: "stale" in text.lower() and "nothing listens" in text and "All is well." in text)
            with gateway_process("--listen", address, "--http-listen", "off"):
                screen.until(lambda text: "stale" not in text.lower() and "All is well." in text)
            screen.press("\x03")
            assert screen.ended() == 0


def keys_of(top: TerminalProcess) -> list[str]:
    """The first column of the rows."""
    lines = top.lines
    begin = next(number for number, line in enumerate(lines) if "stream  " in line) + 1
    return [line.split()[0] for line in lines[begin:-1] if line]


def test_a_thousand_streams_are_sorted_filtered_and_paged() -> None:
    def press(keys: str, *texts: str) -> None:
        top.press(keys)
        top.until_shows(*texts)

    with gateway_that_says(many_streams()) as address, in_terminal("top", "--gateway", address) as top:
        top.until_shows("All is well.")
        press("2", "[2 streams 1,000]", "1-19 of 1,000")
        press("\x1b[6~", "19-37 of 1,000")
        press("\x1b[B", "20-38 of 1,000")
        press("\x1b[F", "982-1,000 of 1,000")
        press("\x1b[H", "1-19 of 1,000")
        press(">>>>", "vlag", "orders/999")
        assert keys_of(top)[:3] == ["orders/999", "orders/998", "orders/997"]
        press("r", "^lag")
        assert keys_of(top)[:3] == ["orders/0", "orders/1", "orders/2"]
        press("/", "filter: _")
        press("s/99q", "filter: s/99q_  0 rows")
        press("\x7f\r", "of 11", "filter: s/99 (Escape)")
        assert keys_of(top) == ["orders/99", *(f"orders/{number}" for number in range(990, 1_000))]
        press("\x1b", "of 1,000")
        press("\t", "[3 connectors 200]")
        press("\x1b[D", "[2 streams 1,000]")
        top.press("q")
        assert top.ended() == 0


def test_a_narrow_and_low_terminal_still_shows_health_and_rows_and_it_may_change_its_size() -> None:
    with gateway_that_says(BUSY) as address, in_terminal("top", "--gateway", address, columns=40, lines=12) as top:
        top.until_shows("3 problems", "sink alerts for", "market", "[1 pipelines")
        top.resize(120, 30)
        screen = top.until_shows("lag bytes", "has come back without it", "pipeline billing")
        assert "restore its storage and restart the connector, or restart the query with onSinkLoss=accept" in screen
        for line in top.lines:
            assert line.isascii()


def test_only_what_has_changed_is_sent_and_no_colour_where_none_is_wanted() -> None:
    with gateway_that_says(BUSY) as address:
        with in_terminal("top", "--gateway", address, "--interval-seconds", "0.1") as top:
            top.until_shows("3 problems")
            first = len(top.sent)
            for _ in range(20):
                top._take(0.1)
            assert re.search(rb"\x1b\[[0-9;]*3[1-7]", top.sent)
            assert len(top.sent) - first < 20 * 200
        with in_terminal("top", "--gateway", address, environ={"NO_COLOR": "1"}) as plain:
            plain.until_shows("3 problems")
            assert not re.search(rb"\x1b\[(?:[0-9]+;)*[34][0-9](?:;[0-9]+)*m", plain.sent)


def test_what_is_paused_says_so_in_every_view() -> None:
    pause = pb.PauseStatus(part="connector c", by="ada", age_ms=5_000)
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    status.pipelines.add(pipeline="p", condition=pb.CONDITION_PAUSED, state=pb.PIPELINE_STATE_ATTACHED, paused=pause)
    status.streams.add(
        stream="orders/0", condition=pb.CONDITION_PAUSED, state=pb.STREAM_STATE_LIVE, instance="c", lag_messages=3, paused=pause
    )
    status.sessions.add(session="s", condition=pb.CONDITION_PAUSED, instance="c", streams=1, paused=pause)
    status.sinks.add(sink="out", condition=pb.CONDITION_PAUSED, instances=["o"], paused=pause)
    with gateway_that_says(status) as address, in_terminal("top", "--gateway", address) as top:
        for key, view, name in (
            ("1", "1 pipelines", "p"),
            ("2", "2 streams", "orders/0"),
            ("3", "3 connectors", "c"),
            ("4", "4 sinks", "out"),
        ):
            top.press(key)
            top.until_shows(f"[{view} 1]", name, "paused")
        top.press("q")
        assert top.ended() == 0


def test_the_texts_of_connectors_cannot_control_the_terminal() -> None:
    bad = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=1)
    bad.problems.add(part="stream a", kind="not-read", root="stream a", cause="x\x1b]0;owned\x07\x1b[2Jy", remedy="z\x1b[5mz")
    bad.sessions.add(session="s", instance="i\x1b[31m")
    with gateway_that_says(bad) as address, in_terminal("top", "--gateway", address) as top:
        top.until_shows("1 problem")
        top.press("3")
        top.until_shows("[3 connectors 1]")
        assert b"owned\x07" not in top.sent
        assert b"\x1b[5m" not in top.sent
        assert b"i\x1b[31m" not in top.sent


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_left_as_it_was(end: str | signal.Signals, code: int) -> None:
    with gateway_that_says(BUSY) as address, in_terminal("top", "--gateway", address) as top:
        top.until_shows("3 problems")
        assert top.modes != top.before
        if isinstance(end, str):
            top.press(end)
        else:
            os.kill(top.process.pid, end)
        assert top.ended() == code
        assert top.modes == top.before
        assert top.sent.endswith(b"\x1b[?1049l")


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    result = CliRunner().invoke(cli, ["top"])
    assert result.exit_code == 2
    assert "headrace status --watch" in result.stderr
    assert "headrace status --json" in result.stderr


def test_without_a_gateway_it_says_so_and_waits() -> None:
    with gateway_that_says(BUSY) as address:
        pass
    with in_terminal("top", "--gateway", address, "--interval-seconds", "0.2") as top:
        top.until_shows("nothing listens at", "q quit")
        with gateway_process("--listen", address, "--http-listen", "off"):
            top.until_shows("All is well.")
        top.press("q")
        assert top.ended() == 0
