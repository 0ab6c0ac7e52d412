"""Numbers that are drawn again after a smaller `setval`, and what looks alike, while no connector reads the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.postgresql.rig import rows_of, until_rows
from tests.connectors.postgresql.test_away import NUMBERED, outbox, read, source

from headrace.connectors.postgresql.snapshot import Counted, Snapshot
from headrace.sdk import Position, PositionLost

FOUND = r"row \d+ was inserted after rows up to \d+ had been read, as happens after setval to a smaller number"


@pytest.fixture
def t(schema: str) -> str:
    return f"{schema}.t"


@pytest.fixture(autouse=True)
def reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests wait until updates are reported, where there are some."""
    monkeypatch.setattr("headrace.connectors.postgresql.continuity._REPORTED_S", 0.0)


@pytest.mark.parametrize("before", [1, 2, 40])
async def test_rows_that_were_drawn_again_are_noticed_in_an_outbox_and_in_partitions(url, database, schema, t, before):
    """Rows before the position are gone, as in an outbox, and in the end larger numbers exist than before."""
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value text) ")
    await database.execute(f"INSERT INTO {t} (value) SELECT 'x' FROM generate_series(1, 50)")
    rows, cursor = await read(outbox(url, t, acknowledged_rows="keep"))
    assert len(rows) == 50
    for statement in (
        f"DELETE FROM {t}",
        f"SELECT setval('{t}_id_seq', {before})",
        f"INSERT INTO {t} (value) SELECT 'y' FROM generate_series(1, 70)",
    ):
        await database.execute(statement)
    with pytest.raises(PositionLost, match=FOUND):
        await read(outbox(url, t, acknowledged_rows="keep"), Position(sequence=50, cursor=cursor))
    # A query that accepts the loss has no cursor, and the next one is of the rows as they are now.
    rows, cursor = await read(outbox(url, t, acknowledged_rows="keep"), Position(sequence=50))
    assert [number for number, _ in rows] == list(range(51, before + 71))
    assert await read(outbox(url, t, acknowledged_rows="keep"), Position(sequence=before + 70, cursor=cursor)) == ([], None)


async def test_numbers_that_are_drawn_again_while_a_connection_is_lost_are_noticed(url, database, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED})")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 5)")
    items = source(url, t).read("0", None)
    while await anext(items) is not None:
        pass
    await database.execute(f"DELETE FROM {t}")
    await database.execute(f"SELECT setval('{t}_id_seq', 1)")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 9)")
    ended = (
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'headrace postgresql source s'"
    )
    assert await rows_of(database, ended) == [(True,)]
    with pytest.raises(PositionLost, match=FOUND):
        await anext(items)
    await items.aclose()


@pytest.mark.parametrize(
    "changes",
    [
        ["ALTER TABLE {t} ALTER other TYPE bigint"],
        ["ALTER TABLE {t} ALTER other TYPE bigint", "ALTER TABLE {t} RENAME other TO later"],
        ["ALTER TABLE {t} ADD random float DEFAULT random()"],
        ["VACUUM (FULL, FREEZE) {t}"],
        ["DELETE FROM {t} WHERE id IN (2, 3)", "INSERT INTO {t} (other) VALUES (1)"],
        ["DELETE FROM {t}", "INSERT INTO {t} (other) VALUES (1)"],
    ],
)
async def test_rows_that_are_written_anew_or_deleted_are_no_new_ones(url, database, t, changes):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, other int)")
    await database.execute(f"INSERT INTO {t} (other) SELECT n FROM generate_series(1, 3) AS n")
    _, cursor = await read(source(url, t, columns=["id"]))
    for change in changes:
        await database.execute(change.format(t=t))
    await database.execute(f"INSERT INTO {t} DEFAULT VALUES")
    rows, _ = await read(source(url, t, columns=["id"]), Position(sequence=3, cursor=cursor))
    assert [number for number, _ in rows] == [row for (row,) in await rows_of(database, f"SELECT id FROM {t} WHERE id > 3")]


async def test_a_row_that_was_updated_after_it_was_read_is_no_new_one(url, database, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, v text)")
    await database.execute(f"INSERT INTO {t} (v) VALUES ('a'), ('b')")
    _, cursor = await read(source(url, t))
    await database.execute(f"UPDATE {t} SET v = 'sent'")
    await database.execute(f"INSERT INTO {t} (v) VALUES ('c')")
    # A session reports at the end of a later transaction, or once it has been idle for ten seconds.
    await until_rows(database, f"SELECT FROM pg_class WHERE oid = '{t}'::regclass AND pg_stat_get_tuples_updated(oid) = 2")
    assert [number for number, _ in (await read(source(url, t), Position(sequence=2, cursor=cursor)))[0]] == [3]


async def test_a_position_after_the_rows_of_its_cursor_tells_of_these_only(url, database, t):
    """A frame that is cut has the cursor of the one before."""
    await database.execute(f"CREATE TABLE {t} ({NUMBERED})")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 2)")
    _, cursor = await read(source(url, t))
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 3)")
    rows, _ = await read(source(url, t), Position(sequence=4, cursor=cursor))
    assert [number for number, _ in rows] == [5]


IDS = st.integers(3, 2**40)


@given(xmin=IDS, read_at=IDS, now=IDS)
def test_a_transaction_is_later_whatever_part_of_its_id_a_row_has(xmin, read_at, now):
    snapshot = Snapshot(1, read_at, Counted(0, 0))
    visible = max(0, now - 2**32) < xmin < now
    if visible and 0 <= now - read_at < 2**31 and xmin % 2**32 >= 3:
        assert snapshot.is_before(xmin % 2**32, now) == (xmin >= read_at)
    elif now - read_at >= 2**31 or now < read_at:
        assert not snapshot.is_before(xmin % 2**32, now)


@pytest.mark.parametrize(
    ("inserted", "updated", "possible"), [(10, 4, False), (12, 4, False), (12, 5, True), (3, 4, True), (3, 0, True)]
)
def test_rows_may_be_updated_ones_if_any_were_or_counters_have_started_over(inserted, updated, possible):
    assert Snapshot(1, 3, Counted(10, 4)).may_be_updates(Counted(inserted, updated)) is possible
