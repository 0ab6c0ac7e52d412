"""Tables with more partitions than a cursor can list: a sketch of them names about a hundred that have come or gone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.postgresql.rig import rows_of
from tests.connectors.postgresql.test_away import MOVES, code_of, divided, read, source

from headrace.connectors.postgresql.fingerprint import Fingerprint
from headrace.connectors.postgresql.sketch import Sketch
from headrace.sdk import InvalidSource, Position

MANY = 60
ADD = """
    DO $$ BEGIN
        FOR n IN {first}..{last} LOOP
            EXECUTE format('CREATE TABLE {schema}.p%s PARTITION OF {schema}.t FOR VALUES FROM (%s0) TO (%s0)', n, n, n + 1);
        END LOOP;
    END $$
"""


@pytest.fixture
def t(schema: str) -> str:
    return f"{schema}.t"


async def test_partitions_that_have_moved_are_named_or_their_number_is_too_large(url, database, schema, t, monkeypatch):
    # As if there were more than a thousand.
    monkeypatch.setattr("headrace.connectors.postgresql.fingerprint._ROOM", 1)
    await database.execute(f"CREATE SEQUENCE {schema}.numbers")
    number = f"id bigint NOT NULL DEFAULT nextval('{schema}.numbers')"
    await database.execute(f"CREATE TABLE {t} ({number}, v text) PARTITION BY RANGE (id)")
    await database.execute(f"ALTER SEQUENCE {schema}.numbers OWNED BY {t}.id")
    await database.execute(ADD.format(schema=schema, first=0, last=MANY - 1))
    await database.execute(f"INSERT INTO {t} (v) SELECT 'x' FROM generate_series(1, 25)")
    rows, cursor = await read(source(url, t))
    assert (len(rows), len(cursor or b"") <= 2500) == (25, True)
    assert len((await read(source(url, t), Position(sequence=12, cursor=cursor)))[0]) == 13

    await database.execute(f"ALTER TABLE {t} DETACH PARTITION {schema}.p2")
    with pytest.raises(InvalidSource, match=f"{schema}.p2 was detached from table {t} with rows up to 25") as raised:
        await read(source(url, t), Position(sequence=12, cursor=cursor))
    given = {"accept_changes": [await code_of(raised)]}
    assert [number for number, _ in (await read(source(url, t, **given), Position(sequence=12, cursor=cursor)))[0]] == list(
        range(13, 20)
    )
    await database.execute(f"ALTER TABLE {t} ATTACH PARTITION {schema}.p2 FOR VALUES FROM (20) TO (30)")
    assert len((await read(source(url, t), Position(sequence=12, cursor=cursor)))[0]) == 13

    await database.execute(ADD.format(schema=schema, first=MANY, last=MANY + 299))
    with pytest.raises(
        InvalidSource, match=f"more partitions of table {t} were attached or detached since it was read"
    ) as raised:
        await read(source(url, t), Position(sequence=12, cursor=cursor))
    given = {"accept_changes": [await code_of(raised)]}
    rows, cursor = await read(source(url, t, **given), Position(sequence=12, cursor=cursor))
    assert [number for number, _ in rows] == list(range(13, 26))
    # The next position tells of the partitions as they are now.
    await database.execute(f"INSERT INTO {t} (v) VALUES ('y')")
    assert [number for number, _ in (await read(source(url, t), Position(sequence=25, cursor=cursor)))[0]] == [26]


@pytest.mark.parametrize(("change", "message", "numbers"), MOVES)
async def test_a_sketch_leads_to_what_a_list_leads_to(url, database, schema, t, change, message, numbers, monkeypatch):
    monkeypatch.setattr("headrace.connectors.postgresql.fingerprint._ROOM", 1)
    await divided(database, schema, t)
    _, cursor = await read(source(url, t))
    for statement in change.format(s=schema).split("; "):
        await database.execute(statement)
    given: dict[str, object] = {}
    if message is not None:
        with pytest.raises(InvalidSource, match=f"(?i){message.format(s=schema)}") as raised:
            await read(source(url, t), Position(sequence=2, cursor=cursor))
        given = {"accept_changes": [await code_of(raised)]}
    assert [number for number, _ in (await read(source(url, t, **given), Position(sequence=2, cursor=cursor)))[0]] == numbers


async def test_an_error_lists_a_few_of_many_partitions(url, database, schema, t):
    await database.execute(f"CREATE SEQUENCE {schema}.numbers")
    number = f"id bigint NOT NULL DEFAULT nextval('{schema}.numbers')"
    await database.execute(f"CREATE TABLE {t} ({number}, v text) PARTITION BY RANGE (id)")
    await database.execute(f"ALTER SEQUENCE {schema}.numbers OWNED BY {t}.id")
    await database.execute(ADD.format(schema=schema, first=0, last=19))
    await database.execute(f"INSERT INTO {t} (v) SELECT 'x' FROM generate_series(1, 150)")
    _, cursor = await read(source(url, t))
    for n in range(11):
        await database.execute(f"ALTER TABLE {t} DETACH PARTITION {schema}.p{n}")
    with pytest.raises(InvalidSource, match=rf"{schema}.p7 was detached from table {t} with rows up to 79; and 3 more, and only"):
        await read(source(url, t), Position(sequence=2, cursor=cursor))
    assert len(await rows_of(database, f"SELECT FROM {t}")) == 41


IDS = st.integers(1, 2**32 - 1)


@given(start=IDS, count=st.integers(0, 500), gone=st.sets(st.integers(0, 499), max_size=40), came=st.sets(IDS, max_size=40))
def test_a_sketch_tells_what_has_come_and_gone(start, count, gone, came):
    now = frozenset(1 + (start + n) % (2**32 - 1) for n in range(count))
    earlier = frozenset(table for n, table in enumerate(sorted(now)) if n not in gone) | came
    sketch = Sketch.of(earlier)
    assert sketch.tables(now) == earlier
    assert Sketch.read(sketch.text()) == sketch
    assert len(sketch.text()) == 1920


@given(now=st.frozensets(IDS, max_size=50), start=IDS, count=st.integers(250, 500))
def test_a_sketch_tells_nothing_of_too_many(now, start, count):
    """There are 240 places, and none of them names two."""
    earlier = now ^ {1 + (start + n) % (2**32 - 1) for n in range(count)}
    assert Sketch.of(earlier).tables(now) in (None, earlier)


@pytest.mark.parametrize("text", ["", "?", "AAAA", "A" * 1921, "A" * 1924, 3])
def test_a_cursor_with_a_text_that_is_no_sketch_is_refused(text):
    cursor = json.dumps({"table": 1, "columns": "", "tables": text}).encode()
    with pytest.raises(ValueError, match="is no cursor of a table"):
        Fingerprint.read(cursor)
