"""Every fault of the table is shown wherever people and programs look, and nowhere once it is over. Each kind is in the table."""

from copy import deepcopy
from typing import Any

import pytest
from tests.gateway.faulty_sites import FAULTS, Fault, driver_killed, site
from tests.gateway.http_server import get, serve_http
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.gateway import observer
from headrace.gateway.core import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb

ALL = (*FAULTS, driver_killed(is_deployed=False))


def test_each_kind_of_fault_is_in_the_table() -> None:
    """A new kind needs a line in `faulty_sites`: it is then tested here, in sites at random, and with the alert rules."""
    assert {fault.kind for fault in ALL} == {kind for kind in Kind if Problem("", kind, "", 0, "").is_fault}
    names = [fault.name for fault in ALL]
    assert len(names) == len(set(names))


async def test_each_fault_is_shown_everywhere_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    well = site(2, 2, 2, is_deployed=False)
    now = well

    async def snapshot(_: object) -> pb.GetStatusResponse:
        return deepcopy(now)

    monkeypatch.setattr(observer, "snapshot", snapshot)
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with serve() as (gateway, address), serve_http(gateway) as http:
        # A message that waits for its pipeline, which `headrace why` is asked about.
        source, engine = Connector(address), Engine(address, "totals0", streams="source0/*")
        await engine.attach()
        await source.hello()
        await source.open("source0/0")
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 1))
        await engine.plan_until("source0/0", 1)
        for fault in ALL:
            now = deepcopy(well)
            fault.inject(now)
            await shows(fault, http, engine)
            now = well
            await shows(None, http, engine)
        await source.close()
        await engine.close()


async def shows(fault: Fault | None, http: str, engine: Engine) -> None:
    """Checks that a fault is shown; that none is, for None."""
    code, ready = await get(http, "/readyz")
    assert (code, bool(ready["problems"])) == ((503, True) if fault else (200, False)), fault
    _, document = await get(http, "/api/v1/status")
    status = await engine.status()
    of_status = {problem.part: (problem.kind, problem.root) for problem in status.problems}
    for problems in (ready["problems"], document["problems"]):
        assert {problem["part"]: (problem["kind"], problem["root"]) for problem in problems} == of_status, fault
    located = await engine.admin.LocateMessage(pb.LocateMessageRequest(stream="source0/0", sequence=1), timeout=DEADLINE_S)
    assert (located.problem.kind, located.problem.root) == of_status.get("pipeline totals0", ("", "")), fault
    _, metrics = await get(http, "/metrics")
    shown = {line for line in metrics.splitlines() if line.startswith("headrace_problems{") and not line.endswith(" 0.0")}
    counts: dict[str, Any] = {}
    for kind, _ in of_status.values():
        counts[kind] = counts.get(kind, 0) + 1
    assert shown == {f'headrace_problems{{kind="{kind}"}} {float(count)}' for kind, count in counts.items()}, fault
    assert of_status == {} if fault is None else of_status[fault.root] == (fault.kind, fault.root)
