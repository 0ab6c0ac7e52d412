"""The preset for MariaDB: a table is rebuilt from its changes although it is altered, and bridge, gateway and server die."""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.gateway.processes import gateway_process
from tests.sdk.java.mariadb import PASSWORD, Server
from tests.sdk.processes import connector
from tests.sdk.queries import Reader

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(5, 6)]  # The first run fetches the connector.

_SETUP = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE shop.items (id bigint PRIMARY KEY, name varchar(100), version int NOT NULL);
INSERT INTO shop.items SELECT seq, concat('item ', seq), 0 FROM seq_1_to_300;
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a table of 300 rows."""
    folder = tmp_path / "mariadb"
    folder.mkdir()
    made = Server(folder)
    try:
        made.run(_SETUP)
        yield made
    finally:
        made.kill()


def _changes(rng: random.Random, fresh: int, columns: str = "0") -> str:
    """Inserts, updates and deletes rows, in transactions of which some are rolled back."""
    statements = []
    for number in range(40):
        statements.append("START TRANSACTION")
        for _ in range(rng.randrange(1, 6)):
            key = rng.randrange(1, 320)
            if rng.random() < 0.2:
                statements.append(f"DELETE FROM shop.items WHERE id = {key}")
            else:
                statements.append(
                    f"INSERT INTO shop.items VALUES ({key}, 'changed {rng.random()}', {columns})"
                    " ON DUPLICATE KEY UPDATE name = VALUES(name), version = version + 1"
                )
        statements.append(f"INSERT INTO shop.items VALUES ({fresh + number}, 'fresh', {columns})")
        statements.append("ROLLBACK" if rng.random() < 0.1 else "COMMIT")
    return "".join(f"{statement};\n" for statement in statements)


async def test_a_table_is_rebuilt_though_it_is_altered_and_whatever_dies(
    debezium_mariadb: list[str], server: Server, tmp_path: Path
) -> None:
    options = ["--source", "shop", "--tables", "shop.items", "--port", str(server.port), "--user", "bridge"]
    options += ["--history", f"{tmp_path}/history", "--heartbeat", "1s"]
    secret = f"HEADRACE_DEBEZIUM_MARIADB_PASSWORD={PASSWORD}"
    command = [debezium_mariadb[0], secret, *debezium_mariadb[1:], "connector", "run", "debezium-mariadb", *options]
    rng = random.Random(7)
    with ExitStack() as gateways:
        gateway = gateways.enter_context(gateway_process())
        address = gateway.address
        async with connector(address, tmp_path / "log", *command) as source:
            query = Reader(address, "shop/0")
            await query.read(100)
            await source.restart()  # in the snapshot, which begins again
            await query.read_until(lambda: any(b'"item 300"' in value for value in query.values))
            columns = "0"
            for fresh, killed in enumerate(("bridge", "server", "gateway", "both"), 1):
                server.run(_changes(rng, 1000 * fresh, columns))
                await query.read(len(query.messages) + 30)
                if killed in {"gateway", "both"}:
                    gateway.process.kill()
                    gateway.wait()
                if killed == "server":
                    server.kill()
                    server.start()
                # The row before was written with the columns of its time, and is read after the table was altered.
                server.run(_changes(rng, 1000 * fresh + 500, columns) + f"ALTER TABLE shop.items ADD COLUMN c{fresh} int")
                columns += f", {fresh}"
                if killed in {"bridge", "both"}:
                    await source.restart()
                server.run(_changes(rng, 1000 * fresh + 700, columns))
                if killed in {"gateway", "both"}:
                    gateway = gateways.enter_context(gateway_process("--listen", address))
            server.run(f"INSERT INTO shop.items VALUES (-1, 'the end', {columns})")
            await query.read_until(lambda: any(b'"the end"' in value for value in query.values))
            await query.close()
    rebuilt: dict[int, list[str]] = {}
    for message in query.messages:
        if message.key is None:
            continue  # It only filled a micro-batch.
        key = json.loads(message.key)["id"]
        if message.value is None:
            rebuilt.pop(key, None)
            continue
        row = json.loads(message.value)
        assert message.event_time is not None
        rebuilt[key] = [row["name"], *(str(row.get(name)) for name in ("version", "c1", "c2", "c3", "c4"))]
    wanted = {int(key): row for key, *row in server.run("SELECT * FROM shop.items")}
    filled = {key: [value.replace("None", "NULL") for value in row] for key, row in rebuilt.items()}
    assert filled == wanted
    assert PASSWORD not in (tmp_path / "log").read_text()
