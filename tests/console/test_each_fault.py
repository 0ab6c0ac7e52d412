"""The console shows each kind of fault with its cause and its remedy, and no longer once it is over."""

from copy import deepcopy

import pytest
from playwright.async_api import Locator, Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.gateway.faulty_sites import FAULTS, driver_killed, site
from tests.gateway.http_server import get, serve_http
from tests.gateway.wire import serve

from headrace.gateway import observer
from headrace.protocol.v1 import admin_pb2 as pb

expect.set_options(timeout=DEADLINE_MS)


async def test_each_fault_is_shown_with_its_remedy_until_it_is_over(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    well = site(2, 2, 2, is_deployed=False)
    now = well

    async def snapshot(_: object) -> pb.GetStatusResponse:
        return deepcopy(now)

    def entry(part: str, kind: str) -> Locator:
        heading = page.get_by_role("heading", name=f"{part} {kind}", exact=True)
        return page.get_by_role("listitem").filter(has=heading)

    monkeypatch.setattr(observer, "snapshot", snapshot)
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with serve() as (gateway, _), serve_http(gateway) as http:
        await page.goto(f"http://{http}/?view=health")
        for fault in (*FAULTS, driver_killed(is_deployed=False)):
            now = deepcopy(well)
            fault.inject(now)
            _, ready = await get(http, "/readyz")
            (problem,) = [one for one in ready["problems"] if one["part"] == one["root"] == fault.root]
            shown = entry(fault.root, problem["kind"])
            for text in (problem["cause"], problem["remedy"]):
                # The next status comes by itself.
                await expect(shown.filter(has_text=text)).to_have_count(1)
            now = well
            await expect(page.get_by_role("main")).to_contain_text("All is well")
            await expect(shown).to_have_count(0)
