"""A table's name of a test's own, and the database that it is in."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import psycopg
import pytest
from psycopg import AsyncConnection
from scripts.brokers import PostgreSQL
from tests.connectors.postgresql.rig import connected, temporary_schema
from tests.gateway.wire import serve


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """Where the server is."""
    return postgresql.url


@pytest.fixture
def table(url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A name that no other test uses; what it has named is gone afterwards."""
    name = re.sub(r"\W+", "_", request.node.name)[:50].strip("_")
    yield name
    with psycopg.connect(url, autocommit=True) as connection:
        left = connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
        for (gid,) in left:
            connection.execute(f"ROLLBACK PREPARED '{gid}'")
        connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")


@pytest.fixture
def schema(url: str, table: str) -> Iterator[str]:
    """A schema for the table of a sink and what is beside it; it is searched first."""
    with temporary_schema(url, table) as name:
        yield name


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def gateway() -> AsyncIterator[str]:
    """A gateway's address."""
    async with serve() as (_, address):
        yield address


@pytest.fixture
async def database(url: str) -> AsyncIterator[AsyncConnection]:
    """A session of the database."""
    async with await connected(url) as connection:
        yield connection
