"""The source of an outbox: told of rows by NOTIFY, and deleting them once they are acknowledged."""

from collections.abc import Sequence
from typing import Any

import pytest
from psycopg import sql
from tests.connectors.postgresql.rig import (
    Stream,
    connected,
    in_database,
    rows_of,
    running,
    sequences,
    until,
    until_rows,
    values,
)
from tests.connectors.query import querying
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors.postgresql import PostgreSQLOutboxParameters, PostgreSQLOutboxSource
from headrace.connectors.postgresql.database import Session
from headrace.sdk import InvalidSource

COLUMNS = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text, key text, value bytea, headers jsonb"


@pytest.fixture
async def outbox(database, url, table) -> str:
    """An outbox whose trigger notifies."""
    await database.execute(f"CREATE TABLE {table} ({COLUMNS})")
    await database.execute(f"CREATE INDEX ON {table} (topic, id)")
    await database.execute(
        f"CREATE FUNCTION {table}_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY {table}; RETURN NULL; END $$"
    )
    await database.execute(f"CREATE TRIGGER told AFTER INSERT ON {table} EXECUTE FUNCTION {table}_told()")
    yield table
    await database.execute(f"DROP FUNCTION {table}_told CASCADE")


def source(url: str, table: str, **options: object) -> PostgreSQLOutboxSource:
    given = {"channel": table, "timeout_seconds": 1, "poll_seconds": 60, **options}
    return PostgreSQLOutboxSource(PostgreSQLOutboxParameters(url=url, table=table, source="s", **given))


def insert(url: str, table: str, *given: str, topic: str = "a") -> None:
    in_database(url, *(f"INSERT INTO {table} (topic, key, value) VALUES ('{topic}', 'k', '{value}')" for value in given))


async def test_rows_are_read_as_soon_as_they_are_committed_and_deleted_once_they_are_acknowledged(url, outbox, database, gateway):
    stream = Stream(gateway, "s/0")
    insert(url, outbox, "before")
    async with running(source(url, outbox, key_column="key", headers_column="headers"), gateway):
        await stream.attach()
        (first,) = await stream.read(1)
        assert (first.value, first.key, first.headers) == (b"before", b"k", None)
        insert(url, outbox, "one", "two")
        # Nobody looks by himself for a minute, and this test does not wait that long.
        assert values(await stream.read(2)) == [b"one", b"two"]
        assert len(await rows_of(database, f"SELECT FROM {outbox}")) >= 2
        await stream.commit()
        await until_rows(database, f"SELECT WHERE NOT EXISTS (SELECT FROM {outbox})")
    await stream.close()


async def test_rows_are_read_though_nobody_notifies(url, outbox, database, gateway):
    await database.execute(f"ALTER TABLE {outbox} DISABLE TRIGGER told")
    stream = Stream(gateway, "s/0")
    async with running(source(url, outbox, poll_seconds=0.05), gateway):
        await stream.attach()
        await stream.nothing()
        insert(url, outbox, "one")
        assert values(await stream.read(1)) == [b"one"]
    await stream.close()


async def test_what_is_not_acknowledged_comes_again_in_another_session_as_it_was(url, outbox, database, gateway):
    insert(url, outbox, *"abcde")
    for _ in range(2):
        async with gateway_serving() as (_, address), running(source(url, outbox), address), querying(address, "s/0") as query:
            found = await query.batch("s/0", 5)
            assert list(zip(sequences(found), values(found), strict=True)) == [(n, bytes([96 + n])) for n in range(1, 6)]
        assert len(await rows_of(database, f"SELECT FROM {outbox}")) == 5
    stream = Stream(gateway, "s/0")
    async with running(source(url, outbox), gateway):
        # A checkpoint has the first two: they are acknowledged, and the others are read.
        await stream.attach(2)
        assert values(await stream.read(3)) == [b"c", b"d", b"e"]
        await until_rows(database, f"SELECT WHERE NOT EXISTS (SELECT FROM {outbox} WHERE id <= 2)")
    await stream.close()


async def test_a_row_that_commits_late_is_neither_skipped_nor_deleted(url, outbox, database, gateway, stack):
    late = await stack.enter_async_context(await connected(url))
    await late.execute("BEGIN")
    await late.execute(f"INSERT INTO {outbox} (topic, value) VALUES ('a', 'late')")
    insert(url, outbox, "early")
    stream = Stream(gateway, "s/0")
    async with running(source(url, outbox), gateway):
        await stream.attach()
        await stream.nothing()
        await late.execute("COMMIT")
        assert values(await stream.read(2)) == [b"late", b"early"]
    await stream.close()


async def test_rows_may_be_kept(url, outbox, database, gateway):
    insert(url, outbox, *"ab")
    stream = Stream(gateway, "s/0")
    kept = source(url, outbox, acknowledged_rows="keep")
    async with running(kept, gateway):
        await stream.attach()
        await stream.read(2)
        await stream.commit()
        insert(url, outbox, "c")
        assert values(await stream.read(1)) == [b"c"]
    assert len(await rows_of(database, f"SELECT FROM {outbox}")) == 3
    await stream.close()


async def test_each_value_of_a_column_is_a_stream_of_its_own(url, outbox, database, gateway):
    insert(url, outbox, "1", "2", topic="orders")
    insert(url, outbox, "3", topic="refunds")
    insert(url, outbox, "4", topic="orders")
    engine = Engine(gateway, streams="s/*")
    orders, refunds = Stream(gateway, "s/orders", name="o"), Stream(gateway, "s/refunds", name="r")
    async with running(source(url, outbox, partition_column="topic"), gateway):
        for stream in (orders, refunds):
            await stream.attach()
        assert values(await orders.read(3)) == [b"1", b"2", b"4"]
        assert values(await refunds.read(1)) == [b"3"]
        await orders.commit()
        await until_rows(database, f"SELECT WHERE NOT EXISTS (SELECT FROM {outbox} WHERE topic = 'orders')")
        assert len(await rows_of(database, f"SELECT FROM {outbox}")) == 1
        # A partition that appears while it runs.
        insert(url, outbox, "5", topic="new.one-2_")
        late = Stream(gateway, "s/new.one-2_", name="n")
        await late.attach()
        assert values(await late.read(1)) == [b"5"]
    for each in (engine, orders, refunds, late):
        await each.close()


async def test_all_partitions_share_a_few_connections(url, outbox, database, gateway):
    topics = [f"topic-{number}" for number in range(150)]
    insert = f"INSERT INTO {outbox} (topic, value) SELECT 'topic-' || n, 'value' FROM generate_series(0, 149) AS n"
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'headrace postgresql-outbox%'"
    async with running(source(url, outbox, partition_column="topic"), gateway), querying(gateway, "s/*") as query:
        for _ in range(2):
            await database.execute(insert)
            for topic in topics:
                assert len(await query.batch(f"s/{topic}", 1)) == 1
            await query.commit()
            await until_rows(database, f"SELECT WHERE NOT EXISTS (SELECT FROM {outbox})")
        ((count,),) = await rows_of(database, connections)
        assert count <= 3
    await until_rows(database, f"SELECT WHERE ({connections}) = 0")


@pytest.mark.parametrize("partition_column", [None, "topic"])
async def test_locks_are_not_looked_at_while_there_is_nothing_new(url, outbox, gateway, monkeypatch, partition_column):
    looks: list[str] = []
    fetch = Session.fetch

    async def noted(session: Session, query: Any, parameters: Sequence[object] = ()) -> Any:
        text = query.as_string(session.connection) if isinstance(query, sql.Composable) else query
        looks.append("locks" if "pg_locks" in text else "peek" if "coalesce(max(" in text else "other")
        return await fetch(session, query, parameters)

    monkeypatch.setattr(Session, "fetch", noted)
    insert(url, outbox, "one")
    stream = Stream(gateway, "s/a" if partition_column else "s/0")
    async with running(source(url, outbox, partition_column=partition_column, poll_seconds=0.01), gateway):
        await stream.attach()
        assert values(await stream.read(1)) == [b"one"]
        before = looks.count("locks")
        looks.clear()
        await until(lambda: looks.count("peek") >= 10)
        assert before >= 1
        assert looks.count("locks") == 0
        insert(url, outbox, "two")
        assert values(await stream.read(1)) == [b"two"]
        assert looks.count("locks") >= 1
    await stream.close()


async def test_rows_that_commit_late_are_found_in_each_partition(url, outbox, database, gateway, stack):
    """The result of a look at one partition holds for no other one."""
    insert(url, outbox, "a1", topic="a")
    insert(url, outbox, "b1", topic="b")
    async with running(source(url, outbox, partition_column="topic"), gateway), querying(gateway, "s/*") as query:
        for topic in "ab":
            assert values(await query.batch(f"s/{topic}", 1)) == [f"{topic}1".encode()]
        await query.commit()
        late = await stack.enter_async_context(await connected(url))
        await late.execute("BEGIN")
        await late.execute(f"INSERT INTO {outbox} (topic, value) VALUES ('b', 'b2')")
        insert(url, outbox, "a2", topic="a")
        await late.execute(f"INSERT INTO {outbox} (topic, value) VALUES ('b', 'b3')")
        insert(url, outbox, "a3", topic="a")
        await late.execute("COMMIT")
        assert values(await query.batch("s/a", 2)) == [b"a2", b"a3"]
        assert values(await query.batch("s/b", 2)) == [b"b2", b"b3"]


async def test_a_value_that_cannot_name_a_stream_is_told(url, outbox):
    insert(url, outbox, "1", topic="a b")
    with pytest.raises(InvalidSource, match=r"'a b' in column topic cannot be the name of a partition"):
        await source(url, outbox, partition_column="topic").partitions()


async def test_ten_thousands_of_rows_are_deleted_in_portions(url, outbox, database, gateway):
    await database.execute(f"INSERT INTO {outbox} (topic, value) SELECT 'a', '' FROM generate_series(1, 25000)")
    stream = Stream(gateway, "s/0")
    async with running(source(url, outbox), gateway):
        await stream.attach()
        await stream.read(25_000)
        await stream.commit()
        await until_rows(database, f"SELECT WHERE NOT EXISTS (SELECT FROM {outbox})")
    await stream.close()


async def test_it_listens_again_after_a_lost_connection(url, outbox, database, gateway):
    stream = Stream(gateway, "s/0")
    async with running(source(url, outbox), gateway):
        await stream.attach()
        insert(url, outbox, "one")
        await stream.read(1)
        listening = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'headrace %' AND query LIKE 'LISTEN %'"
        await until_rows(database, f"{listening} AND state = 'idle'")
        ((pid,),) = await rows_of(database, listening)
        await database.execute(f"SELECT pg_terminate_backend({pid})")
        await until_rows(database, f"{listening} AND pid <> {pid} AND state = 'idle'")
        insert(url, outbox, "two")
        assert values(await stream.read(1)) == [b"two"]
    await stream.close()
