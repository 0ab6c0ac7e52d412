"""The console says of faults, parts and messages what `/readyz`, `headrace status` and `headrace why` say, word for word."""

from typing import Any

from playwright.async_api import Page, expect
from tests.cli.test_timeline_command import call
from tests.console.conftest import DEADLINE_MS, Troubled
from tests.gateway.http_server import get

from headrace.gateway_status.timeline import MESSAGE_STATES

expect.set_options(timeout=DEADLINE_MS)


async def said(*command: str, address: str) -> str:
    """The output of a command, as one line."""
    result = await call(*command, address=address, environ={"COLUMNS": "400"})
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def roots(document: Any) -> list[Any]:
    return [problem for problem in document["problems"] if problem["root"] == problem["part"]]


async def test_a_fault_has_one_cause_and_one_remedy(page: Page, troubled_site: Troubled) -> None:
    _, ready = await get(troubled_site.http, "/readyz")
    assert {problem["part"] for problem in roots(ready)} == {"sink out", "stream payroll/0"}
    status = await said("status", address=troubled_site.address)
    why = await said("why", "orders/0", "7", address=troubled_site.address)
    await page.goto(f"http://{troubled_site.http}/?view=health")
    for problem in roots(ready):
        shown = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=problem["part"]))
        for text in (problem["cause"], problem["remedy"], problem["kind"]):
            await expect(shown).to_contain_text(text)
        assert problem["cause"] in status
        assert problem["remedy"] in status
    (sink,) = [problem for problem in roots(ready) if problem["part"] == "sink out"]
    await page.goto(f"http://{troubled_site.http}/?view=timeline&message_stream=orders/0&sequence=7")
    await page.get_by_role("button", name="Ask").click()
    answer = page.get_by_role("region", name="Why is this message not acknowledged yet?").get_by_role("status")
    stands = f"orders/0 7 {MESSAGE_STATES['in-batch']}"
    for text in (f"sink out: {sink['cause']}", sink["remedy"], stands):
        assert text in why
        await expect(answer).to_contain_text(text)


async def test_a_part_has_one_condition(page: Page, troubled_site: Troubled) -> None:
    # Nothing is acknowledged or committed here: what waits is stalled after a while, for as long as the test takes.
    words = {
        "stream payroll/0": "trouble",
        "stream orders/0": "stalled",
        "connector test-0": "stalled",
        "pipeline p": "trouble",
        "sink out": "trouble",
    }
    await page.goto(f"http://{troubled_site.http}/?view=graph")
    for part, word in words.items():
        await expect(page.locator(".node").filter(has_text=part).locator(".title .flow")).to_have_text(word)
    _, document = await get(troubled_site.http, "/api/v1/status")
    rows = [(f"stream {one['stream']}", one) for one in document["streams"]]
    rows += [(f"connector {one['instance']}", one) for one in document["sessions"]]
    rows += [(f"pipeline {one['pipeline']}", one) for one in document["pipelines"]]
    rows += [(f"sink {one['sink']}", one) for one in document["sinks"]]
    assert {part: one["condition"] for part, one in rows} == words
    for view, parts in (("streams", ("stream payroll/0", "stream orders/0")), ("connectors", ("connector test-0",))):
        await page.goto(f"http://{troubled_site.http}/?view={view}")
        for part in parts:
            row = page.get_by_role("table").get_by_role("row").filter(has_text=part.partition(" ")[2])
            await expect(row.locator(".state")).to_have_text(words[part])
    for part, word in words.items():
        await page.goto(f"http://{troubled_site.http}/?view=search&find={part.partition(' ')[2]}")
        found = page.get_by_role("row").filter(has=page.get_by_role("link", name=part, exact=True))
        await expect(found.get_by_role("cell")).to_have_text(word)
    result = await call("status", address=troubled_site.address, environ={"COLUMNS": "400"})
    for part, word in words.items():
        name = part.partition(" ")[2]
        assert any({name, word} <= {*line.split()} for line in result.stdout.splitlines()), (part, word, result.stdout)
