"""TLS: what the connection string asks for, and files that change while a connector runs."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from psycopg import AsyncConnection, sql
from tests.connectors.postgresql.rig import DEADLINE_S, until, until_rows
from tests.gateway.certificates import Authority, Pair

from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource
from headrace.sdk import ConnectorState, InvalidSource


def source(url: str, table: str) -> PostgreSQLSource:
    return PostgreSQLSource(PostgreSQLParameters(url=url, table=table, source="s", poll_seconds=0.02))


@pytest.fixture
async def numbered(database: AsyncConnection, table: str) -> str:
    await database.execute(f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    return table


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


async def on_server(database: AsyncConnection, name: str, path: Path) -> None:
    """Puts a file into the folder of the server."""
    lines, program = sql.Literal(lines_of(path)), sql.Literal(f"umask 077; cat > {name}")
    await database.execute(sql.SQL("COPY (SELECT unnest({}::text[])) TO PROGRAM {}").format(lines, program))


async def serve_with(database: AsyncConnection, issued: Pair) -> None:
    """Lets the server show a certificate to whoever connects from now on."""
    await on_server(database, "server.crt", issued.cert)
    await on_server(database, "server.key", issued.key)
    await database.execute("ALTER SYSTEM SET ssl = on")
    await database.execute("SELECT pg_reload_conf()")


@pytest.fixture
async def encrypted(database: AsyncConnection, tmp_path: Path) -> AsyncIterator[Authority]:
    """The server speaks TLS meanwhile; this is who has signed its certificate."""
    authority = Authority(tmp_path, "authority")
    await serve_with(database, authority.issue("server"))
    await until_rows(database, "SELECT WHERE current_setting('ssl') = 'on'")
    yield authority
    await database.execute("ALTER SYSTEM RESET ssl")
    await database.execute("ALTER SYSTEM RESET ssl_ca_file")
    await database.execute("SELECT pg_reload_conf()")
    await until_rows(database, "SELECT WHERE current_setting('ssl') = 'off'")


async def test_tls_is_asked_for_in_the_url(url, numbered, encrypted, tmp_path):
    verified = f"{url}?sslmode=verify-full&sslrootcert="
    assert await anext(source(f"{verified}{encrypted.cert}", numbered).read("0", None)) is None
    stranger = Authority(tmp_path, "stranger").cert
    with pytest.raises(InvalidSource, match="certificate verify failed"):
        await anext(source(f"{verified}{stranger}", numbered).read("0", None))
    with pytest.raises(InvalidSource, match=r'root certificate file "/not/there" does not exist'):
        await anext(source(f"{verified}/not/there", numbered).read("0", None))


async def until_shown(url: str, authority: Authority) -> None:
    """Waits until the server shows a certificate that an authority has signed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                connection = await AsyncConnection.connect(f"{url}?sslmode=verify-full&sslrootcert={authority.cert}")
            except Exception:
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return


class Observed(PostgreSQLSource):
    """A source whose reports are kept."""

    reports: list[tuple[ConnectorState, str]]

    def report_state(self, state: ConnectorState, reason: str = "") -> None:
        self.reports.append((state, reason))


@pytest.mark.behaviour(
    "postgresql",
    "certificates, keys and authorities that are replaced while it runs",
    "reads them at the next connection; waits, and reports it, if they do not fit the server's yet",
)
@pytest.mark.parametrize("both", [False, True])
async def test_new_certificates_are_used_without_a_restart(url, database, numbered, encrypted, tmp_path, both):
    """The server has new ones first, then the connector: with `both`, the server asks for a certificate of clients, too."""
    mine = tmp_path / "mine"
    mine.mkdir()

    def install(authority: Authority) -> None:
        client = authority.issue("client")
        for name, path in (("root.pem", authority.cert), ("client.pem", client.cert), ("client.key", client.key)):
            (mine / f"{name}.new").write_bytes(path.read_bytes())
            (mine / f"{name}.new").chmod(0o600)
            (mine / f"{name}.new").replace(mine / name)

    install(encrypted)
    asked = f"{url}?sslmode=verify-full&sslrootcert={mine}/root.pem"
    if both:
        await on_server(database, "root.crt", encrypted.cert)
        await database.execute("ALTER SYSTEM SET ssl_ca_file = 'root.crt'")
        await database.execute("SELECT pg_reload_conf()")
        asked += f"&sslcert={mine}/client.pem&sslkey={mine}/client.key"
    found = Observed(PostgreSQLParameters(url=asked, table=numbered, source="s", poll_seconds=0.02))
    found.reports = []
    items = found.read("0", None)
    assert await anext(items) is None
    other = Authority(tmp_path, "other")
    if both:
        await on_server(database, "root.crt", other.cert)
    await serve_with(database, other.issue("server"))
    await until_shown(url, other)
    await database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'headrace postgresql source%'"
    )
    await database.execute(f"INSERT INTO {numbered} DEFAULT VALUES")

    async def next_batch() -> list[int]:
        while (batch := await anext(items)) is None:
            pass
        return list(batch.sequences)

    going = asyncio.create_task(next_batch())
    await until(lambda: any(state is ConnectorState.WAITING and "certificate" in why for state, why in found.reports))
    install(other)
    assert await asyncio.wait_for(going, DEADLINE_S) == [1]
    await items.aclose()


async def test_a_file_that_is_away_for_a_moment_is_waited_for(url, database, numbered, encrypted, tmp_path):
    root = tmp_path / "root.pem"
    shutil.copy(encrypted.cert, root)
    items = source(f"{url}?sslmode=verify-full&sslrootcert={root}", numbered).read("0", None)
    assert await anext(items) is None
    root.unlink()
    await database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'headrace postgresql source%'"
    )
    going = asyncio.create_task(anext(items))
    done, _ = await asyncio.wait({going}, timeout=0.3)
    assert not done
    shutil.copy(encrypted.cert, root)
    assert await asyncio.wait_for(going, DEADLINE_S) is None
    await items.aclose()
