"""What a part does, in a word: the gateway decides it, and whoever shows it shows the same word."""

import io
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scripts import generate_console_words
from tests.gateway.sink_wire import SinkClient
from tests.gateway.wire import Connector, Engine, numbered, serve, until_gone
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Http
from headrace.gateway.config import Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.status.condition import FLOWS_S, STALLED_S, has_credit, working
from headrace.gateway.observer import Observer
from headrace.gateway_cli.live.rows import Shown
from headrace.gateway_cli.status_tables import status_tables
from headrace.gateway_status import status_document
from headrace.gateway_status.timeline import MESSAGE_STATES, MessageState
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_documents import Condition

WORDS = {number: name.removeprefix("CONDITION_").lower().replace("_", " ") for name, number in pb.Condition.items() if number}


# Every word is shown as it is


def test_the_documents_and_the_console_have_the_words_of_the_protocol() -> None:
    assert sorted(WORDS.values()) == sorted(get_args(Condition))
    assert sorted(MESSAGE_STATES) == sorted(get_args(MessageState))
    for file, text in generate_console_words.texts().items():
        assert file.read_text() == text, "run `python -m scripts.generate_console_words`, and commit the result"


@pytest.mark.parametrize(("condition", "word"), WORDS.items(), ids=WORDS.values())
def test_the_commands_show_the_word_of_the_gateway_whatever_else_they_know(condition: Any, word: str) -> None:
    pause = pb.PauseStatus(part="stream orders/0", by="ada")
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    # Other fields that might suggest another word.
    status.streams.add(stream="orders/0", condition=condition, state=pb.STREAM_STATE_DETACHED, paused=pause, stalled_ms=30_000)
    status.streams.add(stream="orders/1", condition=condition, state=pb.STREAM_STATE_LIVE, lag_messages=9)
    status.sessions.add(session="s-1", instance="orders", condition=condition, credit_bytes=0, outstanding_bytes=9)
    status.pipelines.add(pipeline="p", condition=condition, state=pb.PIPELINE_STATE_AWAY, lag_messages=9)
    status.sinks.add(sink="out", condition=condition, failure="disk full")
    status.sink_sessions.add(session="k-1", sink="out", instance="out-1", condition=condition)
    document = status_document("here", status)
    rows = [row for view in ("streams", "connectors", "pipelines", "sinks") for row in Shown(document).rows(view)]
    assert [row["state"] for row in rows] == [word] * 6
    shown = io.StringIO()
    Console(file=shown, width=400).print(status_tables(document))
    lines = shown.getvalue().splitlines()
    for name in ("orders/0", "orders/1", "s-1", "p", "out", "k-1"):
        assert any(f" {name} " in line and f" {word} " in line for line in lines), (name, shown.getvalue())


# Which word it is


@given(
    waits=st.booleans(),
    age=st.none() | st.floats(0, 100),
    done=st.none() | st.floats(0, 100),
    has_credit=st.booleans(),
)
def test_what_flows_waits_and_stalls(waits: bool, age: float | None, done: float | None, has_credit: bool) -> None:
    with clock.use(VirtualClock(1000.0)):
        since = None if age is None else 1000.0 - age
        done_at = None if done is None else 1000.0 - done
        found = WORDS[working(waits=waits, since=since, done_at=done_at, has_credit=has_credit)]
        flows = done_at is not None and 1000.0 - done_at <= FLOWS_S
        is_old = since is not None and 1000.0 - since >= STALLED_S
    assert (found == "flows") == flows
    assert (found == "idle") == (not flows and not waits)
    assert (found == "stalled") == (not flows and waits and is_old)
    assert (found == "no credit") == (not flows and waits and not is_old and not has_credit)


class Account:
    """The rest of a session's credit, and what it holds."""

    def __init__(self, size: int, held_size: int, count: int, held_count: int) -> None:
        self.bytes_left, self.bytes_held, self.messages_left, self.messages_held = size, held_size, count, held_count


@pytest.mark.parametrize(
    ("account", "has"),
    [
        (Account(0, 0, 0, 0), True),
        (Account(2, 98, 50, 50), True),
        (Account(1, 99, 50, 50), False),
        (Account(50, 50, 0, 100), False),
    ],
)
def test_credit_is_used_up_if_little_is_left_of_bytes_or_messages(account: Any, has: bool) -> None:
    assert has_credit(account) == has


async def words(gateway: Gateway) -> dict[str, str]:
    """The condition of each part."""
    status = (await Observer(gateway, Http()).observe()).status
    rows: list[tuple[str, Any]] = [(f"stream {one.stream}", one) for one in status.streams]
    rows += [(f"connector {one.instance}", one) for one in status.sessions]
    rows += [(f"connector {one.instance} of sink {one.sink}", one) for one in status.sink_sessions]
    rows += [(f"pipeline {one.pipeline}", one) for one in status.pipelines]
    rows += [(f"sink {one.sink}", one) for one in status.sinks]
    return {part: WORDS[one.condition] for part, one in rows}


READ = ("stream orders/0", "connector orders", "pipeline p")
WRITTEN = ("sink out", "connector i of sink out")


async def test_parts_wait_stall_flow_rest_are_paused_and_get_into_trouble() -> None:
    with clock.use(VirtualClock()) as time:
        async with serve(Limits(query_lease_seconds=86400)) as (gateway, address):
            source, engine, sink = Connector(address), Engine(address), SinkClient(address)
            await source.hello(instance="orders")
            await engine.attach()
            await sink.hello()
            await source.open()
            await source.expect("stream_opened")
            assert await words(gateway) == dict.fromkeys((*READ, *WRITTEN), "idle")

            await source.send(frame=numbered(1, 1, 3))
            await engine.plan_until("orders/0", 3)
            assert await words(gateway) == {**dict.fromkeys(READ, "waits"), **dict.fromkeys(WRITTEN, "idle")}
            time.advance(STALLED_S)
            assert await words(gateway) == {**dict.fromkeys(READ, "stalled"), **dict.fromkeys(WRITTEN, "idle")}

            # A stream that flows and has no lag.
            await engine.plan({"orders/0": 3}, wait_ms=0)
            assert gateway.streams["orders/0"].unacknowledged_messages == 0
            assert await words(gateway) == {**dict.fromkeys(READ, "flows"), **dict.fromkeys(WRITTEN, "idle")}
            time.advance(FLOWS_S + 1)
            assert await words(gateway) == dict.fromkeys((*READ, *WRITTEN), "idle")

            # One that is paused, and one that is paused and that nobody sends although somebody reads it.
            await engine.admin.Pause(pb.PauseRequest(kind=pb.PART_KIND_STREAM, name="orders/0"))
            assert (await words(gateway))["stream orders/0"] == "paused"
            await source.close()
            await until_gone(address, "orders")
            assert (await words(gateway))["stream orders/0"] == "trouble"
            await sink.close()
            await engine.close()


async def test_what_nobody_serves_and_nobody_needs_is_detached() -> None:
    gateway = Gateway(Limits())
    gateway.stream("orders/0")
    gateway.sink("out")
    assert await words(gateway) == {"stream orders/0": "detached", "sink out": "detached"}
