"""How long connectors wait between attempts, without waiting for it."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from headrace.connectors.retry import Retry, ThrottledLog
from headrace.sdk import ConnectorState

LOG = logging.getLogger("tests.retry")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that was waited, in seconds; nothing else advances the clock."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    fake = SimpleNamespace(sleep=sleep, current_task=asyncio.current_task, CancelledError=asyncio.CancelledError)
    monkeypatch.setattr("headrace.connectors.retry.asyncio", fake)
    for name in ("connectors.retry.time", "logs.repeats.clock"):
        monkeypatch.setattr(f"headrace.{name}", SimpleNamespace(monotonic=lambda: sum(slept)))
    return slept


async def test_waits_grow_to_five_seconds_and_are_reported_now_and_then(
    waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    retry = Retry("stream s/S")
    while sum(waits) < 600:
        await retry.wait(OSError("no network"))
    told = len(caplog.messages)
    retry.connected()
    assert all(0 <= wait <= 5.0 for wait in waits)
    assert waits[0] <= 0.1
    assert max(waits) > 2.5
    assert len(set(waits)) == len(waits), "all that wait would come back at the same time"
    assert 30 <= told <= 61
    assert caplog.messages[0] == "stream s/S: no network; retrying"
    assert caplog.messages[-1] == "stream s/S: connected again"


async def test_only_a_connection_that_has_stood_begins_anew(waits: list[float]) -> None:
    retry = Retry("stream s/S")
    for _ in range(20):
        await retry.wait(OSError("refused"))
        retry.connected()
    assert max(waits[10:]) > 0.2, "a connection that breaks at once is one more failure"
    retry.connected()
    waits.append(2.5)
    retry.connected()
    await retry.wait(OSError("reset"))
    assert waits[-1] <= 0.1


async def test_a_cancellation_that_a_client_swallowed_is_raised() -> None:
    async def swallows() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await Retry("stream s/S").wait(OSError("refused"))

    task = asyncio.create_task(swallows())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_another_problem_is_reported_at_once(waits: list[float], caplog: pytest.LogCaptureFixture) -> None:
    log = ThrottledLog(LOG)
    for problem in ("no route", "no route", "refused"):
        log.report(problem)
    assert caplog.messages == ["no route", "refused"]


class Connector:
    """The reports of a connector."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []

    def report_state(self, state: ConnectorState, reason: str = "") -> None:
        self.reported.append((state.value, reason))


async def test_a_connector_reports_what_it_waits_for_until_all_of_it_is_back(waits: list[float]) -> None:
    connector = Connector()
    one, other = Retry("stream s/1", connector), Retry("stream s/2", connector)
    one.connected()
    assert connector.reported == []
    await one.wait(OSError("no network"))
    await other.wait(OSError("refused"))
    one.connected()
    one.connected()
    # A write that gave up leaves its reason to the next one.
    Retry("stream s/2", connector).connected()
    assert connector.reported == [
        ("waiting", "stream s/1: no network"),
        ("waiting", "stream s/1: no network"),
        ("waiting", "stream s/2: refused"),
        ("running", ""),
    ]


async def test_a_part_that_is_no_longer_read_waits_for_nothing() -> None:
    connector = Connector()
    waiting = asyncio.create_task(Retry("stream s/1", connector).wait(OSError("no network")))
    async with asyncio.timeout(60):
        while not connector.reported:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert connector.reported[-1] == ("running", "")
