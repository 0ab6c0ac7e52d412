"""What is found in the wild: odd names, types with a length, settings of roles, bad rows among good ones, large rows, and DDL."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from psycopg import sql
from tests.connectors.postgresql.rig import coming, in_database, messages, read_once, rows_of, write

from headrace.connectors._dead_letters import DeadLetter, dead_letters
from headrace.connectors.postgresql import (
    PostgreSQLOutboxParameters,
    PostgreSQLOutboxSource,
    PostgreSQLParameters,
    PostgreSQLSink,
    PostgreSQLSinkParameters,
    PostgreSQLSource,
    PostgreSQLUpsertParameters,
    PostgreSQLUpsertSink,
)
from headrace.sdk import InvalidMessage, InvalidSink, InvalidSource, Message, Part, PositionLost, Refused, Transaction

NUMBERED = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
BATCHES = [Transaction("p", number) for number in range(9)]
WORDS = ["members", "message", "found", "packed", "record", "value", "key", "size", "select"]
ODD = [*WORDS, "a b", 'q"q', "50%s", "$headrace$", "é" * 31]


def parts_of(transaction: Transaction, count: int = 1) -> list[Part]:
    return [Part(transaction, number, "a") for number in range(count)]


def source(url: str, table: str, **options: object) -> PostgreSQLSource:
    return PostgreSQLSource(PostgreSQLParameters(url=url, table=table, source="s", poll_seconds=0.02, **options))


def outbox(url: str, table: str, **options: object) -> PostgreSQLOutboxSource:
    return PostgreSQLOutboxSource(PostgreSQLOutboxParameters(url=url, table=table, source="s", poll_seconds=0.02, **options))


@pytest.fixture
async def t(url: str, schema: str) -> str:
    return f"{schema}.t"


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


# Names


@pytest.mark.parametrize("column", ODD)
async def test_a_column_may_have_any_name(url, database, t, column):
    create = sql.SQL("CREATE TABLE {} ({}, {} int)").format(sql.SQL(t), sql.SQL(NUMBERED), sql.Identifier(column))
    await database.execute(create)
    await database.execute(f"INSERT INTO {t} VALUES (DEFAULT, 5), (DEFAULT, NULL)")
    found = await read_once(source(url, t))
    assert [json.loads(message.value) for message in found] == [{"id": 1, column: 5}, {"id": 2, column: None}]


@pytest.mark.parametrize("column", ["key", "value", "headers", "event_time", "number", "bytes", "size", "50%", "position"])
async def test_the_sequence_column_may_have_any_name(url, database, t, column, monkeypatch):
    monkeypatch.setattr("headrace.connectors.postgresql.reading.MAX_ROWS", 100)
    name = sql.Identifier(column)
    create = sql.SQL("CREATE TABLE {} ({} bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, at timestamptz)")
    await database.execute(create.format(sql.SQL(t), name))
    filled = "SELECT md5(n::text), now() - n * interval '1 day' FROM generate_series(1, 500) AS n"
    await database.execute(f"INSERT INTO {t} (customer, at) {filled}")
    given = {"sequence_column": column, "key_column": "customer", "event_time_column": "at"}
    assert [message.sequence for message in await read_once(source(url, t, **given))] == list(range(1, 501))


@pytest.mark.parametrize("called", ["found", "target", "excluded", "last", "message", "read", "chunk", 'a"b', "50%d"])
async def test_a_table_may_have_any_name(url, database, schema, called, closing):
    name = sql.Identifier(schema, called)
    await database.execute(sql.SQL("CREATE TABLE {} ({}, topic text, value text)").format(name, sql.SQL(NUMBERED)))
    await database.execute(sql.SQL("INSERT INTO {} (topic, value) VALUES ('a', 'x'), ('b', 'y')").format(name))
    reading = outbox(url, name.as_string(None), partition_column="topic")
    assert sorted(await reading.partitions()) == ["a", "b"]
    assert [message.value for message in await read_once(reading, partition="b")] == [b"y"]
    await database.execute(sql.SQL("DROP TABLE {0}; CREATE TABLE {0} (k text PRIMARY KEY, v int)").format(name))
    given = {"url": url, "table": name.as_string(None), "sink": "out", "key_columns": "k"}
    sink = PostgreSQLUpsertSink(PostgreSQLUpsertParameters(**given))
    closing.push_async_callback(sink.close)
    rows = messages(Message(b'{"v": 1}', key=b"a"), Message(b'{"v": 2}', key=b"a"), Message(b'{"v": "x"}', key=b"b"))
    assert isinstance((await sink.check(rows))[2], Refused)
    await sink.write(BATCHES[0], coming(messages(Message(b'{"v": 1}', key=b"a"), Message(b'{"v": 2}', key=b"a"))))
    assert await (await database.execute(sql.SQL("SELECT * FROM {}").format(name))).fetchall() == [("a", 2)]


# Types with a length, and times


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ("v varchar(5)", {"value_column": "v"}, Message(b"abcdefgh")),
        ("v char(3)", {"value_column": "v"}, Message(b"abcdefgh")),
        ("v bit(4)", {"value_column": "v"}, Message(b"11111111")),
        ("v varbit(4)", {"value_column": "v"}, Message(b"11111111")),
        ("v varchar(5)[]", {"value_column": "v"}, Message(b"{abcdefgh}")),
        ("v code", {"value_column": "v"}, Message(b"abcdefgh")),
        ("v code[]", {"value_column": "v"}, Message(b"{abcdefgh}")),
        ("v text, i varchar(3)", {"value_column": "v", "message_id_column": "i"}, Message(b"x", message_id="id-1")),
        ("v text, k char(3)", {"value_column": "v", "key_column": "k"}, Message(b"x", key=b"customer")),
        ("v text, k code", {"value_column": "v", "key_column": "k"}, Message(b"x", key=b"customer")),
        ("v text, h varchar(9)", {"value_column": "v", "headers_column": "h"}, Message(b"x", headers=[("name", b"value")])),
        ("v varchar(5)", {}, Message(b'{"v": "abcdefgh"}')),
        ("v code", {}, Message(b'{"v": "abcdefgh"}')),
    ],
)
async def test_what_is_too_long_is_refused_and_never_cut(url, database, schema, t, columns, given, message, closing):
    await database.execute(f"CREATE DOMAIN {schema}.code AS varchar(3)")
    await database.execute(f"CREATE TABLE {t} ({columns.replace('code', schema + '.code')})")
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out", **given))
    closing.push_async_callback(sink.close)
    await sink.recover()
    outcomes = await sink.stage(part := parts_of(BATCHES[0])[0], coming(messages(message)))
    assert [type(outcome) for outcome in outcomes] == [Refused]
    await sink.prepare(BATCHES[0], [part])
    await sink.commit(BATCHES[0])
    assert await rows_of(database, f"SELECT * FROM {t}") == []


@pytest.mark.parametrize("type_", ["varchar(8)", "char(8)", "code", "numeric(4, 1)"])
async def test_keys_with_a_length_stay_apart_or_are_one(url, database, schema, t, type_, closing):
    await database.execute(f"CREATE DOMAIN {schema}.code AS varchar(8)")
    await database.execute(f"CREATE TABLE {t} (k {type_.replace('code', schema + '.code')} PRIMARY KEY, v int)")
    sink = PostgreSQLUpsertSink(PostgreSQLUpsertParameters(url=url, table=t, sink="out", key_columns="k"))
    closing.push_async_callback(sink.close)
    if type_.startswith("numeric"):
        # Both round to the same key, as in an INSERT, and the last message counts.
        await sink.write(BATCHES[0], coming(messages(Message(b'{"v": 1}', key=b"1.01"), Message(b'{"v": 2}', key=b"1.02"))))
        assert await rows_of(database, f"SELECT k::text, v FROM {t}") == [("1.0", 2)]
    else:
        two = messages(Message(b'{"v": 1}', key=b"customer-1"), Message(b'{"v": 2}', key=b"customer-2"))
        assert [type(outcome) for outcome in await sink.check(two)] == [Refused, Refused]


async def test_a_key_is_compared_as_its_column_is(url, database, schema, t, closing):
    await database.execute(f"CREATE COLLATION {schema}.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    await database.execute(f"CREATE TABLE {t} (k text COLLATE {schema}.blind PRIMARY KEY, v int)")
    sink = PostgreSQLUpsertSink(PostgreSQLUpsertParameters(url=url, table=t, sink="out", key_columns="k"))
    closing.push_async_callback(sink.close)
    await sink.write(BATCHES[0], coming(messages(Message(b'{"v": 1}', key=b"ann"), Message(b'{"v": 2}', key=b"ANN"))))
    assert await rows_of(database, f"SELECT v FROM {t}") == [(2,)]
    await sink.write(BATCHES[1], coming(messages(Message(None, key=b"Ann"))))
    assert await rows_of(database, f"SELECT v FROM {t}") == []


@pytest.mark.behaviour("postgresql", "event times of all years", "writes them exact to the microsecond")
@pytest.mark.parametrize(
    "micros", [0, 1, -1, 253_402_300_799_999_999, -62_135_596_799_999_999, 9_007_199_254_740_993, -86_400_000_001]
)
async def test_event_times_are_exact(url, database, t, micros, closing):
    await database.execute(f"CREATE TABLE {t} (v text, at timestamptz, wall timestamp, n bigint)")
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out", value_column="v", event_time_column="at"))
    closing.push_async_callback(sink.close)
    await sink.recover()
    await write(sink, BATCHES[0], messages(Message(b"x", event_time=micros)))
    exact = "extract(epoch FROM at) * 1000000"
    assert await rows_of(database, f"SELECT ({exact})::numeric(30)::text FROM {t}") == [(str(micros),)]


# Settings


SETTINGS = {
    "extra_float_digits": "0",
    "bytea_output": "escape",
    "IntervalStyle": "sql_standard",
    "DateStyle": "SQL, DMY",
    "TimeZone": "Asia/Kathmandu",
    "lc_monetary": "C.UTF-8",
    "standard_conforming_strings": "off",
    "xmlbinary": "hex",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "synchronous_commit": "off",
    "client_encoding": "latin1",
}
TYPED = {
    "f": "0.1::float8 + 0.2::float8", "b": r"'\x00ff41'::bytea",
    "i": "'1 year 2 days 03:04:05'::interval", "d": "'2026-01-31'::date",
    "ts": "'2026-01-31 01:02:03'::timestamp", "tz": "'2026-01-31 01:02:03Z'::timestamptz", "m": "12.5::numeric::money",
    "rc": "'pg_class'::regclass", "fa": "ARRAY[0.1::float8 + 0.2::float8]", "da": "ARRAY['2026-01-31'::date]",
    "r": "'[2026-01-31,2026-02-01)'::daterange", "tx": r"'back\slash'",
}  # fmt: skip


async def test_the_settings_of_a_role_change_no_byte(url, database, schema, t, closing):
    types = {name: (await rows_of(database, f"SELECT pg_typeof({written})::text"))[0][0] for name, written in TYPED.items()}
    types["tx"] = "text"
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, {', '.join(f'{name} {type_}' for name, type_ in types.items())})")
    await database.execute(f"INSERT INTO {t} ({', '.join(TYPED)}) VALUES ({', '.join(TYPED.values())})")
    await database.execute(f"CREATE TABLE {schema}.copy (LIKE {t})")
    await database.execute(f"CREATE ROLE {schema} LOGIN SUPERUSER PASSWORD 'secret'")
    own = url.replace("headrace:headrace", f"{schema}:secret")
    try:

        async def everything() -> list[object]:
            found: list[object] = [[m.value for m in await read_once(source(own, t))]]
            for column in TYPED:
                found.append([(m.key, m.value) for m in await read_once(source(own, t, value_column=column, key_column=column))])
            return found

        before = await everything()
        for name, setting in SETTINGS.items():
            await database.execute(
                sql.SQL("ALTER ROLE {} SET {} = {}").format(*map(sql.Identifier, (schema, name)), sql.Literal(setting))
            )
        await database.execute(
            f"CREATE FUNCTION {schema}.convert_to(text, text) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$"
        )
        await database.execute(f"ALTER ROLE {schema} SET search_path = {schema}, pg_catalog")
        assert await everything() == before
        # And back: the sink reads what the source has written.
        sink = PostgreSQLSink(PostgreSQLSinkParameters(url=own, table=f"{schema}.copy", sink="out"))
        closing.push_async_callback(sink.close)
        await sink.recover()
        await write(sink, BATCHES[0], messages(*before[0]))
        same = f"SELECT count(*) FROM {t} AS one JOIN {schema}.copy AS two ON one::text = two::text"
        assert await rows_of(database, same) == [(1,)]
        await sink.close()
    finally:
        await database.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}")


async def test_a_database_that_is_not_utf8_is_refused(url):
    in_database(url, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    latin = url.rsplit("/", 1)[0] + "/latin"
    try:
        sinks = {"url": latin, "table": "t", "sink": "out"}
        for connector, error in (
            (source(latin, "t"), InvalidSource),
            (outbox(latin, "t"), InvalidSource),
            (PostgreSQLSink(PostgreSQLSinkParameters(**sinks)), InvalidSink),
            (PostgreSQLUpsertSink(PostgreSQLUpsertParameters(**sinks, key_columns="k")), InvalidSink),
        ):
            with pytest.raises(error, match="the encoding of the database is LATIN1, and UTF8 is required"):
                await connector.look()
    finally:
        in_database(url, "DROP DATABASE latin WITH (FORCE)")


# Bad rows


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    return tmp_path / "letters"


def policy(letters: Path) -> dict[str, object]:
    return {"bad_records": "dead-letter", "dead_letters": letters}


def stored(letters: Path) -> list[DeadLetter]:
    """The dead letters."""
    return list(dead_letters(letters))


@pytest.mark.behaviour("postgresql", "headers that are not an object, or not characters", "leaves that row to `bad_records`")
@pytest.mark.parametrize(
    "headers", ["[1]", '"x"', r'{"a": "\ud83d"}', r'{"\ud83d": "b"}', '{"a": ' + "[" * 3000 + "]" * 3000 + "}"]
)
async def test_odd_headers_harm_their_row_only(url, database, t, headers, letters):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value text, h json)")
    for n in range(1, 6):
        await database.execute(f"INSERT INTO {t} (value, h) VALUES (%s, %s)", (f"v{n}", headers if n == 3 else '{"a": "b"}'))
    found = await read_once(source(url, t, value_column="value", headers_column="h", **policy(letters)))
    assert [(message.value, message.headers) for message in found] == [(b"v%d" % n, [("a", b"b")]) for n in (1, 2, 4, 5)]
    (letter,) = stored(letters)
    assert (letter.message.value, letter.sequence) == (b"v3", 3)
    with pytest.raises(InvalidMessage, match="row 3: its headers"):
        await read_once(source(url, t, value_column="value", headers_column="h"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ('{"a": "1", "a": "2"}', [("a", b"1"), ("a", b"2")]),
        ('{"n": 1.10, "o": {"x": [1, 2.50]}}', [("n", b"1.10"), ("o", b'{"x": [1, 2.50]}')]),
        ('{"t": true, "z": null}', [("t", b"true"), ("z", None)]),
        (r'{"a": "\u0000"}', [("a", b"\0")]),
        ("null", None),
        ("{}", []),
    ],
)
async def test_headers_are_as_they_are_written(url, database, t, headers, expected):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value text, h json)")
    await database.execute(f"INSERT INTO {t} (value, h) VALUES ('x', %s)", (headers,))
    (message,) = await read_once(source(url, t, value_column="value", headers_column="h"))
    assert message.headers == expected


@pytest.mark.behaviour("postgresql", "a row that the server cannot read", "leaves that row to `bad_records`")
@pytest.mark.parametrize("kind", ["postgresql", "postgresql-outbox"])
async def test_a_row_at_which_the_statement_fails_harms_itself_only(url, database, schema, t, letters, kind):
    await database.execute(
        f"CREATE FUNCTION {schema}.written(int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
        "  IF $1 IN (1, 700, 701, 1000) THEN RAISE 'no % here', $1 USING ERRCODE = 'XX001'; END IF; RETURN $1; END $$"
    )
    await database.execute(f"CREATE TYPE {schema}.pair AS (n int)")
    await database.execute(
        f"CREATE FUNCTION {schema}.text({schema}.pair) RETURNS text LANGUAGE sql AS $$ SELECT {schema}.written($1.n) $$"
    )
    await database.execute(f"CREATE CAST ({schema}.pair AS text) WITH FUNCTION {schema}.text({schema}.pair)")
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value {schema}.pair, k text)")
    await database.execute(
        f"INSERT INTO {t} (value, k) SELECT ROW(n)::{schema}.pair, 'k' || n FROM generate_series(1, 1000) AS n"
    )
    make = source if kind == "postgresql" else outbox
    found = await read_once(make(url, t, value_column="value", key_column="k", **policy(letters)))
    assert [message.sequence for message in found] == [n for n in range(1, 1001) if n not in (1, 700, 701, 1000)]
    assert [(letter.sequence, letter.message.key, letter.reason) for letter in stored(letters)] == [
        (n, b"k%d" % n, f"row {n}: no {n} here") for n in (1, 700, 701, 1000)
    ]
    with pytest.raises(InvalidMessage, match="row 1: no 1 here"):
        await read_once(make(url, t, value_column="value"))


@pytest.mark.behaviour("postgresql", "a `where` that fails for a row", "leaves that row to `bad_records`")
async def test_a_condition_that_fails_for_a_row_harms_that_row_only(url, database, t, letters):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, n int)")
    await database.execute(f"INSERT INTO {t} (n) SELECT n % 50 FROM generate_series(1, 200) AS n")
    found = await read_once(source(url, t, where="100 / n >= 10 -- of a hundred", columns=["n"], **policy(letters)))
    assert [message.sequence for message in found] == [n for n in range(1, 201) if 0 < n % 50 <= 10]
    assert [letter.sequence for letter in stored(letters)] == [50, 100, 150, 200]
    with pytest.raises(InvalidSource, match="division by zero"):
        await read_once(source(url, t, where="1 / 0 = n", **policy(letters)))


@pytest.mark.behaviour(
    "postgresql", "an event time outside the years 1 to 9999", "leaves that row to `bad_records`; an infinite time is null"
)
@pytest.mark.parametrize("at", ["10000-01-01", "294276-12-31 23:59:59.999999", "0001-12-31 BC", "4713-01-02 BC"])
async def test_a_time_outside_the_calendar_harms_its_row_only(url, database, t, at, letters):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, at timestamptz)")
    for each in ("9999-12-31 23:59:59.999999Z", at, "0001-01-01 00:00Z", "infinity", "-infinity"):
        await database.execute(f"INSERT INTO {t} (at) VALUES (%s)", (each,))
    found = await read_once(source(url, t, event_time_column="at", **policy(letters)))
    times = [253_402_300_799_999_999, -62_135_596_800_000_000, None, None]
    assert [(message.sequence, message.event_time) for message in found] == list(zip([1, 3, 4, 5], times, strict=True))
    assert ["outside the years from 1 to 9999" in letter.reason for letter in stored(letters)] == [True]


@pytest.mark.behaviour("postgresql", "a row of an outbox whose topic is null or no name", "leaves that row to `bad_records`")
@pytest.mark.parametrize("topic", [None, "orders/eu", "Ärger", "", "x" * 300])
@pytest.mark.parametrize("kept", ["delete", "keep"])
async def test_a_row_without_a_route_is_reported_and_harms_no_other(url, database, t, topic, kept, letters):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, topic text, value text)")
    await database.execute(f"INSERT INTO {t} (topic, value) VALUES ('orders', 'a'), (%s, 'x'), ('orders', 'b')", (topic,))
    found = outbox(url, t, partition_column="topic", acknowledged_rows=kept, **policy(letters))
    for _ in range(2):
        assert await found.partitions() == ["orders"]
        assert [message.value for message in await read_once(found, partition="orders")] == [b"a", b"b"]
    (letter,) = stored(letters)
    assert (letter.message.value, letter.sequence) == (b"x", 2)
    assert "in column topic cannot be the name of a partition" in letter.reason
    left = await rows_of(database, f"SELECT id FROM {t} ORDER BY id")
    assert left == ([(1,), (3,)] if kept == "delete" else [(1,), (2,), (3,)])
    await database.execute(f"INSERT INTO {t} (topic, value) VALUES (%s, 'x')", (topic,))
    with pytest.raises(InvalidSource, match="cannot be the name of a partition"):
        await outbox(url, t, partition_column="topic").partitions()


@pytest.mark.behaviour("postgresql", "a partition column of type `numeric`, or with a blind collation", "ends and names it")
@pytest.mark.parametrize("type_", ["numeric", "float8", "timestamptz", "text COLLATE blind"])
async def test_partitions_need_a_type_whose_equal_values_have_one_text(url, database, schema, t, type_):
    await database.execute(f"CREATE COLLATION {schema}.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, topic {type_.replace('blind', schema + '.blind')}, value text)")
    with pytest.raises(InvalidSource, match="cannot name partitions"):
        await outbox(url, t, partition_column="topic").partitions()


@pytest.mark.parametrize(("column", "refuses"), [(None, False), ("i", True)])
async def test_a_zero_byte_in_an_id_harms_its_message_only(url, database, t, column, refuses, closing):
    await database.execute(f"CREATE TABLE {t} (n int, i text, h text)")
    given = {} if column is None else {"message_id_column": column}
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out", columns=["n"], headers_column="h", **given))
    closing.push_async_callback(sink.close)
    await sink.recover()
    rows = messages(
        *(Message(b'{"n": %d}' % n, message_id=i, headers=[("a\0b", b"x\0y")]) for n, i in enumerate(["one", "a\0b", "three"]))
    )
    (part,) = parts_of(BATCHES[0])
    outcomes = await sink.stage(part, coming(rows))
    assert [type(outcome) is Refused for outcome in outcomes or [None] * 3] == [False, refuses, False]
    await sink.prepare(BATCHES[0], [part])
    await sink.commit(BATCHES[0])
    assert await rows_of(database, f"SELECT n FROM {t} ORDER BY n") == [(n,) for n in range(3) if not (refuses and n == 1)]


async def test_what_a_policy_or_a_trigger_refuses_is_refused_for_its_row(url, database, schema, t, closing):
    await database.execute(f"CREATE TABLE {t} (n int)")
    await database.execute(
        f"CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        "  IF new.n = 1 THEN ASSERT false, 'not one'; END IF; IF new.n = 2 THEN RAISE 'odd' USING ERRCODE = '42501'; END IF;"
        "  IF new.n = 3 THEN EXECUTE 'SELECT nothing'; END IF; RETURN new; END $$"
    )
    await database.execute(f"CREATE TRIGGER look BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {schema}.look()")
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out"))
    closing.push_async_callback(sink.close)
    await sink.recover()
    outcomes = await sink.stage(parts_of(BATCHES[0])[0], coming(messages(*(b'{"n": %d}' % n for n in range(5)))))
    assert [type(outcome) is Refused for outcome in outcomes] == [False, True, True, True, False]


@pytest.mark.behaviour("postgresql", "a rule of a sink's table that does something `INSTEAD`", "ends and names it")
@pytest.mark.parametrize("event", ["INSERT", "INSERT WHERE new.k = 'x'", "DELETE", "UPDATE"])
async def test_a_rule_that_does_something_else_is_refused(url, database, t, event, closing):
    await database.execute(f"CREATE TABLE {t} (k text PRIMARY KEY, v int)")
    condition = " WHERE new.k = 'x'" if "WHERE" in event else ""
    await database.execute(f"CREATE RULE elsewhere AS ON {event.split()[0]} TO {t}{condition} DO INSTEAD NOTHING")
    for sink in (
        PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out")),
        PostgreSQLUpsertSink(PostgreSQLUpsertParameters(url=url, table=t, sink="out", key_columns="k")),
    ):
        closing.push_async_callback(sink.close)
        with pytest.raises(InvalidSink, match="the rule elsewhere does something else INSTEAD"):
            await sink.look()


@pytest.mark.behaviour("postgresql", "row-level security that hides rows, an `UNLOGGED` table", "warns at the start")
async def test_rows_that_may_be_hidden_are_warned_of(url, database, schema, t, caplog):
    await database.execute(f"CREATE UNLOGGED TABLE {t} ({NUMBERED})")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 3)")
    await database.execute(f"ALTER TABLE {t} ENABLE ROW LEVEL SECURITY; CREATE POLICY odd ON {t} USING (id % 2 = 1)")
    await database.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {schema} TO {schema}")
    await database.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}")
    try:
        own = url.replace("headrace:headrace", f"{schema}:secret")
        assert [message.sequence for message in await read_once(source(own, t))] == [1, 3]
        assert f"row-level security of table {t} hides rows from this user" in caplog.text
        assert f"table {t} is UNLOGGED" in caplog.text
    finally:
        await database.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}")


@pytest.mark.behaviour("postgresql", "row-level security that begins while a source runs", "warns of it")
async def test_row_level_security_that_begins_later_is_warned_of(url, database, schema, t, caplog):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}); INSERT INTO {t} DEFAULT VALUES")
    await database.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {schema} TO {schema}")
    await database.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}")
    items = source(url.replace("headrace:headrace", f"{schema}:secret"), t).read("0", None)
    try:
        async with asyncio.timeout(150):
            while await anext(items) is None:
                pass
            assert "row-level security" not in caplog.text
            await database.execute(f"ALTER TABLE {t} ENABLE ROW LEVEL SECURITY")
            while "row-level security of table" not in caplog.text:
                await anext(items)
    finally:
        await items.aclose()
        await database.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}")


async def test_a_trigger_that_prevents_prepared_transactions_says_what_to_do(url, database, schema, t, closing):
    await database.execute(f"CREATE TABLE {t} (n int)")
    await database.execute(
        f"CREATE FUNCTION {schema}.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY told; RETURN new; END $$"
    )
    await database.execute(f"CREATE TRIGGER tell BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {schema}.tell()")
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out"))
    closing.push_async_callback(sink.close)
    await sink.recover()
    (part,) = parts_of(BATCHES[0])
    await sink.stage(part, coming(messages(b'{"n": 1}')))
    with pytest.raises(RuntimeError, match=r"NOTIFY.* change that trigger, or use postgresql-upsert"):
        await sink.prepare(BATCHES[0], [part])


# Large rows


async def test_pages_of_large_rows_are_small(url, database, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value text)")
    await database.execute(f"INSERT INTO {t} (value) SELECT 'x' FROM generate_series(1, 9000)")
    await database.execute(f"INSERT INTO {t} (value) SELECT repeat('some text, ', 20000) FROM generate_series(1, 50)")
    items = source(url, t, value_column="value").read("0", None)
    sizes = []
    async for batch in items:
        if batch is None:
            break
        sizes.append((len(batch), len(batch.values.data)))
    await items.aclose()
    assert sum(count for count, _ in sizes) == 9050
    # The server keeps 220,000 bytes in 2,500, and knows how many they are.
    assert max(size for _, size in sizes) <= 512 * 1024 + 220_000


@pytest.mark.behaviour("postgresql", "a page of rows that takes longer than `timeout_seconds`", "halves it, until it succeeds")
async def test_a_page_that_takes_too_long_is_halved(url, database, schema, t):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, value text)")
    await database.execute(f"INSERT INTO {t} (value) SELECT n FROM generate_series(1, 400) AS n")
    slow = "BEGIN PERFORM pg_sleep(0.01); RETURN true; END"
    await database.execute(f"CREATE FUNCTION {schema}.slow(text) RETURNS bool LANGUAGE plpgsql AS $$ {slow} $$")
    found = source(url, t, value_column="value", where=f"{schema}.slow(value)", timeout_seconds=1)
    assert [message.sequence for message in await read_once(found)] == list(range(1, 401))


# Changes of the table while it is read


async def begun(found: PostgreSQLSource) -> "asyncio.Queue[object]":
    """The messages that a source yields, or its error in the end."""
    queue: asyncio.Queue[object] = asyncio.Queue(1)

    async def read() -> None:
        try:
            async for batch in found.read("0", None):
                await queue.put(batch)
        except Exception as error:
            await queue.put(error)

    queue.task = asyncio.create_task(read())  # type: ignore[attr-defined]
    return queue


async def next_of(queue: "asyncio.Queue[object]") -> object:
    """The next batch or error."""
    async with asyncio.timeout(120):
        while (item := await queue.get()) is None:
            pass
        return item


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
        ("DROP b, ADD b text", {"columns": ["b"]}, "column b was dropped"),
        ("ALTER b TYPE varchar(9)", {"columns": ["a"], "where": "b <> 'x'"}, "column b is of type character varying(9) now"),
        ("ADD more int, DROP b", {"columns": ["a"]}, None),
        ("RENAME b TO c", {"value_column": "a"}, None),
        ("ALTER a SET DEFAULT 3, ADD CHECK (a > 0)", {}, None),
    ],
)
async def test_columns_that_change_are_named_if_they_matter(url, database, t, change, given, message):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED}, a int, b text)")
    await database.execute(f"INSERT INTO {t} (a, b) VALUES (1, 'x1')")
    queue = await begun(source(url, t, **given))
    assert len(await next_of(queue)) == 1
    await database.execute(f"ALTER TABLE {t} {change}")
    await database.execute(f"INSERT INTO {t} (a) VALUES (2)")
    found = await next_of(queue)
    if message is None:
        assert list(found.sequences) == [2]
    else:
        assert isinstance(found, InvalidSource)
        assert message in str(found)
    queue.task.cancel()


@pytest.mark.behaviour(
    "postgresql",
    "`ATTACH` or `DETACH PARTITION`",
    "continues, or ends and names the partition if its rows would be missed; `accept_changes` leaves them out",
)
async def test_partitions_that_come_with_rows_of_their_own_are_named(url, database, schema, t):
    await database.execute(f"CREATE TABLE {t} (id bigint, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    await database.execute(
        f"CREATE SEQUENCE {schema}.numbers OWNED BY {t}.id; ALTER TABLE {t} ALTER id SET DEFAULT nextval('{schema}.numbers')"
    )
    await database.execute(f"CREATE TABLE {schema}.a PARTITION OF {t} FOR VALUES FROM (100) TO (200)")
    await database.execute(f"SELECT setval('{schema}.numbers', 150)")
    await database.execute(f"INSERT INTO {t} DEFAULT VALUES")
    queue = await begun(source(url, t))
    assert list((await next_of(queue)).sequences) == [151]
    await database.execute(f"CREATE TABLE {schema}.b PARTITION OF {t} FOR VALUES FROM (200) TO (300)")
    await database.execute(f"INSERT INTO {t} DEFAULT VALUES")
    assert list((await next_of(queue)).sequences) == [152]
    await database.execute(f"CREATE TABLE {schema}.c (id bigint PRIMARY KEY); INSERT INTO {schema}.c VALUES (7)")
    await database.execute(f"ALTER TABLE {t} ATTACH PARTITION {schema}.c FOR VALUES FROM (1) TO (100)")
    found = await next_of(queue)
    assert isinstance(found, InvalidSource)
    assert f"{schema}.c was attached to table {t} with rows from 7 on, but rows up to 152 have been read" in str(found)
    queue.task.cancel()


@pytest.mark.behaviour(
    "postgresql", "`TRUNCATE` while the table is read", "continues, or loses the position if numbers start over"
)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            "TRUNCATE {t} RESTART IDENTITY; INSERT INTO {t} DEFAULT VALUES",
            PositionLost,
            "the numbers of table {t} have started over",
        ),
        ("TRUNCATE {t}; INSERT INTO {t} DEFAULT VALUES", None, None),
        (
            "DROP TABLE {t}; CREATE TABLE {t} (id bigserial PRIMARY KEY); INSERT INTO {t} VALUES (9)",
            InvalidSource,
            "is another one",
        ),
    ],
)
async def test_a_table_that_is_emptied_or_replaced_is_noticed(url, database, t, change, error, message):
    await database.execute(f"CREATE TABLE {t} ({NUMBERED})")
    await database.execute(f"INSERT INTO {t} SELECT FROM generate_series(1, 3)")
    queue = await begun(source(url, t))
    assert len(await next_of(queue)) == 3
    await database.execute(change.format(t=t))
    found = await next_of(queue)
    if error is None:
        assert list(found.sequences) == [4]
    else:
        assert isinstance(found, error)
        assert message.format(t=t) in str(found)
    queue.task.cancel()


@pytest.mark.behaviour("postgresql", "changes of the table of a sink", "follows them")
@pytest.mark.parametrize(
    ("change", "refused", "kept"),
    [
        ("ALTER a TYPE bigint", [], [1, 3_000_000_000]),
        ("ADD CHECK (a < 5)", [1], [1]),
        ("ADD b int NOT NULL DEFAULT 7", [], None),
        ("ADD UNIQUE (a)", [], None),
    ],
)
async def test_a_sink_follows_changes_of_its_table(url, database, t, change, refused, kept, closing):
    await database.execute(f"CREATE TABLE {t} (a int)")
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out"))
    closing.push_async_callback(sink.close)
    await sink.recover()
    await write(sink, BATCHES[0], messages(b'{"a": 0}'))
    await database.execute(f"ALTER TABLE {t} {change}")
    second = 3_000_000_000 if "bigint" in change else 6
    (part,) = parts_of(BATCHES[1])
    outcomes = await sink.stage(part, coming(messages(b'{"a": 1}', b'{"a": %d}' % second)))
    assert [at for at, outcome in enumerate(outcomes or []) if type(outcome) is Refused] == refused
    await sink.prepare(BATCHES[1], [part])
    await sink.commit(BATCHES[1])
    assert await rows_of(database, f"SELECT a FROM {t} WHERE a > 0 ORDER BY a") == [(a,) for a in kept or [1, 6]]
