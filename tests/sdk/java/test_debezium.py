"""The preset for Debezium: a table of PostgreSQL is rebuilt from its changes, whatever dies, and the slot is never ahead."""

import json
import random
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
from tests.sdk.processes import connector
from tests.sdk.queries import Reader

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(4, 6)]  # The first run fetches the connector.

_TABLE = "CREATE TABLE public.items (id bigint PRIMARY KEY, name text, version int NOT NULL)"
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
                continue  # It only carried a cursor.
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
