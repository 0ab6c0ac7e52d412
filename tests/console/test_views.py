"""Each view in a real browser, against a gateway with something in trouble."""

from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import DEADLINE_MS
from tests.console.views import keep_picture, violations
from tests.gateway.http_server import serve_http
from tests.gateway.test_dead_letters import letters
from tests.gateway.test_dead_letters import rigged as with_dead_letters
from tests.gateway.test_peeking import rigged
from tests.gateway.test_rights import token
from tests.gateway.test_supervising import RESTARTED, Supervisor
from tests.gateway.wire import Connector, Engine, frame, serve

from headrace.gateway import Peek
from headrace.protocol.v1 import admin_pb2, connector_pb2

expect.set_options(timeout=DEADLINE_MS)

BROWSERS_CONNECTIONS = 6


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 400)])
async def test_every_view_is_accessible(page: Page, troubled: str, width: int, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    texts = {"health": "no connector serves it", "graph": "micro-batch for", "timeline": "read, ", "streams": "orders/0"}
    for view, text in {**texts, "connectors": "test-0", "processes": "No deployment", "letters": "No dead letters"}.items():
        await page.goto(f"http://{troubled}/?view={view}")
        await expect(page.get_by_role("main")).to_contain_text(text)
        assert not await violations(page), view
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        if scheme == "light" and view in ("health", "streams"):
            await keep_picture(page, view)
        elif scheme == "dark" and view in ("health", "graph"):
            await keep_picture(page, f"{view}-narrow")


async def test_health_names_the_first_cause_and_its_remedy(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=health")
    sink = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="sink out"))
    await expect(sink).to_contain_text("no connector serves it")
    await expect(sink).to_contain_text("start its connector")
    await expect(sink).to_contain_text("Waits for it")


async def test_the_state_of_a_view_survives_a_reload(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=streams")
    await page.get_by_label("Filter").fill("payroll")
    await page.get_by_role("button", name="State").click()
    await expect(page.get_by_role("table")).not_to_contain_text("orders/0")
    await page.reload()
    await expect(page.get_by_label("Filter")).to_have_value("payroll")
    await expect(page.get_by_role("columnheader", name="State")).to_have_attribute("aria-sort", "descending")
    await expect(page.get_by_role("table")).not_to_contain_text("orders/0")


async def test_it_tells_why_a_message_is_not_acknowledged(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=timeline&message_stream=orders/0&sequence=7")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.get_by_text("is in a micro-batch that is not committed").first).to_be_visible()
    await page.get_by_label("Sequence").fill("")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.get_by_role("status").filter(has_text="orders/0 0")).to_contain_text("is not committed")


async def test_a_part_is_paused_and_resumed(page: Page, troubled: str) -> None:
    await page.goto(f"http://{troubled}/?view=streams&stream=orders/0")
    await page.get_by_role("button", name="Pause stream orders/0").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Pause", exact=True).click()
    await page.get_by_role("button", name="Resume stream orders/0").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Resume", exact=True).click()
    await expect(page.get_by_role("button", name="Pause stream orders/0")).to_be_visible()


async def test_messages_of_a_stream_are_peeked_at(page: Page) -> None:
    async with rigged() as rig, serve_http(rig.gateway) as http:
        await rig.send(frame(1, 1, [b'{"n":1}', b"hello"]))
        await page.goto(f"http://{http}/?view=streams&stream=orders/0")
        await page.get_by_role("button", name="Peek at messages").click()
        messages = page.get_by_role("region", name="Messages of orders/0")
        await expect(messages.get_by_role("listitem")).to_have_count(2)
        await expect(messages.get_by_role("listitem").first).to_contain_text("hello")
        await expect(messages).to_contain_text('"n": 1')
        await page.get_by_label("Show as").select_option("hex")
        await expect(messages).to_contain_text("68 65 6c 6c 6f")
        assert not await violations(page)
        rig.gateway.peek = Peek()
        await expect(messages.get_by_role("alert")).to_contain_text("this gateway shows no messages")
        await page.get_by_role("button", name="Peek at messages").click()
        await expect(messages.get_by_role("alert")).to_contain_text("this gateway shows no messages")


async def test_dead_letters_are_shown_with_their_reasons(page: Page) -> None:
    async with with_dead_letters() as rig, serve_http(rig.gateway) as http:
        await rig.committed(0, letters([b'{"n":1}', b"hello"], reason="not a number"))
        await page.goto(f"http://{http}/?view=letters")
        shown = page.get_by_role("region", name="Dead letters of sink out").get_by_role("listitem")
        await expect(shown.filter(has_text="not a number")).to_have_count(2)
        for text in ("hello", "orders/0 8", "refused by sink totals"):
            await expect(shown.filter(has_text="hello")).to_contain_text(text)
        await expect(page.get_by_role("main")).to_contain_text("headrace dead-letters replay-files FOLDER --source NAME")
        assert not await violations(page)
        await rig.committed(1, letters([b"late"]))
        await expect(page.get_by_text("1 more since then")).to_be_visible()
        await page.get_by_role("button", name="Refresh").click()
        await expect(shown.filter(has_text="late")).to_have_count(1)
        rig.gateway.peek = Peek()
        await page.get_by_role("button", name="Refresh").click()
        await expect(page.get_by_role("main")).to_contain_text("The gateway only counts them")


async def test_dead_letters_are_replayed_by_the_deployment_that_has_them(page: Page) -> None:
    async with with_dead_letters() as rig, serve_http(rig.gateway) as http:
        await rig.committed(0, letters([b"hello"]))
        await page.goto(f"http://{http}/?view=letters")
        shown = page.get_by_role("region", name="Dead letters of sink out")
        button = shown.get_by_role("button", name="Replay the dead letters of out")
        await expect(shown).to_contain_text("hello")
        await expect(button).to_have_count(0)
        supervisor = await Supervisor(rig.address).register("files", replays="out")
        engine = Engine(rig.address, name="again", streams="again/*")
        await engine.attach()
        await button.click()
        dialog = page.get_by_role("alertdialog")
        # It proposes what a pipeline reads.
        await expect(dialog.get_by_label("Source")).to_have_value("again")
        assert not await violations(page)
        await dialog.get_by_role("button", name="Replay", exact=True).click()
        order = (await supervisor.read()).replay
        assert (order.connector, order.source) == ("files", "again")
        await expect(dialog.get_by_role("status")).to_contain_text("Waits until all are acknowledged")
        await expect(shown).to_contain_text("a replay is in progress")
        await supervisor.answer(order.id, replayed=admin_pb2.ReplayedDeadLetters(pid=7, duration_ms=2500))
        text = "All dead letters of out are sent as source again, and acknowledged (2.5 s)."
        await expect(dialog.get_by_role("status")).to_have_text(text)
        await dialog.get_by_role("button", name="Close").click()
        await button.click()
        await dialog.get_by_label("Source").fill("nobody")
        await dialog.get_by_role("button", name="Replay", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("no pipeline reads nobody/")
        for each in (supervisor, engine):
            await each.close()


async def test_rows_stay_and_are_stale_without_a_gateway(page: Page) -> None:
    async with serve() as (gateway, address):
        connector = Connector(address)
        async with serve_http(gateway) as http:
            await connector.hello()
            await connector.open("orders/0")
            await page.goto(f"http://{http}/?view=streams")
            await expect(page.get_by_role("table")).to_contain_text("orders/0")
        await expect(page.get_by_text("Disconnected.")).to_be_visible()
        await expect(page.get_by_role("table")).to_contain_text("orders/0")
        await connector.close()


async def test_pages_that_nobody_looks_at_leave_the_connections_of_the_browser_to_the_others(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector = Connector(address)
        await connector.hello()
        await connector.open("orders/0", 1)
        hidden = [await page.context.new_page() for _ in range(BROWSERS_CONNECTIONS + 1)]
        for one in hidden:
            await one.add_init_script("Object.defineProperty(document, 'hidden', {get: () => !window.shown})")
            await one.goto(f"http://{http}/?view=streams")
            await expect(one.get_by_role("table")).to_contain_text("orders/0")
        await page.goto(f"http://{http}/?view=streams")
        await expect(page.get_by_role("table")).to_contain_text("orders/0")
        await connector.open("orders/1", 2)
        await expect(page.get_by_role("table")).to_contain_text("orders/1")

        await connector.open("orders/2", 3)
        await hidden[0].evaluate("shown = true; document.dispatchEvent(new Event('visibilitychange'))")
        await expect(hidden[0].get_by_role("table")).to_contain_text("orders/2")
        await connector.close()


async def test_a_token_signs_in_and_rights_decide_on_buttons(page: Page) -> None:
    tokens = [token("see", admin=True), token("run", supervise=True)]
    async with serve(tokens=tokens) as (gateway, address), serve_http(gateway, tokens) as http:
        gateway.stream("orders/0")
        await page.goto(f"http://{http}/?view=streams&stream=orders/0")
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await page.get_by_label("Token").fill("see")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("region", name="Stream orders/0")).to_be_visible()
        await expect(page.get_by_role("button", name="Pause stream orders/0")).to_have_count(0)
        await expect(page.get_by_role("button", name="Peek at messages")).to_have_count(0)
        await expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
        supervisor = await Supervisor(address, "run").register("orders")
        await page.goto(f"http://{http}/?view=connectors&connector=orders-0%20%C2%B7%20deploy.toml")
        await expect(page.get_by_role("region", name="Connector orders-0 · deploy.toml")).to_be_visible()
        await expect(page.get_by_role("button", name="Restart connector orders")).to_have_count(0)
        await supervisor.close()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_token_without_the_right_admin_sees_nothing(page: Page) -> None:
    tokens = [token("see", admin=True), token("change", control=True)]
    async with serve(tokens=tokens) as (gateway, _), serve_http(gateway, tokens) as http:
        gateway.stream("orders/0")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2].partition("?")[0]))
        for view in ("health", "graph", "timeline", "streams", "connectors"):
            await page.goto(f"http://{http}/?view={view}")
            if view == "health":
                await page.get_by_label("Token").fill("change")
                await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("alert")).to_have_text(
                "The token change lacks the right admin. Sign in with another one."
            )
            await expect(page.get_by_role("navigation")).to_have_count(0)
            await expect(page.get_by_text("orders/0")).to_have_count(0)
        assert {path for path in asked if path} == {"me", "sign-in"}


async def test_a_connector_has_the_errors_that_it_has_reported(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector = Connector(address)
        await connector.hello()
        errors = [connector_pb2.ConnectorError(message=f"error {n}", stream="orders/0") for n in range(100)]
        state = connector_pb2.CONNECTOR_STATE_DEGRADED
        await connector.send(report=connector_pb2.Report(state=state, reason="half of the reads fail", errors=errors))
        await page.goto(f"http://{http}/?view=connectors")
        row = page.get_by_role("table").get_by_role("row").filter(has_text="test-0")
        await expect(row).to_contain_text("degraded")
        await expect(row).to_contain_text("half of the reads fail")
        await row.get_by_role("button", name="test-0").click()
        shown = page.get_by_role("list", name="Errors, the last one first").get_by_role("listitem")
        await expect(shown).to_have_count(100)
        await expect(shown.first).to_contain_text("error 99")
        await connector.close()


async def test_a_connector_of_a_deployment_is_restarted(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connector, supervisor = Connector(address), await Supervisor(address).register("test")
        await connector.hello(instance="test-0")
        await page.goto(f"http://{http}/?view=connectors&connector=test-0")
        details = page.get_by_role("region", name="Connector test-0")
        await expect(details).to_contain_text("deploy.toml, as test")
        await details.get_by_role("button", name="Restart connector test of deploy.toml").click()
        dialog = page.get_by_role("alertdialog")
        await dialog.get_by_role("button", name="Restart", exact=True).click()
        order = await supervisor.order()
        await expect(dialog.get_by_role("status")).to_contain_text("Waits until it has a session again")
        # Without its session, its row shows the deployment, and the dialog stays.
        await connector.close()
        await expect(page.get_by_text("no session")).to_be_visible()
        await supervisor.answer(order.id, restarted=admin_pb2.RestartedConnector(**RESTARTED))
        text = "test is restarted: process 1 ended with exit code 0, process 2 runs (1.5 s)."
        await expect(dialog.get_by_role("status")).to_have_text(text)
        assert not await violations(page)
        await dialog.get_by_role("button", name="Close").click()
        await expect(dialog).to_have_count(0)
        await page.goto(f"http://{http}/?view=connectors&connector=test-0%20%C2%B7%20deploy.toml")
        await page.get_by_role("button", name="Restart connector test of deploy.toml").click()
        await dialog.get_by_role("button", name="Restart", exact=True).click()
        await supervisor.order()
        await supervisor.close()
        await expect(dialog.get_by_role("alert")).to_contain_text("has left before it answered")


async def test_why_a_connector_of_a_deployment_does_not_start_is_two_clicks_from_its_restart(page: Page) -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        supervisor = await Supervisor(address).register("ledger")
        failing = admin_pb2.SupervisedConnector(
            name="ledger", instance="ledger-0", sink="totals", failure="ended with exit code 1: wrong password"
        )
        await supervisor.send(connectors=admin_pb2.SupervisedConnectors(connectors=[failing]))
        await page.goto(f"http://{http}/?view=health")
        await expect(page.get_by_role("main")).to_contain_text("its process fails: ended with exit code 1: wrong password")
        await page.get_by_role("link", name="connector ledger-0 of sink totals").click()
        row = page.get_by_role("table").get_by_role("row").filter(has_text="ledger-0")
        await expect(row).to_contain_text("fails")
        await expect(row).to_contain_text("wrong password")
        await row.get_by_role("button", name="ledger-0").click()
        await expect(page.get_by_role("button", name="Restart connector ledger of deploy.toml")).to_be_visible()
        await supervisor.close()


async def test_a_thousand_streams_are_walked_through_by_keyboard(page: Page) -> None:
    async with serve() as (gateway, _), serve_http(gateway) as http:
        for number in range(1_000):
            gateway.stream(f"orders/{number}")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/me") else None)
        await page.goto(f"http://{http}/?view=streams&sort=name")
        table = page.get_by_role("table", name="Streams")
        await expect(table).to_have_attribute("aria-rowcount", "1001")
        await expect(page.get_by_text("1,000 of 1,000")).to_be_visible()
        assert len(asked) == 1, "what the page asks for while its script is loaded is not asked for again"
        first = table.get_by_role("button", name="orders/0", exact=True)
        await first.focus()
        await page.keyboard.press("ArrowDown")
        await expect(table.get_by_role("button", name="orders/1", exact=True)).to_be_focused()
        await page.keyboard.press("End")
        await expect(table.get_by_role("button", name="orders/999", exact=True)).to_be_focused()
        assert await table.get_by_role("row").count() < 100, "only rows in view are drawn"
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("region", name="Stream orders/999")).to_be_visible()
        await table.get_by_role("button", name="State").press("Enter")
        await expect(page.get_by_role("columnheader", name="State")).to_have_attribute("aria-sort", "descending")
        await page.get_by_label("Filter").fill("99")
        await expect(page.get_by_text("19 of 1,000")).to_be_visible()
