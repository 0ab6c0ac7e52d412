"""The sink that inserts: staged rows are nowhere, committed rows are in the table once, and refused rows are reported."""

import json
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import psycopg
import pytest
from tests.connectors.postgresql.rig import coming, messages, rows_of, running, write
from tests.fake_gateway.sinks import frame_of
from tests.gateway.sink_wire import Writer

from headrace.connectors.postgresql import PostgreSQLSink, PostgreSQLSinkParameters
from headrace.connectors.postgresql.database import Session
from headrace.sdk import WRITTEN, InvalidSink, Message, Part, Recovered, Refused, Rows, Transaction

FIRST, SECOND = Transaction("p", 0), Transaction("p", 1)
Make = Callable[..., PostgreSQLSink]


@pytest.fixture
async def make(url: str, schema: str) -> AsyncIterator[Make]:
    """Makes sinks that write to the table `t` of the schema, one after the other."""
    made: list[PostgreSQLSink] = []

    async def sink(**options: object) -> PostgreSQLSink:
        while made:
            await made.pop().close()
        made.append(PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=f"{schema}.t", sink="out", **options)))
        await made[0].recover()
        return made[0]

    yield sink
    for each in made:
        await each.close()


@pytest.fixture
def t(schema: str) -> str:
    return f"{schema}.t"


def json_of(*objects: object) -> list[bytes]:
    return [json.dumps(each).encode() for each in objects]


# Columns


async def test_members_of_the_value_fill_columns_of_their_name(make, database, t):
    await database.execute(
        f"""CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY, name text, amount numeric(10, 2), tags text[], more jsonb,
        "Odd name" date, twice numeric GENERATED ALWAYS AS (amount * 2) STORED, at timestamptz DEFAULT '2020-01-01')"""
    )
    await write(
        await make(),
        FIRST,
        messages(
            *json_of(
                {"name": "ä", "amount": 1.005, "tags": ["a", "b"], "more": {"x": [1]}, "Odd name": "2024-02-29", "unknown": 1},
                {"name": None},
            )
        ),
    )
    found = await rows_of(
        database, f'SELECT id, name, amount::text, tags, more, "Odd name"::text, twice::text, at::date::text FROM {t}'
    )
    assert found == [
        (1, "ä", "1.01", ["a", "b"], {"x": [1]}, "2024-02-29", "2.02", "2020-01-01"),
        (2, None, None, None, None, None, None, "2020-01-01"),
    ]


async def test_everything_of_a_message_can_be_kept(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k bytea, v bytea, at timestamptz, i text, h jsonb)")
    sink = await make(key_column="k", value_column="v", event_time_column="at", message_id_column="i", headers_column="h")
    big = random.Random(1).randbytes(1 << 20)
    at = datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
    headers = [("a", b"1"), ("a", b"\xff"), ("n", None)]
    await write(
        sink,
        FIRST,
        messages(
            Message(b"\x00\xff", key=b"\x00", event_time=at, message_id="é", headers=headers),
            Message(None),
            Message(b"", key=b"", event_time=-1),
            Message(b"x"),
            Message(big, key=big),
        ),
    )
    found = await rows_of(database, f"SELECT k, v, at, i, h FROM {t}")
    kept = [{"name": "a", "value": "1"}, {"name": "a", "value_base64": "/w=="}, {"name": "n", "value": None}]
    assert found[0] == (b"\x00", b"\x00\xff", at, "é", kept)
    assert found[1] == (None, None, None, None, None)
    assert found[2] == (b"", b"", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), None, None)
    assert found[3] == (None, b"x", None, None, None)
    assert found[4][:2] == (big, big)


async def test_a_value_may_be_text_json_and_a_number(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k int, v json, at bigint)")
    sink = await make(key_column="k", value_column="v", event_time_column="at")
    await write(sink, FIRST, messages(Message(b'{"a": 1}', key=b"7", event_time=5)))
    assert await rows_of(database, f"SELECT * FROM {t}") == [(7, {"a": 1}, 5)]


async def test_a_part_of_many_chunks_keeps_its_order(make, database, t):
    await database.execute(f"CREATE TABLE {t} (id serial, n int)")
    values = json_of(*({"n": n} for n in range(30_000)))
    rows = [Rows(frame_of(values[at : at + 1000], first=at)) for at in range(0, 30_000, 1000)]
    sink, part = await make(), Part(FIRST, 0, "a")
    values[12_345] = b"no"
    rows[12] = Rows(frame_of(values[12_000:13_000], first=12_000))
    outcomes = await sink.stage(part, coming(*rows))
    assert [place for place, outcome in enumerate(outcomes) if outcome != WRITTEN] == [12_345]
    await sink.prepare(FIRST, [part])
    await sink.commit(FIRST)
    found = [n for (n,) in await rows_of(database, f"SELECT n FROM {t} ORDER BY id")]
    assert found == [n for n in range(30_000) if n != 12_345]


# What is refused


@pytest.mark.parametrize(
    ("columns", "value", "reason"),
    [
        ("a int", b"nothing", "invalid input syntax for type json"),
        ("a int", None, "the message has no value, but a JSON object is required"),
        ("a int", b'"text"', "on a scalar"),
        ("a int", b'{"a": "x"}', "invalid input syntax for type integer"),
        ("a int", b'{"a": 3000000000}', "out of range"),
        ("a text", b'{"a": "\\u0000"}', "unsupported Unicode escape sequence"),
        ("a text", b'{"a": "\xff"}', "invalid byte sequence"),
        ("a varchar(2)", b'{"a": "xyz"}', "value too long"),
        ("a int NOT NULL", b"{}", "null value in column"),
        ("a int CHECK (a > 0)", b'{"a": 0}', "violates check constraint"),
        ("a int UNIQUE", b'{"a": 1}', "duplicate key value violates unique constraint"),
        ("a int REFERENCES other", b'{"a": 2}', "violates foreign key constraint"),
        ("a int REFERENCES other DEFERRABLE INITIALLY DEFERRED", b'{"a": 2}', "violates foreign key constraint"),
        ("a int, EXCLUDE (a WITH =)", b'{"a": 1}', "conflicting key value violates exclusion constraint"),
        ("a text UNIQUE", json.dumps({"a": random.Random(1).randbytes(5000).hex()}).encode(), "index row"),
    ],
)
async def test_a_message_that_the_table_refuses_is_told_with_the_reason(make, database, schema, t, columns, value, reason):
    await database.execute(f"SET search_path = {schema}")
    await database.execute("CREATE TABLE other (n int PRIMARY KEY)")
    await database.execute("INSERT INTO other VALUES (1), (5)")
    await database.execute(f"CREATE TABLE {t} ({columns})")
    await database.execute(f"INSERT INTO {t} VALUES (1)")
    sink, part = await make(), Part(FIRST, 0, "a")
    outcomes = await sink.stage(part, coming(messages(b'{"a": 5}', value)))
    assert outcomes is not None
    assert outcomes[0] == WRITTEN
    assert isinstance(outcomes[1], Refused)
    assert reason in outcomes[1].reason
    await sink.prepare(FIRST, [part])
    await sink.commit(FIRST)
    assert len(await rows_of(database, f"SELECT FROM {t}")) == 2


async def test_what_a_trigger_raises_refuses_a_message(make, database, schema, t):
    await database.execute(f"CREATE TABLE {t} (a int)")
    await database.execute(
        f"CREATE FUNCTION {schema}.look() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN IF new.a = 3 THEN RAISE 'not three'; END IF; RETURN new; END $$"
    )
    await database.execute(f"CREATE TRIGGER look BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {schema}.look()")
    sink, part = await make(), Part(FIRST, 0, "a")
    outcomes = await sink.stage(part, coming(messages(*json_of({"a": 2}, {"a": 3}))))
    assert outcomes == [WRITTEN, Refused("not three")]


async def test_text_without_its_zero_bytes_is_not_what_was_sent(make, database, t):
    await database.execute(f"CREATE TABLE {t} (v text)")
    sink, part = await make(value_column="v"), Part(FIRST, 0, "a")
    outcomes = await sink.stage(part, coming(messages(b"a\x00b", b"ab")))
    assert outcomes == [Refused('invalid byte sequence for encoding "UTF8": 0x00'), WRITTEN]


async def test_repeats_within_a_part_are_refused_and_across_parts_fail_the_vote(make, database, t):
    await database.execute(f"CREATE TABLE {t} (a int UNIQUE)")
    sink, parts = await make(), [Part(FIRST, number, "a") for number in range(2)]
    outcomes = await sink.stage(parts[0], coming(messages(*json_of({"a": 1}, {"a": 1}))))
    assert outcomes[0] == WRITTEN
    assert isinstance(outcomes[1], Refused)
    assert await sink.stage(parts[1], coming(messages(*json_of({"a": 1})))) is None
    with pytest.raises(RuntimeError, match=r"Key \(a\)=\(1\) already exists.* set on_conflict to skip"):
        await sink.prepare(FIRST, parts)
    assert (await sink.recover()).prepared == []
    await sink.prepare(FIRST, parts[:1])
    await sink.commit(FIRST)
    assert await rows_of(database, f"SELECT a FROM {t}") == [(1,)]


async def test_repeats_may_be_left_out_without_a_word(make, database, t):
    await database.execute(f"CREATE TABLE {t} (a int UNIQUE)")
    await database.execute(f"INSERT INTO {t} VALUES (1)")
    rows = messages(*json_of({"a": 1}, {"a": 2}))
    await write(await make(on_conflict="skip"), FIRST, rows, rows)
    assert await rows_of(database, f"SELECT a FROM {t} ORDER BY a") == [(1,), (2,)]


# Transactions


@pytest.fixture
async def simple(make, database, t) -> PostgreSQLSink:
    await database.execute(f"CREATE TABLE {t} (id serial, a text)")
    return await make(value_column="a")


async def test_nothing_is_visible_before_commit_and_all_of_it_at_once(simple, make, database, t):
    parts = [Part(FIRST, number, "r/a") for number in range(3)]
    for part, value in zip(parts[:2], (b"x", b"y"), strict=True):
        await simple.stage(part, coming(messages(value)))
    await simple.stage(parts[2], coming())
    assert await simple.recover() == Recovered(parts, [], [])
    await simple.prepare(FIRST, parts)
    sink = await make(value_column="a")
    assert await sink.recover() == Recovered(parts, [FIRST], [])
    assert await rows_of(database, f"SELECT a FROM {t}") == []
    await sink.commit(FIRST)
    await sink.commit(FIRST)
    assert await rows_of(database, f"SELECT a FROM {t} ORDER BY id") == [("x",), ("y",)]
    assert await sink.recover() == Recovered([], [], [FIRST])
    await write(sink, SECOND, messages(b"z"))
    await write(sink, Transaction("q", 7), messages(b"q"))
    assert await sink.recover() == Recovered([], [], [SECOND, Transaction("q", 7)])


async def test_losers_and_aborted_and_dropped_parts_leave_nothing(simple, database, schema, t):
    parts = [Part(FIRST, 0, attempt) for attempt in "abc"]
    for part in parts:
        await simple.stage(part, coming(messages(part.attempt.encode())))
    await simple.drop(parts[0])
    assert (await simple.recover()).staged == parts[1:]
    await simple.prepare(FIRST, [parts[2]])
    assert await simple.recover() == Recovered([parts[2]], [FIRST], [])
    await simple.abort(FIRST)
    await simple.abort(FIRST)
    assert await simple.recover() == Recovered([], [], [])
    with pytest.raises(LookupError, match="batch 0 of pipeline p was never prepared"):
        await simple.commit(FIRST)
    assert await rows_of(database, f"SELECT FROM {schema}.headrace_staged") == []
    assert await rows_of(database, f"SELECT FROM {t}") == []


async def test_a_vote_may_be_asked_for_again_and_for_other_parts(simple, database, t):
    parts = [Part(FIRST, 0, attempt) for attempt in "ab"]
    for part in parts:
        await simple.stage(part, coming(messages(part.attempt.encode())))
    with pytest.raises(LookupError, match=r"partition 1, attempt a, is not staged"):
        await simple.prepare(FIRST, [parts[0], Part(FIRST, 1, "a")])
    await simple.prepare(FIRST, parts)
    await simple.prepare(FIRST, parts)
    await simple.prepare(FIRST, parts[1:])
    assert await simple.recover() == Recovered(parts[1:], [FIRST], [])
    await simple.commit(FIRST)
    assert await rows_of(database, f"SELECT a FROM {t}") == [("b",)]


async def test_a_batch_may_be_prepared_while_the_one_before_waits_for_its_commit(simple, database, t):
    parts = [Part(transaction, 0, "a") for transaction in (FIRST, SECOND)]
    for part in parts:
        await simple.stage(part, coming(messages(str(part.transaction.batch).encode())))
        await simple.prepare(part.transaction, [part])
    assert (await simple.recover()).prepared == [FIRST, SECOND]
    await simple.commit(FIRST)
    await simple.commit(SECOND)
    assert await rows_of(database, f"SELECT a FROM {t} ORDER BY id") == [("0",), ("1",)]


async def test_names_may_hold_anything_and_be_long(simple, make, database, t):
    for transaction in (Transaction("../p'%s:1 \\", 3), Transaction("é" * 120, 2**62)):
        part = Part(transaction, 2**31 - 1, "a/b'c%s" + "x" * 240)
        await simple.stage(part, coming(messages(b"v")))
        await simple.prepare(transaction, [part])
        assert await simple.recover() == Recovered([part], [transaction], (await simple.recover()).committed)
        await simple.commit(transaction)
    assert len((await simple.recover()).committed) == 2


async def test_owners_keep_their_parts_apart(url, t, simple):
    other = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out", owner="1", value_column="a"))
    part = Part(FIRST, 1, "a")
    await other.stage(part, coming(messages(b"other")))
    await simple.stage(Part(FIRST, 0, "a"), coming(messages(b"simple")))
    await other.prepare(FIRST, [part])
    await simple.abort(FIRST)
    assert await other.recover() == Recovered([part], [FIRST], [])
    await other.close()


async def test_a_part_that_was_cut_short_is_gone_after_a_restart(simple, make, database, schema):
    async def broken() -> AsyncIterator[Rows]:
        for _ in range(3):
            yield messages(b"x" * 700_000)
        raise ConnectionError("the gateway is gone")

    with pytest.raises(ConnectionError):
        await simple.stage(Part(FIRST, 0, "a"), broken())
    assert len(await rows_of(database, f"SELECT FROM {schema}.headrace_staged")) == 1
    assert (await (await make(value_column="a")).recover()).staged == []
    assert await rows_of(database, f"SELECT FROM {schema}.headrace_staged") == []


async def test_batches_come_through_a_gateway(simple, gateway, database, t):
    async with running(simple, gateway):
        writer = Writer(gateway)
        await writer.report_commits()
        for batch in range(3):
            answers = [await writer.deliver(batch, [b"%d.%d" % (batch, n), b"a\x00"], partition=n) for n in range(2)]
            assert [[refused.sequence for refused in answer.refused] for answer in answers] == [[1], [1]]
            await writer.vote(batch, writer.part(batch, 0), writer.part(batch, 1))
            while await writer.report_commits(batch):
                pass
        await writer.close()
    found = await rows_of(database, f"SELECT a FROM {t} ORDER BY id")
    assert found == [(f"{batch}.{n}",) for batch in range(3) for n in range(2)]


# What cannot be


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a int, b int NOT NULL", {"columns": ["a"]}, "column b rejects nulls, has no default, and nothing fills it"),
        ("a int", {"columns": ["aa"]}, "has no column aa; did you mean a?"),
        ("a int GENERATED ALWAYS AS IDENTITY", {"columns": ["a"]}, "column a is always generated"),
        ("id serial", {}, "there is nothing to fill"),
        ("a int, at text", {"event_time_column": "at"}, "column at is of type text, and timestamp with time zone"),
    ],
)
async def test_a_table_that_does_not_fit_is_told(make, database, t, columns, options, message):
    await database.execute(f"CREATE TABLE {t} ({columns})")
    with pytest.raises(InvalidSink) as raised:
        await make(**options)
    assert message in str(raised.value)


async def test_a_server_without_prepared_transactions_is_told_what_to_do(url, database, t, monkeypatch):
    await database.execute(f"CREATE TABLE {t} (a text)")
    fetch = Session.fetch

    async def without(session, query, parameters=()):
        return [(0,)] if "max_prepared_transactions" in str(query) else await fetch(session, query, parameters)

    monkeypatch.setattr(Session, "fetch", without)
    sink = PostgreSQLSink(PostgreSQLSinkParameters(url=url, table=t, sink="out"))
    with pytest.raises(InvalidSink, match=r"set max_prepared_transactions in its configuration to 10 or more, and restart it"):
        await sink.recover()
    await sink.close()


async def test_a_table_whose_triggers_notify_cannot_be_prepared(simple, database, schema, t):
    await database.execute(
        f"CREATE FUNCTION {schema}.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY told; RETURN new; END $$"
    )
    await database.execute(f"CREATE TRIGGER tell AFTER INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {schema}.tell()")
    part = Part(FIRST, 0, "a")
    assert await simple.stage(part, coming(messages(b"x"))) is None
    with pytest.raises(Exception, match="cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"):
        await simple.prepare(FIRST, [part])
    assert await simple.recover() == Recovered([part], [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE {}", 'relation "{}" does not exist'),
        ("ALTER TABLE {} RENAME a TO b", "has no column a"),
    ],
)
async def test_a_table_that_changes_meanwhile_fails_the_batch_until_it_is_as_it_was(make, database, t, change, message):
    columns = "id int GENERATED ALWAYS AS IDENTITY, a text"
    await database.execute(f"CREATE TABLE {t} ({columns})")
    sink, parts = await make(value_column="a"), [Part(FIRST, number, "r/a") for number in range(2)]
    assert await sink.stage(parts[0], coming(messages(b"x"))) is None
    await database.execute(change.format(t))
    with pytest.raises((psycopg.Error, InvalidSink)) as raised:
        await sink.prepare(FIRST, parts[:1])
    assert message.format(t) in str(raised.value)
    await database.execute(f"DROP TABLE IF EXISTS {t}")
    await database.execute(f"CREATE TABLE {t} ({columns})")
    assert await sink.recover() == Recovered(parts[:1], [], [])
    assert await sink.stage(parts[1], coming(messages(b"y"))) is None
    await sink.prepare(FIRST, parts)
    await sink.commit(FIRST)
    assert await rows_of(database, f"SELECT a FROM {t} ORDER BY id") == [("x",), ("y",)]


async def test_who_may_not_insert_is_told(url, database, schema, t):
    await database.execute(f"CREATE TABLE {t} (a text)")
    await database.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'secret'")
    try:
        await database.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
        given = {"url": url.replace("headrace:headrace", f"{schema}:secret"), "table": t, "sink": "out"}
        sink = PostgreSQLSink(PostgreSQLSinkParameters(**given))
        with pytest.raises(InvalidSink, match="this user may not insert; run: GRANT INSERT"):
            await sink.recover()
        await database.execute(f"GRANT INSERT ON {t} TO {schema}")
        with pytest.raises(InvalidSink, match=f"permission denied for schema {schema}"):
            await sink.recover()
        await sink.close()
    finally:
        await database.execute(f"DROP OWNED BY {schema}")
        await database.execute(f"DROP ROLE {schema}")
