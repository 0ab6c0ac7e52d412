"""What docs/reference/connectors/postgresql.md shows works."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection
from tests.connectors.postgresql.rig import connected, read_once, rows_of, until_rows
from tests.connectors.programs import page
from tests.connectors.query import querying
from tests.docs.pages import blocks
from tests.gateway.sink_wire import Writer

from headrace.connectors.postgresql import PostgreSQLOutboxParameters, PostgreSQLOutboxSource

PAGE = "docs/reference/connectors/postgresql.md"
SHOWN = "postgresql://headrace:headrace@127.0.0.1/shop"


@pytest.fixture
async def shop(url: str) -> AsyncIterator[str]:
    """A database with the tables of the page."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
        there = url.replace("/postgres", "/shop")
        with psycopg.connect(there, autocommit=True) as tables:
            for block in blocks(PAGE, "sql"):
                tables.execute(block.text)
        yield there
        connection.execute("DROP DATABASE shop WITH (FORCE)")


@pytest.fixture
async def tables(shop: str) -> AsyncIterator[AsyncConnection]:
    async with await connected(shop) as connection:
        yield connection


async def test_orders_are_read(shop: str, tables: AsyncConnection, gateway: str, tmp_path: Path) -> None:
    await tables.execute("INSERT INTO orders (customer, amount, at) VALUES ('ann', 12.50, '2026-01-31T12:00:00Z')")
    async with querying(gateway, "orders/*") as query, page(PAGE, tmp_path, {SHOWN: shop}) as shown:
        await shown.connector("postgresql", gateway)
        (message,) = await query.batch("orders/0", 1)
        assert message.value == b'{"id":1,"customer":"ann","amount":12.50,"at":"2026-01-31T12:00:00+00:00"}'
        assert message.value.decode() in (Path(__file__).parents[3] / PAGE).read_text()
        assert message.key == b"ann"
        assert message.event_time == 1_769_860_800_000_000


async def test_what_is_told_in_the_outbox_is_read_and_deleted(
    shop: str, tables: AsyncConnection, gateway: str, tmp_path: Path
) -> None:
    async with querying(gateway, "events/*") as query, page(PAGE, tmp_path, {SHOWN: shop}) as shown:
        await tables.execute(
            "INSERT INTO outbox (topic, key, value, headers) VALUES ('orders', 'ann', '{\"n\": 1}', '{\"h\": \"x\"}')"
        )
        await shown.connector("postgresql-outbox", gateway)
        (message,) = await query.batch("events/orders", 1)
        assert (message.value, message.key, message.headers) == (b'{"n": 1}', b"ann", [("h", b"x")])
        await query.commit()
        await until_rows(tables, "SELECT WHERE NOT EXISTS (SELECT FROM outbox)")


async def test_every_change_is_in_the_outbox_of_the_trigger(shop: str, tables: AsyncConnection) -> None:
    for change in ("INSERT INTO {} VALUES (1, 'ann')", "UPDATE {} SET name = 'bob'", "DELETE FROM {}"):
        await tables.execute(change.format("customers"))
    outbox = PostgreSQLOutboxSource(PostgreSQLOutboxParameters(url=shop, table="changes", source="customers", key_column="key"))
    found = await read_once(outbox)
    ann, bob = {"id": 1, "name": "ann"}, {"id": 1, "name": "bob"}
    assert [(message.key, json.loads(message.value or b"")) for message in found] == [
        (b"1", {"op": op, "old": old, "new": new})
        for op, old, new in (("INSERT", None, ann), ("UPDATE", ann, bob), ("DELETE", bob, None))
    ]


async def test_alerts_are_inserted(shop: str, tables: AsyncConnection, gateway: str, tmp_path: Path) -> None:
    async with page(PAGE, tmp_path, {SHOWN: shop, "--sink alerts": "--sink out"}) as shown:
        await shown.connector("postgresql-sink", gateway)
        writer = Writer(gateway)
        await writer.report_commits()
        answer = await writer.deliver(0, [json.dumps({"customer": "ann", "amount": amount}).encode() for amount in (12.5, -1)])
        assert [refused.sequence for refused in answer.refused] == [1]
        await writer.vote(0)
        assert await rows_of(tables, "SELECT FROM alerts") == []
        await writer.report_commits(0)
        await until_rows(tables, "SELECT FROM alerts")
        assert await rows_of(tables, "SELECT customer, amount::float FROM alerts") == [("ann", 12.5)]
        await writer.close()


async def test_totals_want_a_key(shop: str, tables: AsyncConnection, gateway: str, tmp_path: Path) -> None:
    async with page(PAGE, tmp_path, {SHOWN: shop, "--sink totals": "--sink out --key value"}) as shown:
        await shown.connector("postgresql-upsert", gateway)
        writer = Writer(gateway)
        await writer.report_commits()
        for batch in range(2):
            await writer.deliver(
                batch, [json.dumps({"customer": "ann", "total": total}).encode() for total in (batch, 10 + batch)]
            )
            await writer.vote(batch)
            await writer.report_commits(batch)
        assert await rows_of(tables, "SELECT customer, total::int FROM totals") == [("ann", 11)]
        await writer.close()
