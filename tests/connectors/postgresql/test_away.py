"""Changes of a table while no connector reads it: a position tells of the table, so the next run notices them."""

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.postgresql.rig import connected, entries, rows_of, until_rows

from headrace.connectors.postgresql import (
    PostgreSQLOutboxParameters,
    PostgreSQLOutboxSource,
    PostgreSQLParameters,
    PostgreSQLSource,
)
from headrace.connectors.postgresql.fingerprint import Fingerprint
from headrace.connectors.postgresql.sketch import Sketch
from headrace.connectors.postgresql.snapshot import Counted, Snapshot
from headrace.connectors.postgresql.table import Described
from headrace.sdk import InvalidSource, Position, PositionLost

NUMBERED = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"


@pytest.fixture
async def t(url: str, schema: str) -> str:
    return f"{schema}.t"


def source(url: str, table: str, **options: object) -> PostgreSQLSource:
    return PostgreSQLSource(PostgreSQLParameters(url=url, table=table, source="s", poll_seconds=0.02, **options))


def outbox(url: str, table: str, **options: object) -> PostgreSQLOutboxSource:
    return PostgreSQLOutboxSource(PostgreSQLOutboxParameters(url=url, table=table, source="s", poll_seconds=0.02, **options))


async def read(
    found: PostgreSQLSource | PostgreSQLOutboxSource, position: Position | None = None
) -> tuple[list[tuple[int, bytes | None]], bytes | None]:
    """Numbers and values of what is there after a position, and the cursor of the last one."""
    items, rows, cursor = found.read("0", position), [], None
    try:
        async for batch in items:
            if batch is None:
                break
            rows += list(zip(batch.sequences, entries(batch.values), strict=True))
            cursor = batch.cursor
    finally:
        await items.aclose()
    return rows, cursor


async def code_of(error: pytest.ExceptionInfo[InvalidSource]) -> str:
    found = re.search(r"set accept_changes to (\w+) and restart the connector", str(error.value))
    assert found
    return found[1]


@pytest.mark.behaviour(
    "postgresql",
    "a column that is added, dropped, renamed or retyped",
    "ends and names it, if messages are made of it and rows are left; `accept_changes` reads it as it is now",
)
@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ("ADD more int DEFAULT 5", {}, "column more was added"),
        ("DROP b", {}, "column b was dropped"),
        ("RENAME b TO c", {}, "column b was renamed to c"),
        ("ALTER a TYPE bigint", {}, "column a is of type bigint now, and was of type integer"),
        ("ALTER a TYPE bigint", {"columns": ["a"]}, "column a is of type bigint now"),
        ("ALTER b TYPE varchar(9)", {"value_column": "b"}, "column b is of type character varying(9) now"),
        ("ALTER b TYPE varchar(9)", {"columns": ["a"], "key_column": "b"}, "column b is of type character varying(9) now"),
        ("DROP b, ADD b text", {"columns": ["b"]}, "column b was dropped"),
        ("ALTER b TYPE varchar(9)", {"columns": ["a"], "where": "b <> 'x'"}, "column b is of type character varying(9) now"),
        ("ADD more int, DROP b", {"columns": ["a"]}, None),
        ("RENAME b TO c", {"value_column": "a"}, None),
        ("ALTER a SET DEFAULT 3, ADD CHECK (a > 0)", {}, None),
    ],
)
async def test_columns_that_have_changed_meanwhile_are_named(url, database, t, change, given, message):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, a int, b text)")
    await database.execute(f"INSERT INTO {t} (a, b) SELECT n, 'x' || n FROM generate_series(1, 5) AS n")
    before, cursor = await read(source(url, t, **given))
    position = Position(sequence=3, cursor=cursor)
    await database.execute(f"ALTER TABLE {t} {change}")
    if message is None:
        assert (await read(source(url, t, **given), position))[0] == before[3:]
        return
    with pytest.raises(InvalidSource, match=re.escape(message)) as raised:
        await read(source(url, t, **given), position)
    given = {**given, "accept_changes": ["00000000", await code_of(raised)]}
    rows, cursor = await read(source(url, t, **given), position)
    assert [number for number, _ in rows] == [4, 5]
    # The next position tells of the table as it is now, and another change is noticed again.
    await database.execute(f"ALTER TABLE {t} ALTER a TYPE numeric, ALTER b TYPE varchar(7)" if "b" not in change else "SELECT 1")
    if "b" not in change:
        with pytest.raises(InvalidSource, match=r"column . is of type (numeric|character varying\(7\)) now"):
            await read(source(url, t, **given), Position(sequence=4, cursor=cursor))


async def test_columns_that_parameters_name_and_that_are_gone_are_named(url, database, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, a int, b text)")
    await database.execute(f"INSERT INTO {t} (a) VALUES (1), (2)")
    _, cursor = await read(source(url, t, columns=["b"]))
    await database.execute(f"ALTER TABLE {t} DROP b")
    with pytest.raises(InvalidSource, match="has no column b"):
        await read(source(url, t, columns=["b"]), Position(sequence=1, cursor=cursor))
    # Other parameters read other columns: the user has chosen that.
    assert (await read(source(url, t, columns=["a"]), Position(sequence=1, cursor=cursor)))[0] == [(2, b'{"a":2}')]


@pytest.mark.parametrize("change", ["ADD more int DEFAULT 5", "RENAME a TO b", "ALTER a TYPE text", "DROP a"])
async def test_a_change_after_the_last_row_is_followed_from_the_next_one(url, database, t, change):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, a int)")
    await database.execute(f"INSERT INTO {t} (a) VALUES (1), (2)")
    _, cursor = await read(source(url, t))
    await database.execute(f"ALTER TABLE {t} {change}")
    running = source(url, t)
    items = running.read("0", Position(sequence=2, cursor=cursor))
    assert await anext(items) is None
    await database.execute(f"INSERT INTO {t} DEFAULT VALUES")
    while (batch := await anext(items)) is None:
        pass
    await items.aclose()
    wanted = {name: None for (name,) in await rows_of(database, f"SELECT attname FROM pg_attribute {columns_of(t)}")}
    wanted |= {"id": 3} | ({"more": 5} if "more" in wanted else {})
    assert [json.loads(value) for value in entries(batch.values)] == [wanted]
    # If the first of two rows is read again, the second one would be as before, which only the change can tell.
    with pytest.raises(InvalidSource, match="has changed since it was read"):
        await read(source(url, t), Position(sequence=1, cursor=cursor))


def columns_of(table: str) -> str:
    return f"WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"


@pytest.mark.behaviour(
    "postgresql",
    "a table that is made anew between two runs",
    "ends; `accept_changes` reads the new one",
)
async def test_another_table_with_the_same_name_is_noticed(url, database, t):
    create = f"CREATE TABLE {t} ({NUMBERED}); INSERT INTO {t} SELECT FROM generate_series(1, 5)"
    for make in (source, outbox):
        given = {} if make is source else {"value_column": "id", "acknowledged_rows": "keep"}
        await database.execute(f"DROP TABLE IF EXISTS {t}; {create}")
        _, cursor = await read(make(url, t, **given))
        await database.execute(f"DROP TABLE {t}; {create}")
        with pytest.raises(InvalidSource, match="is another one than the one that was read") as raised:
            await read(make(url, t, **given), Position(sequence=3, cursor=cursor))
        rows, _ = await read(make(url, t, **given, accept_changes=await code_of(raised)), Position(sequence=3, cursor=cursor))
        assert [number for number, _ in rows] == [4, 5]


@pytest.mark.behaviour(
    "postgresql",
    "`TRUNCATE`, or numbers that start over, between two runs",
    "loses the position, if seen rows are gone or the sequence has another state",
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("TRUNCATE {t} RESTART IDENTITY", "have started over"),
        ("TRUNCATE {t} RESTART IDENTITY; INSERT INTO {t} SELECT FROM generate_series(1, 9)", "may have started over"),
        ("ALTER TABLE {t} ALTER id RESTART; DELETE FROM {t}; INSERT INTO {t} SELECT FROM generate_series(1, 9)", "may have"),
        ("TRUNCATE {t}", "rows of table {t} after 3 and up to 5 are gone before they were read"),
        ("TRUNCATE {t}; INSERT INTO {t} DEFAULT VALUES", "rows of table {t} after 3 and up to 5 are gone"),
        ("SELECT setval('{t}_id_seq', 1)", "the last generated one is 1"),
        (
            "SELECT setval('{t}_id_seq', 1, false); DELETE FROM {t}; INSERT INTO {t} SELECT FROM generate_series(1, 9)",
            "row 3 was",
        ),
        ("TRUNCATE {t}; SELECT setval('{t}_id_seq', 2); INSERT INTO {t} SELECT FROM generate_series(1, 9)", "row 3 was inserted"),
        ("DELETE FROM {t} WHERE id > 3", "rows of table {t} after 3 and up to 5 are gone"),
        ("DELETE FROM {t} WHERE id <= 3", None),
        ("VACUUM FULL {t}", None),
        ("CLUSTER {t} USING t_pkey", None),
        ("SELECT setval('{t}_id_seq', 1000)", None),
    ],
)
async def test_a_table_that_was_emptied_meanwhile_is_noticed(url, database, t, change, message, monkeypatch):
    monkeypatch.setattr("headrace.connectors.postgresql.continuity._REPORTED_S", 0.0)
    await database.execute(f"CREATE TABLE {t} ({NUMBERED})")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 5)")
    _, cursor = await read(source(url, t))
    for statement in change.format(t=t).split("; "):
        await database.execute(statement)
    if message is None:
        assert [number for number, _ in (await read(source(url, t), Position(sequence=3, cursor=cursor)))[0]] == [4, 5]
    else:
        with pytest.raises(PositionLost, match=message.format(t=t)):
            await read(source(url, t), Position(sequence=3, cursor=cursor))


async def divided(database, schema: str, t: str) -> None:
    """A table of two partitions, and a column by which rows are divided."""
    await database.execute(f"CREATE SEQUENCE {schema}.numbers")
    number = f"id bigint NOT NULL DEFAULT nextval('{schema}.numbers')"
    await database.execute(f"CREATE TABLE {t} ({number}, v text) PARTITION BY LIST (v)")
    await database.execute(f"ALTER SEQUENCE {schema}.numbers OWNED BY {t}.id; CREATE INDEX ON {t} (id)")
    for part in "ab":
        await database.execute(f"CREATE TABLE {schema}.{part} PARTITION OF {t} FOR VALUES IN ('{part}')")
    await database.execute(f"INSERT INTO {t} (v) VALUES ('a'), ('b'), ('a'), ('b'), ('a')")


ATTACHED = "CREATE TABLE {s}.c (id bigint NOT NULL, v text); INSERT INTO {s}.c VALUES ({n}, 'c'); "
ATTACHED += "ALTER TABLE {s}.t ATTACH PARTITION {s}.c FOR VALUES IN ('c')"
MOVES = [
    ("ALTER TABLE {s}.t DETACH PARTITION {s}.b", "{s}.b was detached from table {s}.t with rows up to 4", [3, 5]),
    ("ALTER TABLE {s}.t DETACH PARTITION {s}.b CONCURRENTLY", "{s}.b was detached from table {s}.t with rows up to 4", [3, 5]),
    ("DELETE FROM {s}.b; ALTER TABLE {s}.t DETACH PARTITION {s}.b", None, [3, 5]),
    (ATTACHED.replace("{n}", "2"), "{s}.c was attached to table {s}.t with rows from 2 on", [3, 4, 5]),
    ("SELECT setval('{s}.numbers', 7); " + ATTACHED.replace("{n}", "7"), None, [3, 4, 5, 7]),
    ("CREATE TABLE {s}.c PARTITION OF {s}.t FOR VALUES IN ('c'); INSERT INTO {s}.t (v) VALUES ('c')", None, [3, 4, 5, 6]),
    ("TRUNCATE {s}.b", None, [3, 5]),
]


@pytest.mark.behaviour(
    "postgresql",
    "`ATTACH` or `DETACH PARTITION`",
    "continues, or ends and names the partition if its rows would be missed; `accept_changes` leaves them out",
)
@pytest.mark.parametrize(("change", "message", "numbers"), MOVES)
async def test_partitions_that_have_moved_meanwhile_are_named(url, database, schema, t, change, message, numbers):
    await divided(database, schema, t)
    _, cursor = await read(source(url, t))
    for statement in change.format(s=schema).split("; "):
        await database.execute(statement)
    given: dict[str, object] = {}
    if message is not None:
        with pytest.raises(InvalidSource, match=message.format(s=schema)) as raised:
            await read(source(url, t), Position(sequence=2, cursor=cursor))
        given = {"accept_changes": [await code_of(raised)]}
    assert [number for number, _ in (await read(source(url, t, **given), Position(sequence=2, cursor=cursor)))[0]] == numbers


@pytest.mark.behaviour(
    "postgresql",
    "`ATTACH` or `DETACH PARTITION`",
    "continues, or ends and names the partition if its rows would be missed; `accept_changes` leaves them out",
)
@pytest.mark.parametrize(("change", "message", "numbers"), MOVES)
async def test_partitions_that_move_between_two_pages_are_named(url, database, schema, t, change, message, numbers, monkeypatch):
    await divided(database, schema, t)
    monkeypatch.setattr("headrace.connectors.postgresql.reading._FIRST_ROWS", 2)
    found: list[int] = []
    items = source(url, t).read("0", None)
    batch = await anext(items)
    found += batch.sequences
    assert found == [1, 2]
    for statement in change.format(s=schema).split("; "):
        await database.execute(statement)
    if message is None:
        while (batch := await anext(items)) is not None:
            found += batch.sequences
        assert found == [1, 2, *numbers]
    else:
        with pytest.raises(InvalidSource, match=message.format(s=schema)):
            await anext(items)
    await items.aclose()


async def test_a_detach_that_waits_for_others_is_noticed(url, database, schema, t):
    """DETACH CONCURRENTLY hides the rows first, and ends when all older transactions have."""
    await divided(database, schema, t)
    _, cursor = await read(source(url, t))
    async with await connected(url) as older, await connected(url) as detaching:
        async with older.transaction():
            await older.execute(f"SELECT FROM {t}")
            task = asyncio.create_task(detaching.execute(f"ALTER TABLE {t} DETACH PARTITION {schema}.b CONCURRENTLY"))
            await until_rows(database, f"SELECT FROM pg_inherits WHERE inhrelid = '{schema}.b'::regclass AND inhdetachpending")
            with pytest.raises(InvalidSource, match=f"{schema}.b was detached from table {t} with rows up to 4"):
                await read(source(url, t), Position(sequence=2, cursor=cursor))
        await task


async def test_a_cursor_of_another_connector_is_refused(url, database, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED})")
    with pytest.raises(InvalidSource, match=r"is no cursor of a table.* Give the stream another name"):
        await read(source(url, t), Position(sequence=3, cursor=b"17"))


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=63)
COUNTS = st.integers(0, 2**63 - 1)
COLUMNS = st.lists(st.builds(Described, st.integers(1, 1600), NAMES, NAMES), max_size=400, unique_by=lambda c: c.number)


@given(
    table=st.integers(1, 2**32 - 1),
    columns=COLUMNS.map(tuple) | st.text("0123456789abcdef", min_size=8, max_size=8),
    complete=st.booleans(),
    generator=st.none() | st.integers(1, 2**32 - 1),
    others=st.frozensets(st.integers(1, 2**32 - 1), max_size=100),
    sketched=st.booleans(),
    newest=st.integers(0, 2**63 - 1),
    snapshot=st.none() | st.builds(Snapshot, COUNTS, COUNTS, st.builds(Counted, COUNTS, COUNTS)),
)
def test_a_fingerprint_is_read_as_it_was_written(table, columns, complete, generator, others, sketched, newest, snapshot):
    tables = Sketch.of(others | {table}) if sketched else others | {table}
    written = Fingerprint(table, columns, complete, generator, tables, newest, snapshot)
    assert Fingerprint.read(written.cursor()) == written


async def test_a_cursor_of_a_wide_table_with_many_partitions_has_room(url, database, schema, t):
    wide = ", ".join(f"column_{number:04d}_with_a_name_that_is_as_long_as_names_may_be_at_most int" for number in range(300))
    await database.execute(f"CREATE SEQUENCE {schema}.numbers")
    number = f"id bigint NOT NULL DEFAULT nextval('{schema}.numbers')"
    await database.execute(f"CREATE TABLE {t} ({number}, {wide}) PARTITION BY RANGE (id)")
    await database.execute(f"ALTER SEQUENCE {schema}.numbers OWNED BY {t}.id")
    for n in range(20):
        await database.execute(f"CREATE TABLE {schema}.p{n} PARTITION OF {t} FOR VALUES FROM ({100 * n}) TO ({100 * n + 100})")
    await database.execute(f"INSERT INTO {t} DEFAULT VALUES; INSERT INTO {t} DEFAULT VALUES")
    _, cursor = await read(source(url, t))
    assert len(cursor or b"") <= 4096
    assert len((await read(source(url, t), Position(sequence=1, cursor=cursor)))[0]) == 1
    await database.execute(f"ALTER TABLE {t} ADD more int")
    with pytest.raises(InvalidSource, match="its columns are others, or of other types"):
        await read(source(url, t), Position(sequence=1, cursor=cursor))
