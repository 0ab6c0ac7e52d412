"""Tables that are drawn at random: what comes out of every connector is what went in, or is refused for its row alone."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.connectors.postgresql.rig import coming, messages, read_once

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
from headrace.sdk import Message, Part, Refused, Transaction

FIRST = Transaction("p", 0)
HALF = '{"half": "\\ud83d"}'
TYPES: dict[str, list[str]] = {
    "smallint": ["-32768", "32767", "0"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "numeric": ["NaN", "Infinity", "-Infinity", "1e1000", "-0.00000000000000000000000000000001", "1.10"],
    "numeric(10,2)": ["99999999.99", "-0.01"],
    "real": ["NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "-0", "0.1"],
    "double precision": ["NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "5e-324", "-0", "0.30000000000000004"],
    "money": ["-92233720368547758.08", "92233720368547758.07"],
    "text": ["", "\\", "'", '"', "%s {}", "$headrace$", "日本\u00a0", "\x01\n\t", "null", "NULL", " spaces "],
    "varchar(5)": ["abcde", "a  ", ""],
    "char(5)": ["ab", "abcde", ""],
    '"char"': ["a", ""],
    "name": ["x" * 63, "é"],
    "bytea": ["\\x", "\\x00ff5c27"],
    "boolean": ["true", "false"],
    "date": ["infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "2026-01-31"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timetz": ["24:00:00-15:59:59", "00:00:00+15:59:59"],
    "timestamp": [
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "0001-01-01 00:00:00.000001",
    ],
    "timestamptz": [
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00Z BC",
        "294276-12-31 23:59:59.999999Z",
        "1969-12-31 23:59:59.999999Z",
    ],
    "timestamptz(3)": ["2026-01-31 01:02:03.004Z"],
    "interval": ["178000000 years", "-178000000 years -11 mons -30 days -23:59:59.999999", "00:00:00.000001", "1 mon -1 day"],
    "json": ['{"a":1,"a":2}', HALF, "1.10", '[ 1 , {"b":"c"} ]', '"text"'],
    "jsonb": ['{"a": 1.10, "b": [null]}', "1e1000", '"text"'],
    "xml": ["<a>&lt;</a>", "text"],
    "bit(4)": ["0101"],
    "varbit(9)": ["", "010101010"],
    "inet": ["1.2.3.4", "1.2.3.4/8", "::1", "fe80::/10"],
    "cidr": ["10.0.0.0/8"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "point": ["(1e300,-0)", "(NaN,Infinity)"],
    "polygon": ["((0,0),(1,1),(1,0))"],
    "tsvector": ["'a b':1A 'c''d':2"],
    "tsquery": ["'a' & !'b'"],
    "uuid": ["00000000-0000-0000-0000-000000000000"],
    "int4range": ["empty", "(,)", "[-2147483648,5)"],
    "tstzrange": ['["2026-01-31 00:00:00Z",infinity)'],
    "int4multirange": ["{}", "{[1,2),[5,9)}"],
    "integer[]": ["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[2:3]={1,2}", "[-1:0][5:6]={{1,2},{3,NULL}}", "[1:1][10:11]={{1,2}}"],
    "text[]": ['{"a,b",NULL,"NULL","","\\\\"}', '[0:1]={"[2:3]={1,2}",NULL}'],
    "varchar(3)[]": ["{abc,d}", "[10:11]={abc,d}"],
    "timestamptz[]": ["{infinity,2026-01-31 00:00:00.000001Z}"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF"],
    "regclass": ["pg_class"],
    "line": ["{1,-1,0}", "{0,1,1e300}"],
    "lseg": ["[(0,0),(1e300,-1)]"],
    "box": ["(1,1),(-1,-1)", "(Infinity,1),(0,-Infinity)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1),(2,0))"],
    "circle": ["<(0,0),1e300>", "<(1,2),0>"],
    "macaddr": ["08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff"],
    "oid": ["0", "4294967295"],
    "xid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "cid": ["4294967295"],
    "tid": ["(4294967295,65535)", "(0,0)"],
    "regtype": ["integer", "timestamp with time zone", "text[]"],
    "regproc": ["pg_sleep"],
    "regprocedure": ["sum(integer)"],
    "regoperator": ["+(integer,integer)"],
    "regnamespace": ["pg_catalog"],
    "regconfig": ["english"],
    "regdictionary": ["simple"],
    "int8range": ["[-9223372036854775808,9223372036854775807)", "(,0)"],
    "numrange": ["(NaN,)", "[1.10,1.100]"],
    "daterange": ["[-infinity,infinity]", "[2026-01-31,2026-02-01)"],
    "tsrange": ['["4713-01-01 00:00:00 BC","294276-12-31 23:59:59.999999"]'],
    "int8multirange": ["{(,0),[5,)}"],
    "nummultirange": ["{[0.1,0.10],(1,2)}"],
    "datemultirange": ["{[2026-01-31,2026-02-01)}"],
    "tstzmultirange": ['{["2026-01-31 00:00:00Z",infinity)}'],
    "jsonpath": ['$.a[*] ? (@ > 1 && @.b like_regex "x\\\\d")', "strict $"],
    "pg_snapshot": ["10:20:10,14,15"],
    "bit(3)[]": ["{101,NULL}"],
    "uuid[]": ["{00000000-0000-0000-0000-000000000000,NULL}"],
    "jsonb[]": ['{"{\\"a\\": [1, null]}",NULL}'],
    "inet[]": ["{1.2.3.4/8,::1}"],
    "numeric(4,1)[]": ["{{1.1,NaN},{NULL,-0.1}}"],
    "point[]": ['{"(1,2)","(NaN,3)"}'],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "drawn.mood[]": ['{"so so",NULL,50%}'],
    "drawn.mood": ["so so", "50%"],
    "drawn.code": ["abc", ""],
    "drawn.times": ["2026-01-31 00:00:00.000001Z"],
    "drawn.list": ["{1,2}", "[0:1]={1,2}", "{}"],
    "drawn.pair": ['(1,"a b")', '(,"")'],
}
KEYS = [
    "integer",
    "bigint",
    "numeric",
    "text",
    "varchar(5)",
    "char(5)",
    "bytea",
    "date",
    "timestamptz",
    "uuid",
    "drawn.mood",
    "drawn.code",
    "inet",
]
WORDS = [
    "members", "people", "message", "found", "record", "value", "key", "values", "keys", "headers",
    "event_time", "number", "size", "bytes", "packed", "target", "last", "excluded", "chunk", "place",
    "gone", "state", "reason", "detail", "select", "user", "order", "ID",
]  # fmt: skip
NAMES = st.sampled_from(WORDS) | st.text(
    st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\0"), min_size=1, max_size=20
).filter(lambda name: len(name.encode()) <= 63)


@dataclass(frozen=True)
class Drawn:
    """A table.

    Attributes:
        name: Its name.
        kind: Whether it is plain, partitioned or has a table that inherits.
        sequence: The column of numbers.
        key: The column that is the key, and its type.
        columns: The other columns, and their types.
        rows: The values of key and columns; None for null.
    """

    name: str
    kind: str
    sequence: str
    key: tuple[str, str]
    columns: dict[str, str]
    rows: list[list[str | None]]


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    sequence, key, *columns = draw(st.lists(NAMES, min_size=4, max_size=8, unique=True))
    types = [draw(st.sampled_from(sorted(TYPES))) for _ in columns]
    key_type = draw(st.sampled_from(KEYS))
    rows = []
    for value in draw(st.lists(st.sampled_from(TYPES[key_type]), min_size=1, max_size=5, unique=True)):
        rows.append([value, *(draw(st.none() | st.sampled_from(TYPES[type_])) for type_ in types)])
    kind = draw(st.sampled_from(["plain", "partitioned", "inherited"]))
    return Drawn(draw(NAMES), kind, sequence, (key, key_type), dict(zip(columns, types, strict=True)), rows)


def named(text: str, *names: sql.Composable) -> sql.Composed:
    return sql.SQL(text).format(*names)  # type: ignore[arg-type]


def make(connection: psycopg.Connection, table: Drawn) -> tuple[str, str]:
    """Creates the table, filled, and an empty one like it; returns their names as in SQL."""
    types = ("MOOD AS ENUM ('so so', '50%')", "PAIR AS (n int, t text)")
    connection.execute("DROP SCHEMA IF EXISTS drawn, other CASCADE; CREATE SCHEMA drawn; CREATE SCHEMA other")
    for type_ in types:
        connection.execute("CREATE TYPE drawn." + type_)  # type: ignore[arg-type]
    connection.execute("CREATE DOMAIN drawn.code AS varchar(3); CREATE DOMAIN drawn.times AS timestamptz")
    connection.execute("CREATE DOMAIN drawn.list AS integer[]")
    name, other = sql.Identifier("drawn", table.name), sql.Identifier("other", table.name)
    columns = sql.SQL(", ").join(
        named("{} " + type_ + (" NOT NULL" if column == table.key[0] else ""), sql.Identifier(column))
        for column, type_ in (table.key, *table.columns.items())
    )
    sequence = sql.Identifier(table.sequence)
    if table.kind == "partitioned":
        connection.execute("CREATE SEQUENCE drawn.numbers")
        connection.execute(
            named(
                "CREATE TABLE {} ({} bigint DEFAULT nextval('drawn.numbers'), {}) PARTITION BY RANGE ({})",
                name,
                sequence,
                columns,
                sequence,
            )
        )
        connection.execute(named("ALTER SEQUENCE drawn.numbers OWNED BY {}", sql.Identifier("drawn", table.name, table.sequence)))
        for part, first, last in (("p1", "MINVALUE", "3"), ("p2", "3", "MAXVALUE")):
            bounds = f"FOR VALUES FROM ({first}) TO ({last})"
            connection.execute(named("CREATE TABLE other.{} PARTITION OF {} " + bounds, sql.Identifier(part), name))
    else:
        connection.execute(named("CREATE TABLE {} ({} bigserial, {})", name, sequence, columns))
    connection.execute(named("CREATE UNIQUE INDEX ON {} ({})", name, sequence))
    child = sql.Identifier("other", "child")
    if table.kind == "inherited":
        connection.execute(named("CREATE TABLE {} () INHERITS ({})", child, name))
    connection.execute(named("CREATE TABLE {} AS SELECT * FROM {} LIMIT 0", other, name))
    connection.execute(named("CREATE TABLE other.copy (LIKE {})", name))
    filled = [sql.Identifier(column) for column in (table.key[0], *table.columns)]
    for at, row in enumerate(table.rows):
        into = child if table.kind == "inherited" and at % 2 else name
        casts = sql.SQL(", ").join(sql.Placeholder() + sql.SQL("::" + type_) for type_ in (table.key[1], *table.columns.values()))  # type: ignore[arg-type]
        columns_ = sql.SQL(", ").join(filled)
        doubled = named("INSERT INTO {} ({}) VALUES (", into, columns_).as_string(connection).replace("%", "%%")
        connection.execute((doubled + casts.as_string(connection) + ")").encode(), row)
    return name.as_string(connection), "other.copy"


def texts(connection: psycopg.Connection, table: str, order: str) -> list[tuple[str, ...]]:
    """The rows as the server writes them."""
    with connection.cursor() as cursor:
        copied = cursor.copy(named("COPY (SELECT * FROM {} ORDER BY {}) TO STDOUT", sql.SQL(table), sql.Identifier(order)))  # type: ignore[arg-type]
        with copied as copy:
            return list(copy.rows())


async def everything(url: str, table: Drawn, name: str, copy: str) -> None:
    """Reads the table by both sources, and writes what they read by both sinks."""
    given: dict[str, object] = {
        "url": url,
        "table": name,
        "source": "s",
        "sequence_column": table.sequence,
        "key_column": table.key[0],
    }
    found = await read_once(PostgreSQLSource(PostgreSQLParameters(**given)))  # type: ignore[arg-type]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET datestyle = ISO; SET timezone = 'UTC'")
        rows = texts(connection, name, table.sequence)
        assert [message.sequence for message in found] == list(range(1, len(table.rows) + 1))
        assert [list(json.loads(message.value or b"")) for message in found] == [
            [table.sequence, table.key[0], *table.columns]
        ] * len(rows)
        for at, column in enumerate((table.key[0], *table.columns), 1):
            outbox = PostgreSQLOutboxSource(PostgreSQLOutboxParameters(**given, value_column=column))  # type: ignore[arg-type]
            values = [message.value for message in await read_once(outbox)]
            type_ = ((table.key[1]), *table.columns.values())[at - 1]
            if type_ == "bytea":
                assert [None if value is None else "\\x" + value.hex() for value in values] == [row[at] for row in rows]
            elif type_ != "boolean":
                assert [None if value is None else value.decode() for value in values] == [row[at] for row in rows]
    async with AsyncExitStack() as stack:
        sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=copy, sink="out"))
        stack.push_async_callback(sink.close)
        await sink.recover()
        part = Part(FIRST, 0, "a")
        outcomes = await sink.stage(part, coming(messages(*(message.value for message in found)))) or [None] * len(found)
        await sink.prepare(FIRST, [part])
        await sink.commit(FIRST)
        await sink.close()
        refused = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Refused)]
        assert refused == [at for at, row in enumerate(table.rows) if HALF in row], outcomes
        wanted = [row for at, row in enumerate(rows) if at not in refused]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET datestyle = ISO; SET timezone = 'UTC'")
            assert texts(connection, copy, table.sequence) == wanted
            connection.execute(
                named("TRUNCATE {}; ALTER TABLE {} ADD UNIQUE ({})", sql.SQL(copy), sql.SQL(copy), sql.Identifier(table.key[0]))
            )  # type: ignore[arg-type]
            upsert = PostgreSQLUpsertSink(PostgreSQLUpsertParameters(url=url, table=copy, sink="up", key_columns=[table.key[0]]))
            stack.push_async_callback(upsert.close)
            pairs = [Message(message.value, key=message.key) for at, message in enumerate(found) if at not in refused]
            batch = messages(*pairs, *pairs)
            assert await upsert.check(batch) is None
            await upsert.write(FIRST, coming(batch))
            assert texts(connection, copy, table.sequence) == wanted
            await upsert.write(Transaction("p", 1), coming(messages(*(Message(None, key=message.key) for message in pairs))))
            assert texts(connection, copy, table.sequence) == []


def test_what_comes_out_of_a_random_table_is_what_went_in(url: str) -> None:
    @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(tables())
    def check(table: Drawn) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            name, copy = make(connection, table)
        asyncio.run(everything(url, table, name, copy))

    try:
        check()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
                connection.execute(f"ROLLBACK PREPARED '{gid}'")
            connection.execute("DROP SCHEMA IF EXISTS drawn, other CASCADE")


@pytest.mark.parametrize("types", [sorted(TYPES)[place::4] for place in range(4)], ids=["1", "2", "3", "4"])
def test_each_value_of_each_type_comes_out_as_it_went_in(url: str, types: list[str]) -> None:
    count = max(len(TYPES[type_]) for type_ in types)
    rows: list[list[str | None]] = [[str(at), *(TYPES[each][at % len(TYPES[each])] for each in types)] for at in range(count)]
    table = Drawn("each", "plain", "n", ("k", "integer"), {f"c{at}": type_ for at, type_ in enumerate(types)}, rows)
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            name, copy = make(connection, table)
        asyncio.run(everything(url, table, name, copy))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS drawn, other CASCADE")
