"""The source of a table, on a real server: every row that is ever committed, once and in order."""

import asyncio
import json
import logging
import random
from datetime import UTC, datetime

import pytest
from psycopg import AsyncConnection
from tests.connectors.postgresql.rig import (
    DEADLINE_S,
    SETTINGS,
    Stream,
    connected,
    in_database,
    running,
    sequences,
    until,
    values,
)
from tests.gateway.wire import serve

from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource, reading
from headrace.gateway.config import Limits
from headrace.sdk import InvalidSource, MessageTooLarge, Position, PositionLost
from headrace.sdk import serve as serve_source

NUMBERED = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"


def source(url: str, table: str, **options: object) -> PostgreSQLSource:
    given = {"value_column": "value", "poll_seconds": 0.02, "timeout_seconds": 1, **options}
    return PostgreSQLSource(PostgreSQLParameters(url=url, table=table, source="s", **given))


async def read_all(found: PostgreSQLSource, position: Position | None = None) -> list[tuple[int, bytes | None]]:
    """What there is now, by sequence."""
    rows: list[tuple[int, bytes | None]] = []
    items = found.read("0", position)
    async for batch in items:
        if batch is None:
            break
        data, at = batch.values.data, 0
        for sequence, length in zip(batch.sequences, batch.values.lengths, strict=True):
            rows.append((sequence, None if length == 0xFFFFFFFF else data[at : at + length]))
            at += 0 if length == 0xFFFFFFFF else length
    await items.aclose()
    return rows


# Rows


async def test_rows_are_streamed_committed_and_gone_on_with(url, table, gateway):
    in_database(url, f"CREATE TABLE {table} ({NUMBERED}, value text)")
    in_database(url, f"INSERT INTO {table} (value) SELECT 'v' || n FROM generate_series(1, 20000) n")
    stream = Stream(gateway, "s/0")
    async with running(source(url, table), gateway):
        await stream.attach()
        found = await stream.read(20_000)
        assert values(found) == [b"v%d" % n for n in range(1, 20_001)]
        assert sequences(found) == list(range(1, 20_001))
        await stream.commit()
        in_database(url, f"INSERT INTO {table} (value) VALUES ('more')")
        assert values(await stream.read(1)) == [b"more"]
    await stream.close()
    again = Stream(gateway, "s/0", name="again")
    async with running(source(url, table), gateway):
        await again.attach(committed=19_999)
        assert values(await again.read(2)) == [b"v20000", b"more"]
    await again.close()


async def test_a_row_is_a_json_object_with_key_and_event_time(url, table, database, gateway):
    await database.execute(
        f"CREATE TABLE {table} ({NUMBERED}, customer int, amount numeric(10, 2), note text, raw bytea, at timestamptz, h jsonb)"
    )
    await database.execute(
        f"""INSERT INTO {table} (customer, amount, note, raw, at, h) VALUES
        (7, 1.50, 'ä"', '\\x00ff', '2024-02-29 12:00:00.000001+00',
            '{{"a": "b", "n": null, "o": [1], "t": true, "f": 1.5, "p": {{"q": 2}}}}'),
        (NULL, NULL, NULL, NULL, 'infinity', NULL),
        (8, NULL, NULL, NULL, '-infinity', '{{}}'), (9, NULL, NULL, NULL, NULL, NULL)"""
    )
    given = source(url, table, value_column=None, key_column="customer", event_time_column="at", headers_column="h")
    stream = Stream(gateway, "s/0")
    async with running(given, gateway):
        await stream.attach()
        first, *rest = await stream.read(4)
    assert json.loads(first.value) == {
        "id": 1,
        "customer": 7,
        "amount": 1.5,
        "note": 'ä"',
        "raw": "\\x00ff",
        "at": "2024-02-29T12:00:00.000001+00:00",
        "h": {"a": "b", "n": None, "o": [1], "t": True, "f": 1.5, "p": {"q": 2}},
    }
    assert first.key == b"7"
    assert first.event_time == int(datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp()) * 1_000_000 + 1
    assert dict(first.headers) == {"a": b"b", "n": None, "o": b"[1]", "t": b"true", "f": b"1.5", "p": b'{"q": 2}'}
    assert [(message.key, message.event_time, message.headers) for message in rest] == [
        (None, None, None),
        (b"8", None, None),
        (b"9", None, None),
    ]
    await stream.close()


async def test_columns_and_a_condition(url, table, database):
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, a text, b int)")
    await database.execute(f"INSERT INTO {table} (a, b) VALUES ('50% off', 1), ('60% off', 2), ('free', 3)")
    given = source(url, table, value_column=None, columns=("b", "a"), where="a LIKE '% off'")
    assert await read_all(given) == [(1, b'{"b":1,"a":"50% off"}'), (2, b'{"b":2,"a":"60% off"}')]


async def test_values_of_every_size(url, table, database, gateway):
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, key bytea, value bytea)")
    rows = [(b"", b""), (None, None), (b"\x00\xff", b"x"), (b"k", random.Random(1).randbytes(1 << 20)), (b"k", b"y")] * 3
    async with database.cursor() as cursor:
        await cursor.executemany(f"INSERT INTO {table} (key, value) VALUES (%s, %s)", rows)
    stream = Stream(gateway, "s/0")
    async with running(source(url, table, key_column="key"), gateway):
        await stream.attach()
        assert [(message.key, message.value) for message in await stream.read(len(rows))] == rows
    await stream.close()


async def test_a_value_above_the_limit_names_its_row(url, table, database):
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, value bytea)")
    await database.execute(f"INSERT INTO {table} (value) VALUES ('small'), (convert_to(repeat('x', 70000), 'UTF8'))")
    async with serve(Limits(max_frame_bytes=65536)) as (_, address):
        stream = Stream(address, "s/0")
        task = asyncio.create_task(serve_source(source(url, table), gateway=address, settings=SETTINGS))
        await stream.attach()
        assert values(await stream.read(1)) == [b"small"]
        with pytest.raises(MessageTooLarge, match=r"stream s/0: message 2 makes a frame of 70\d\d\d bytes"):
            await asyncio.wait_for(task, DEADLINE_S)
        await stream.close()


async def test_numbers_may_have_gaps_of_any_width_and_other_types(url, table, database):
    await database.execute(f"CREATE TABLE {table} (n serial PRIMARY KEY, value text)")
    await database.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (5, 'c'), (2147483647, 'd')")
    given = source(url, table, sequence_column="n", hold_back="transactions")
    await database.execute(f"SELECT setval('{table}_n_seq', 2147483647)")
    assert await read_all(given) == [(1, b"a"), (2, b"b"), (5, b"c"), (2**31 - 1, b"d")]
    assert await read_all(given, Position(sequence=3)) == [(5, b"c"), (2**31 - 1, b"d")]


async def test_a_partitioned_table(url, table, database):
    await database.execute(
        f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY, region text, value text) PARTITION BY LIST (region)"
    )
    await database.execute(f"CREATE TABLE {table}_a PARTITION OF {table} FOR VALUES IN ('a')")
    await database.execute(f"CREATE TABLE {table}_b PARTITION OF {table} FOR VALUES IN ('b')")
    await database.execute(f"INSERT INTO {table} (region, value) VALUES ('a', '1'), ('b', '2'), ('a', '3')")
    assert await read_all(source(url, table)) == [(1, b"1"), (2, b"2"), (3, b"3")]


# Transactions that commit late


@pytest.fixture
async def numbered(url, table, database):
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, value text)")
    return f"INSERT INTO {table} (value) VALUES (%s)"


async def begun(url, stack, insert, value) -> AsyncConnection:
    """A transaction that has inserted a row."""
    writer = await stack.enter_async_context(await connected(url))
    await writer.execute("BEGIN")
    await writer.execute(insert, (value,))
    return writer


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "PREPARE", "ROLLBACK TO SAVEPOINT s"])
async def test_a_row_that_commits_late_is_not_skipped(url, table, numbered, gateway, stack, ending):
    stream = Stream(gateway, "s/0")
    async with running(source(url, table), gateway):
        await stream.attach()
        in_database(url, f"INSERT INTO {table} (value) VALUES ('first')")
        assert values(await stream.read(1)) == [b"first"]
        late = await stack.enter_async_context(await connected(url))
        await late.execute("BEGIN")
        await late.execute("SAVEPOINT s")
        await late.execute(numbered, ("late",))
        in_database(url, f"INSERT INTO {table} (value) VALUES ('early')")
        await stream.nothing()
        if ending == "PREPARE":
            await late.execute("PREPARE TRANSACTION 'late'")
            await stream.nothing()
            await late.execute("COMMIT PREPARED 'late'")
        else:
            await late.execute(ending)
            if ending.startswith("ROLLBACK TO"):
                # Locks taken since the savepoint are released with it.
                assert values(await stream.read(1)) == [b"early"]
                await late.execute("COMMIT")
                await stream.close()
                return
        expected = [b"early"] if ending == "ROLLBACK" else [b"late", b"early"]
        assert values(await stream.read(len(expected))) == expected
        await stream.nothing()
    await stream.close()


async def test_who_only_changes_other_rows_holds_back_nothing(url, table, numbered, gateway, stack):
    in_database(url, f"INSERT INTO {table} (value) VALUES ('a'), ('b')")
    pruning = await stack.enter_async_context(await connected(url))
    await pruning.execute("BEGIN")
    await pruning.execute(f"UPDATE {table} SET value = 'c' WHERE value = 'a'")
    stream = Stream(gateway, "s/0")
    async with running(source(url, table), gateway):
        await stream.attach()
        assert values(await stream.read(2)) == [b"a", b"b"]
        in_database(url, f"INSERT INTO {table} (value) VALUES ('d')")
        assert values(await stream.read(1)) == [b"d"]
    await stream.close()


@pytest.mark.parametrize("ending", ["COMMIT", "PREPARE TRANSACTION 'left'"])
async def test_who_holds_rows_back_for_long_is_named(url, table, numbered, gateway, stack, monkeypatch, caplog, ending):
    monkeypatch.setattr(reading, "_HELD_REPORT_S", 0.0)
    caplog.set_level(logging.WARNING)
    late = await begun(url, stack, numbered, "late")
    whose = "a prepared transaction" if "PREPARE" in ending else f"process {late.info.backend_pid}"
    if "PREPARE" in ending:
        await late.execute(ending)
    in_database(url, f"INSERT INTO {table} (value) VALUES ('early')")
    stream = Stream(gateway, "s/0")
    async with running(source(url, table), gateway):
        await stream.attach()
        await until(lambda: f"after 0 are held back for transactions that have not ended: {whose}" in caplog.text)
        # Health names them, and not the stream that sends nothing meanwhile.
        await stream.engine.status_once(lambda status: "after 0 are held back" in status.sessions[0].reported.reason)
        await late.execute("COMMIT PREPARED 'left'" if "PREPARE" in ending else ending)
        assert values(await stream.read(2)) == [b"late", b"early"]
    await stream.close()


async def test_a_long_transaction_that_does_not_write_to_the_table_holds_back_nothing(url, table, numbered, gateway, stack):
    reader = await stack.enter_async_context(await connected(url))
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await reader.execute("SELECT pg_current_xact_id()")
    await reader.execute(f"SELECT count(*) FROM {table}")
    gone = await begun(url, stack, numbered, "rolled back")
    await gone.execute("ROLLBACK")
    in_database(url, f"INSERT INTO {table} (value) VALUES ('a')")
    stream = Stream(gateway, "s/0")
    async with running(source(url, table), gateway):
        await stream.attach()
        assert values(await stream.read(1)) == [b"a"]
    await stream.close()


async def test_a_number_that_was_drawn_before_its_insert_is_waited_for(url, table, numbered, gateway, stack):
    stream = Stream(gateway, "s/0")
    late = await stack.enter_async_context(await connected(url))
    async with running(source(url, table, hold_back="transactions"), gateway):
        await stream.attach()
        await late.execute("BEGIN")
        (drawn,) = await (await late.execute(f"SELECT nextval(pg_get_serial_sequence('{table}', 'id'))")).fetchone()
        in_database(url, f"INSERT INTO {table} (value) VALUES ('early')")
        await stream.nothing()
        await late.execute(f"INSERT INTO {table} (id, value) OVERRIDING SYSTEM VALUE VALUES (%s, 'late')", (drawn,))
        await late.execute("COMMIT")
        assert values(await stream.read(2)) == [b"late", b"early"]
    await stream.close()


@pytest.mark.parametrize("hold_back", ["writers", "transactions"])
async def test_many_writers_that_commit_and_roll_back_in_any_order(url, table, numbered, gateway, stack, hold_back):
    stream, committed, chance = Stream(gateway, "s/0"), set(), random.Random(7)

    async def write(writer: int) -> None:
        connection = await stack.enter_async_context(await connected(url))
        for n in range(40):
            rows = [f"{writer} {n} {k}" for k in range(chance.randint(1, 4))]
            await connection.execute("BEGIN")
            for row in rows:
                await connection.execute(numbered, (row,))
                await asyncio.sleep(chance.choice((0, 0, 0, 0.005)))
            keep = chance.random() < 0.8
            await connection.execute("COMMIT" if keep else "ROLLBACK")
            committed.update(rows if keep else ())

    async with running(source(url, table, hold_back=hold_back), gateway):
        await stream.attach()
        writers = [asyncio.create_task(write(writer)) for writer in range(6)]
        while not all(writer.done() for writer in writers) or len(stream.messages) < len(committed):
            # The last transactions may all be rolled back.
            await stream.look()
            await stream.commit()
        await asyncio.gather(*writers)
        await stream.nothing()
    found = [value.decode() for value in values(stream.messages)]
    assert sorted(found) == sorted(committed)
    assert sequences(stream.messages) == sorted(sequences(stream.messages))
    await stream.close()


# What is refused, and what is lost


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id bigint PRIMARY KEY, value text", {}, "column id has no default that draws from a sequence"),
        (
            "id bigint GENERATED ALWAYS AS IDENTITY (CACHE 20), value text",
            {},
            "do not increase from row to row. Run ALTER SEQUENCE",
        ),
        ("id text PRIMARY KEY, value text", {}, "column id is of type text, but a sequence column must be of an integer type"),
        ("id bigserial PRIMARY KEY, value text", {"sequence_column": "idd"}, "has no column idd; did you mean id?"),
        ("id bigserial PRIMARY KEY, value text", {"event_time_column": "value"}, "column value is of type text, and timestamp"),
        ("id bigserial PRIMARY KEY, value text", {"where": "nothing > 1"}, 'column "nothing" does not exist'),
    ],
)
async def test_a_table_that_cannot_be_read_safely_is_refused(url, table, columns, options, message):
    in_database(url, f"CREATE TABLE {table} ({columns})")
    in_database(url, f"INSERT INTO {table} VALUES ({'7' if 'ALWAYS' not in columns else 'DEFAULT'}, 'x')")
    with pytest.raises(InvalidSource) as raised:
        await read_all(source(url, table, **options))
    assert message in str(raised.value)


async def test_a_table_that_is_not_there_and_a_view_are_refused(url, table, database):
    with pytest.raises(InvalidSource, match=f"there is no table {table}"):
        await read_all(source(url, table))
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, value text)")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("VIEW {other} AS SELECT * FROM {table}", r"is a view, not a table; name the table that it selects from: \w+\.{table}"),
        ("MATERIALIZED VIEW {other} AS SELECT * FROM {table}", r"is a materialized view, not a table; .*: \w+\.{table}"),
        ("SEQUENCE {other} OWNED BY {table}.id", r"is a sequence, not a table; name the table whose .*: \w+\.{table}"),
        ("INDEX {other} ON {table} (value)", r"is an index, not a table; name its table: \w+\.{table}"),
        ("TYPE {other} AS (n int)", "is a type, not a table; name a table with columns of it"),
        ("TYPE {other} AS ENUM ('a')", "is a type, not a table"),
        ("DOMAIN {other} AS int", "is a type, not a table"),
    ],
)
async def test_what_is_no_table_is_named_with_what_to_name_instead(url, schema, database, made, told):
    table, other = f"{schema}.rows", f"{schema}.other"
    await database.execute(f"CREATE TABLE {table} ({NUMBERED}, value text)")
    await database.execute("CREATE " + made.format(table=table, other=other if "INDEX" not in made else "other"))
    with pytest.raises(InvalidSource, match=told.format(table="rows")):
        await read_all(source(url, other))


async def test_a_foreign_table_is_named_with_what_to_do(url, schema, database):
    await database.execute(f"CREATE FOREIGN DATA WRAPPER {schema}; CREATE SERVER {schema} FOREIGN DATA WRAPPER {schema}")
    try:
        await database.execute(f"CREATE FOREIGN TABLE {schema}.far (id bigint) SERVER {schema}")
        with pytest.raises(InvalidSource, match="is a foreign table, not a table; run the connector at the database"):
            await read_all(source(url, f"{schema}.far"))
    finally:
        await database.execute(f"DROP FOREIGN DATA WRAPPER {schema} CASCADE")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE {0}", 'there is no table "public"."{0}"'),
        ("ALTER TABLE {0} RENAME value TO text; INSERT INTO {0} DEFAULT VALUES", "column value was renamed to text"),
        ("ALTER TABLE {0} RENAME id TO number", "column id was renamed to number"),
        ("REVOKE SELECT ON {0} FROM {0}", "permission denied for table {0}"),
    ],
)
async def test_a_table_that_changes_while_it_is_read_ends_the_connector(url, table, numbered, gateway, change, message):
    in_database(url, f"INSERT INTO {table} (value) VALUES ('a')", f"CREATE ROLE {table} LOGIN PASSWORD 'secret'")
    try:
        in_database(url, f"GRANT SELECT ON {table} TO {table}")
        stream = Stream(gateway, "s/0")
        reading = source(url.replace("headrace:headrace", f"{table}:secret"), table)
        task = asyncio.create_task(serve_source(reading, gateway=gateway, settings=SETTINGS))
        await stream.attach()
        assert values(await stream.read(1)) == [b"a"]
        in_database(url, change.format(table))
        with pytest.raises(InvalidSource) as raised:
            await asyncio.wait_for(task, DEADLINE_S)
        assert str(raised.value).startswith("stream s/0: PostgreSQL at 127.0.0.1:")
        assert message.format(table) in str(raised.value)
        await stream.close()
    finally:
        in_database(url, f"DROP OWNED BY {table}", f"DROP ROLE {table}")


async def test_numbers_below_one_are_refused(url, table, database):
    await database.execute(f"CREATE TABLE {table} (id bigserial, value text)")
    await database.execute(f"INSERT INTO {table} VALUES (0, 'x')")
    with pytest.raises(InvalidSource, match="has a row with id 0, and sequences begin at 1"):
        await read_all(source(url, table))


async def test_numbers_that_begin_again_lose_the_position(url, table, database, numbered):
    await database.execute(f"INSERT INTO {table} (value) SELECT 'x' FROM generate_series(1, 5)")
    await database.execute(f"TRUNCATE {table} RESTART IDENTITY")
    await database.execute(numbered, ("new",))
    with pytest.raises(PositionLost, match="the last generated one is 1, but rows up to 5 have been read"):
        await read_all(source(url, table), Position(sequence=5))


async def test_rows_that_were_deleted_before_they_were_read(url, table, database, numbered):
    await database.execute(f"INSERT INTO {table} (value) SELECT 'x' || n FROM generate_series(1, 9) n")
    await database.execute(f"DELETE FROM {table} WHERE id < 5")
    detecting = source(url, table, detect_deleted=True)
    assert [number for number, _ in await read_all(source(url, table), Position(sequence=2))] == [5, 6, 7, 8, 9]
    assert [number for number, _ in await read_all(detecting, Position(sequence=5))] == [6, 7, 8, 9]
    with pytest.raises(PositionLost, match=r"begins at id 5: rows after 2 may have been deleted") as raised:
        await read_all(detecting, Position(sequence=2))
    assert raised.value.earliest == 5
    await database.execute(f"DELETE FROM {table}")
    with pytest.raises(PositionLost, match="is empty"):
        await read_all(detecting, Position(sequence=9))
