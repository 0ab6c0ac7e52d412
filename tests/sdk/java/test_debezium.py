"""The preset for Debezium: tables of PostgreSQL are rebuilt from their changes, whatever dies, and the slot is never ahead."""

import asyncio
import json
import random
import subprocess
import zlib
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from scripts.brokers import PostgreSQL
from tests.connectors.postgresql.rig import connected, rows_of, started
from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Reader

from headrace.laboratory.bench.rig import status
from headrace.pipelines import Headers, Message, Pipeline, Trial, primary_key
from headrace.pipelines.formats import json as json_of
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_DEGRADED

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(4, 6)]  # The first run fetches the connector.

_TABLE = "CREATE TABLE public.items (id bigint PRIMARY KEY, name text, version int NOT NULL)"
_STOCK = "CREATE TABLE public.stock (item text, amount int, shop int, price numeric(8, 2), PRIMARY KEY (shop, item))"
_SLOT = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = 'headrace_shop'"


@pytest.fixture
async def database(postgresql: PostgreSQL) -> AsyncIterator[PostgreSQL]:
    """The server, whose log is a logical one, with a table of this test."""
    async with await connected(postgresql.url) as db:
        await db.execute("ALTER SYSTEM SET wal_level = logical")
    postgresql.kill()
    await started(postgresql)
    async with await connected(postgresql.url) as db:
        await db.execute("DROP TABLE IF EXISTS public.items")
        await db.execute(_TABLE)
        await db.execute("INSERT INTO public.items SELECT n, 'item ' || n, 0 FROM generate_series(1, 300) n")
    yield postgresql
    async with await connected(postgresql.url) as db:
        await db.execute("DROP TABLE public.items")
        await db.execute("DROP TABLE IF EXISTS public.stock")
        await db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'headrace_shop'")
        await db.execute("DROP PUBLICATION IF EXISTS headrace_shop")


async def _change(db: AsyncConnection, rng: random.Random, fresh: int) -> None:
    """Inserts, updates, deletes and copies rows, in transactions of which some are rolled back."""
    for number in range(20):
        async with db.transaction(force_rollback=rng.random() < 0.1):
            for _ in range(rng.randrange(1, 6)):
                key = rng.randrange(1, 320)
                if rng.random() < 0.2:
                    await db.execute("DELETE FROM public.items WHERE id = %s", [key])
                else:
                    await db.execute(
                        "INSERT INTO public.items VALUES (%s, %s, 0)"
                        " ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, version = items.version + 1",
                        [key, f"changed {rng.random()}"],
                    )
        if number == 10:
            async with db.cursor() as cursor, cursor.copy("COPY public.items FROM STDIN") as copy:
                for row in range(50):
                    await copy.write_row((fresh + row, "copied", 0))


def _options(database: PostgreSQL, *tables: str) -> list[str]:
    server = ["--host", database.host, "--port", str(database.port), "--user", database.user, "--database", database.database]
    return [*server, "--source", "shop", *(word for table in tables for word in ("--tables", table)), "--heartbeat", "1s"]


def _command(debezium: list[str], database: PostgreSQL, verb: str, *options: str) -> list[str]:
    secret = f"HEADRACE_DEBEZIUM_POSTGRESQL_PASSWORD={database.password}"
    return [debezium[0], secret, *debezium[1:], "connector", verb, "debezium-postgresql", *options]


async def test_a_check_refuses_a_table_that_does_not_exist(debezium: list[str], database: PostgreSQL) -> None:
    for tables, code in {("public.items",): 0, ("public.it.*",): 0, ("public.items", "public.itms"): 2}.items():
        command = _command(debezium, database, "check", *_options(database, *tables))
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == (code != 0), done.stdout + done.stderr
        assert database.password not in done.stdout + done.stderr
        if code:
            assert "there is no table public.itms: correct its name" in done.stderr
            assert "public.items" in done.stderr


async def _reports(address: str, text: str) -> str:
    """Waits until the bridge reports that it is degraded, with a text; returns why."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            sessions = (await asyncio.to_thread(status, address)).sessions
            for session in sessions:
                reason = session.reported.reason
                if session.reported.state == CONNECTOR_STATE_DEGRADED and text in reason:
                    return reason
            await asyncio.sleep(0.2)


async def test_a_slot_that_keeps_too_much_and_a_table_that_does_not_exist_are_problems(
    debezium: list[str], database: PostgreSQL, tmp_path: Path
) -> None:
    command = _command(debezium, database, "run", *_options(database, "public.items", "public.absent"), "--max-wal", "4mb")
    async with await connected(database.url) as db:
        with gateway_process() as gateway:
            async with connector(gateway.address, tmp_path / "log", *command):
                query = Reader(gateway.address, "shop/0")
                await query.read_until(lambda: any(b'"item 300"' in value for value in query.values))
                assert "there is no table public.absent" in await _reports(gateway.address, "public.absent")
                await db.execute("UPDATE public.items SET name = repeat('x', 20000) || random()")
                await db.execute("CREATE TABLE public.more AS SELECT repeat('y', 900) AS name FROM generate_series(1, 9000)")
                await db.execute("DROP TABLE public.more")
                told = await _reports(gateway.address, "max_wal (4.2 MB)")
                assert "_shop keeps" in told  # The password of the server is a part of the name of the slot.
                assert "is lost" not in told
                await query.close()


async def test_an_application_reads_each_captured_table_by_its_primary_key(
    debezium: list[str], database: PostgreSQL, tmp_path: Path
) -> None:
    server = ["--host", database.host, "--port", str(database.port), "--user", database.user, "--database", database.database]
    options = [*server, "--source", "shop", "--tables", "public.items", "--tables", "public.stock", "--heartbeat", "1s"]
    secret = f"HEADRACE_DEBEZIUM_POSTGRESQL_PASSWORD={database.password}"
    command = [debezium[0], secret, *debezium[1:], "connector", "run", "debezium-postgresql", *options]
    app = Pipeline("app")
    orders = app.source("orders/*", decode=bytes.decode)
    for name, kind in {"items": int, "stock": tuple[int, str]}.items():
        table = app.table("shop/*", decode=json_of, key=primary_key(f"public.{name}", kind), name=name)
        orders.join(table, on=lambda order: order, as_of=False, name=f"join {name}").map(repr, name=f"text {name}").sink("out")
    trial = Trial(app)
    trial.open("orders/0", "shop/0")
    async with await connected(database.url) as db:
        await db.execute("DROP TABLE IF EXISTS public.stock")
        await db.execute(_STOCK)
        await db.execute("INSERT INTO public.stock VALUES ('tea', 5, 1, 1.50), ('tea', 7, 2, NULL), ('cup', 9, 1, 99999.99)")
        with gateway_process() as gateway:
            async with connector(gateway.address, tmp_path / "log", *command):
                query = Reader(gateway.address, "shop/0")
                await query.read_until(lambda: any(b'"item 300"' in value for value in query.values))
                await query.read_until(lambda: any(b'"cup"' in value for value in query.values))
                await _change(db, random.Random(5), 1000)
                await db.execute("UPDATE public.stock SET amount = 4 WHERE shop = 1 AND item = 'tea'")
                await db.execute("DELETE FROM public.stock WHERE shop = 2")
                await db.execute("INSERT INTO public.items VALUES (-1, 'the end', 0)")
                await query.read_until(lambda: any(b'"the end"' in value for value in query.values))
                await query.close()
        for sent in query.messages:
            trial.send(Message(sent.value, sent.key, sent.event_time, "shop/0", headers=Headers(sent.headers)))
        trial.end("shop/0", "orders/0")
        trial.finish()
        items = await rows_of(db, "SELECT id, name, version FROM public.items")
        stock = await rows_of(db, "SELECT shop, item, amount, price FROM public.stock")
        wanted: dict[str, dict[Any, Any]] = {
            "items": {key: {"id": key, "name": name, "version": version} for key, name, version in items},
            "stock": {
                (shop, item): {"shop": shop, "item": item, "amount": amount, "price": str(price)}
                for shop, item, amount, price in stock
            },
        }
        assert wanted["stock"].keys() == {(1, "tea"), (1, "cup")}
        for name, rows in wanted.items():
            there = {key: state["right"] for key, state in trial.states(f"join {name}").items()}
            assert there == {key: [row] for key, row in rows.items()}


def _offset(query: Reader) -> int:
    """Returns how far the cursor in the checkpoint has come in the log of the server."""
    cursor = query.committed.cursor
    if not cursor:
        return 0
    document = json.loads(cursor if cursor.startswith(b"{") else zlib.decompress(cursor))
    return max((int(offset.get(key) or 0) for _, offset in document["offsets"] for key in ("lsn", "lsn_proc")), default=0)


async def _slot_is_not_ahead(db: AsyncConnection, query: Reader, created: int) -> None:
    assert int((await rows_of(db, _SLOT))[0][0]) <= max(created, _offset(query))


async def test_a_table_is_rebuilt_from_its_changes_whatever_dies(
    debezium: list[str], database: PostgreSQL, tmp_path: Path
) -> None:
    server = ["--host", database.host, "--port", str(database.port), "--user", database.user, "--database", database.database]
    options = [*server, "--source", "shop", "--tables", "public.items", "--heartbeat", "1s"]
    secret = f"HEADRACE_DEBEZIUM_POSTGRESQL_PASSWORD={database.password}"
    command = [debezium[0], secret, *debezium[1:], "connector", "run", "debezium-postgresql", *options]
    rng = random.Random(7)
    async with await connected(database.url) as db:
        with ExitStack() as gateways:
            gateway = gateways.enter_context(gateway_process())
            address = gateway.address
            async with connector(address, tmp_path / "log", *command) as source:
                query = Reader(address, "shop/0")
                await query.read(100)
                await source.restart()  # in the snapshot, which begins again
                await query.read_until(lambda: any(b'"item 300"' in value for value in query.values))
                created = int((await rows_of(db, _SLOT))[0][0])
                for fresh, killed in enumerate(("bridge", "gateway", "both"), 1):
                    await _change(db, rng, 1000 * fresh)
                    await query.read(len(query.messages) + 30)
                    await _slot_is_not_ahead(db, query, created)
                    if killed != "bridge":
                        gateway.process.kill()
                        gateway.wait()
                    if killed != "gateway":
                        await source.restart()
                    await _change(db, rng, 1000 * fresh + 500)
                    if killed != "bridge":
                        gateway = gateways.enter_context(gateway_process("--listen", address))
                await db.execute("INSERT INTO public.items VALUES (-1, 'the end', 0)")
                await query.read_until(lambda: any(b'"the end"' in value for value in query.values))
                await _slot_is_not_ahead(db, query, created)
                await query.close()
        rebuilt: dict[int, list[Any]] = {}
        for message in query.messages:
            if message.key is None:
                continue  # It only filled a micro-batch.
            key = json.loads(message.key)["id"]
            if message.value is None:
                rebuilt.pop(key, None)
                continue
            row = json.loads(message.value)
            before = rebuilt[key][1] if key in rebuilt else -1
            assert row["version"] <= before + 1, f"a change of {key} before version {row['version']} is missing"
            assert message.event_time is not None
            rebuilt[key] = [row["name"], row["version"]]
        wanted = {key: row for key, *row in await rows_of(db, "SELECT id, name, version FROM public.items")}
        assert rebuilt == wanted
