"""`headrace events`, at a real gateway."""

import asyncio
import json
import sys

import pytest
from tests.cli.test_timeline_command import answer, call
from tests.gateway.test_rights import token
from tests.gateway.wire import DEADLINE_S, Engine, serve

from headrace.gateway.core.state.event_log import EventKind, EventLog


async def test_it_shows_what_happened_oldest_first() -> None:
    async with serve() as (_, address):
        empty = await call("events", address=address)
        assert (empty.exit_code, empty.stdout.partition(",")[0]) == (0, "nothing has happened since the gateway started")
        engine = Engine(address, run=3)
        await engine.attach()
        await engine.detach()
        shown = await call("events", address=address)
        assert shown.exit_code == 0
        first, second = shown.stdout.splitlines()
        assert first.endswith("attached     pipeline p  run 3")
        assert second.endswith("detached     pipeline p  run 3 has stopped")
        document = await answer("events", "--limit", "1", address=address)
        assert [event["kind"] for event in document["events"]] == ["detached"]
        await engine.close()


async def test_it_follows_also_a_gateway_that_restarts() -> None:
    async with serve() as (gateway, address):
        for name in ("a", "b"):
            gateway.event_log.add(EventKind.ATTACHED, f"pipeline {name}")
        command = (
            "-m",
            "headrace.gateway_cli",
            "events",
            "--follow",
            "--json",
            "--interval-seconds",
            "0.1",
            "--gateway",
            address,
        )
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None

        async def part() -> str:
            async with asyncio.timeout(DEADLINE_S):
                assert process.stdout is not None
                return str(json.loads(await process.stdout.readline())["part"])

        assert [await part(), await part()] == ["pipeline a", "pipeline b"]
        gateway.event_log.add(EventKind.DETACHED, "pipeline a")
        assert await part() == "pipeline a"
        # What a gateway is like that has restarted: its numbers begin again.
        log = EventLog()
        log.started_at += 60
        log.add(EventKind.ATTACHED, "pipeline c")
        gateway.event_log = log
        assert await part() == "pipeline c"
        process.terminate()
        await process.wait()


async def test_what_a_terminal_would_obey_is_escaped() -> None:
    async with serve() as (gateway, address):
        gateway.event_log.add(EventKind.DETACHED, "connector x", "\x1b[2J‮gone\nfault-began  gateway")
        shown = (await call("events", address=address)).stdout
        assert len(shown.splitlines()) == 1
        assert "\x1b" not in shown
        assert "‮" not in shown


@pytest.mark.parametrize("limit", ["0", "1201", "-1", "many"])
async def test_a_limit_that_there_cannot_be_is_an_error_of_usage(limit: str) -> None:
    assert (await call("events", "--limit", limit, address="127.0.0.1:1")).exit_code == 2


async def test_only_who_may_see_the_status_sees_events() -> None:
    seer, other = token("seer", admin=True), token("other", control=True)
    async with serve(tokens=[seer, other]) as (_, address):
        assert (await call("events", address=address, environ={"HEADRACE_TOKEN": "seer"})).exit_code == 0
        refused = await call("events", address=address, environ={"HEADRACE_TOKEN": "other"})
        assert refused.exit_code == 1
        assert "right" in refused.stderr or "admin" in refused.stderr


async def test_without_a_gateway_it_names_the_address() -> None:
    async with serve() as (_, address):
        pass
    result = await call("events", address=address)
    assert result.exit_code == 1
    assert address in result.stderr
