"""AdminService lists the problems that /readyz lists, and many who ask at once cost one snapshot."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Connector, Engine, serve

from headrace.gateway import Http, Limits, observer
from headrace.gateway.core import Gateway, Kind, Problem
from headrace.gateway.observer import MAX_PROBLEMS, Observer
from headrace.gateway_status import status_document

PARTS = 120


@pytest.fixture
async def troubled(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Engine, Connector]]:
    """A gateway whose query writes to a sink that nobody serves, and whose connector offers a stream that nobody reads."""
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with serve() as (gateway, address), serve_http(gateway) as http:
        writer, connector, engine = Writer(address, "r1", readers=["p"]), Connector(address), Engine(address)
        await engine.attach({})
        await writer.report_commits()
        await connector.hello()
        await connector.open("payroll/0")
        await engine.status_once(lambda found: len(found.problems) == 3)
        yield http, engine, connector
        await connector.close()
        await writer.close()
        await engine.close()


def without_time(problems: list[Any]) -> list[Any]:
    return [{name: value for name, value in problem.items() if name != "since"} for problem in problems]


async def test_status_has_the_list_of_readyz(troubled: tuple[str, Engine, Connector]) -> None:
    http, engine, _ = troubled
    told = status_document("here", await engine.status())
    _, ready = await get(http, "/readyz")
    _, document = await get(http, "/api/v1/status")
    assert told["problems"] is not None
    assert {problem["part"] for problem in told["problems"]} == {"sink out", "pipeline p", "stream payroll/0"}
    assert without_time(told["problems"]) == without_time(ready["problems"]) == without_time(document["problems"])
    assert told["problems_in_all"] == ready["problems_in_all"] == document["problems_in_all"] == 3


async def test_a_repaired_part_is_no_problem_any_more(troubled: tuple[str, Engine, Connector]) -> None:
    _, engine, connector = troubled
    await connector.close()
    found = await engine.status_once(lambda found: len(found.problems) == 2)
    assert found.problems_in_all == 2


async def test_what_a_gateway_with_few_parts_says_is_true_now() -> None:
    gateway = Gateway(Limits())
    one = Observer(gateway, Http())
    assert not (await one.current()).problems
    gateway.draining = True
    assert [problem.part for problem in (await one.current()).problems] == ["gateway"]


async def test_the_time_of_an_observation_is_that_at_which_its_snapshot_began(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, begun = Gateway(Limits()), []
    snapshot = observer.snapshot  # type: ignore[attr-defined]  # its time is noted here

    async def noted(gateway: Gateway) -> Any:
        begun.append(datetime.now(UTC))
        return await snapshot(gateway)

    monkeypatch.setattr(observer, "snapshot", noted)
    one = Observer(gateway, Http())
    for observed in (await one.observe(), await one.current()):
        assert observed.taken_at <= begun.pop(0)


async def test_many_who_ask_for_many_parts_at_once_get_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, taken = Gateway(Limits()), 0
    for number in range(PARTS):
        gateway.stream(f"orders/{number}")
    snapshot = observer.snapshot  # type: ignore[attr-defined]  # it is counted here

    async def counted(gateway: Gateway) -> Any:
        nonlocal taken
        taken += 1
        return await snapshot(gateway)

    monkeypatch.setattr(observer, "snapshot", counted)
    one = Observer(gateway, Http())
    observations = await asyncio.gather(*(one.current() for _ in range(50)))
    assert taken == 1
    assert {id(observation) for observation in observations} == {id(observations[0])}
    assert len(observations[0].status.streams) == PARTS


async def test_the_list_is_bounded_and_its_length_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(Limits())
    found = [Problem(f"stream s/{n}", Kind.NOT_READ, "", 0, "") for n in range(MAX_PROBLEMS + 1)]
    monkeypatch.setattr(observer, "problems", lambda *_: found)
    observed = await Observer(gateway, Http()).current()
    assert (len(observed.status.problems), observed.status.problems_in_all) == (MAX_PROBLEMS, MAX_PROBLEMS + 1)
