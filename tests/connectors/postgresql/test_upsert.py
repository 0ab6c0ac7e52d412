"""The sink that keeps the last message of each key: batches once, in order, and in one transaction."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from tests.connectors.postgresql.rig import DEADLINE_S, coming, connected, messages, rows_of, running, until_rows
from tests.fake_gateway.sinks import frame_of
from tests.gateway.sink_wire import Writer

from headrace.connectors.postgresql import PostgreSQLUpsertParameters, PostgreSQLUpsertSink
from headrace.sdk import WRITTEN, InvalidSink, Message, Refused, Rows, Transaction

FIRST, SECOND = Transaction("p", 0), Transaction("p", 1)
Make = Callable[..., PostgreSQLUpsertSink]


@pytest.fixture
async def make(url: str, schema: str) -> AsyncIterator[Make]:
    """Makes sinks that write to the table `t` of the schema."""
    made: list[PostgreSQLUpsertSink] = []

    def sink(**options: object) -> PostgreSQLUpsertSink:
        given = {"url": url, "table": f"{schema}.t", "sink": "out", "key_columns": "k", **options}
        made.append(PostgreSQLUpsertSink(PostgreSQLUpsertParameters(**given)))
        return made[-1]

    yield sink
    for each in made:
        await each.close()


@pytest.fixture
def t(schema: str) -> str:
    return f"{schema}.t"


def keyed(*pairs: tuple[bytes | None, object]) -> Rows:
    """Messages of keys and JSON values; of None, tombstones."""
    return messages(*(Message(None if value is None else json.dumps(value).encode(), key=key) for key, value in pairs))


async def test_the_last_message_of_each_key_is_kept(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k text PRIMARY KEY, n int, at timestamptz DEFAULT '2020-01-01')")
    sink = make()
    first = keyed((b"a", {"n": 1}), (b"b", {"n": 2}), (b"a", {"n": 3}), (b"c", {"n": 4}), (b"c", None))
    await sink.write(FIRST, coming(first, keyed((b"b", {"n": 5}), (b"d", {"n": 6}))))
    assert await rows_of(database, f"SELECT k, n FROM {t} ORDER BY k") == [("a", 3), ("b", 5), ("d", 6)]
    await database.execute(f"UPDATE {t} SET at = '2021-01-01'")
    await sink.write(SECOND, coming(keyed((b"a", None), (b"b", {"n": 7}), (b"d", None), (b"d", {}), (b"gone", None))))
    assert await rows_of(database, f"SELECT k, n, at::date::text FROM {t} ORDER BY k") == [
        ("b", 7, "2021-01-01"),
        ("d", None, "2021-01-01"),
    ]


async def test_a_batch_is_written_once_and_the_next_life_knows_it(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k int PRIMARY KEY, n int)")
    sink = make()
    assert await sink.pipelines() == []
    assert await sink.last("p") is None
    await sink.write(FIRST, coming(keyed((b"1", {"n": 1}))))
    await database.execute(f"UPDATE {t} SET n = 100")
    await sink.write(FIRST, coming(keyed((b"1", {"n": 1}))))
    assert await rows_of(database, f"SELECT n FROM {t}") == [(100,)]
    again = make()
    assert await again.pipelines() == ["p"]
    assert await again.last("p") == 0
    await again.write(FIRST, coming(keyed((b"1", {"n": 1}))))
    await again.write(SECOND, coming(keyed((b"1", {"n": 2}))))
    await again.write(Transaction("q", 9), coming())
    assert await rows_of(database, f"SELECT n FROM {t}") == [(2,)]
    assert [await again.last(pipeline) for pipeline in ("p", "q")] == [1, 9]
    # A batch that is written anew from an older checkpoint, because somebody wants that.
    await again.write(FIRST, coming(keyed((b"1", {"n": 3}))))
    assert await rows_of(database, f"SELECT n FROM {t}") == [(3,)]
    assert await again.last("p") == 0


async def test_keys_of_many_columns_and_keys_in_the_value(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k int, l text, v text, UNIQUE (l, k))")
    await database.execute(f"ALTER TABLE {t} ALTER k SET NOT NULL, ALTER l SET NOT NULL")
    sink = make(key_columns=("k", "l"), value_column="v")
    await sink.write(
        FIRST, coming(messages(Message(b"x", key=b'{"k": 1, "l": "a"}'), Message(b"y", key=b'{"l": "a", "k": "1"}')))
    )
    assert await rows_of(database, f"SELECT * FROM {t}") == [(1, "a", "y")]
    await sink.write(SECOND, coming(messages(Message(None, key=b'{"k": 1, "l": "a"}'))))
    assert await rows_of(database, f"SELECT * FROM {t}") == []
    from_value = make(key_columns=("k", "l"), key="value", columns="v", sink="other")
    rows = messages(b'{"k": 1, "l": "a", "v": "z"}', Message(None, key=b"1"), b'{"k": 1}')
    outcomes = await from_value.check(rows)
    assert outcomes[:2] == [WRITTEN, Refused("the message has no value, which should contain its key")]
    assert 'null value in column "l"' in outcomes[2].reason
    await from_value.write(FIRST, coming(messages(b'{"k": 1, "l": "a", "v": "z"}')))
    assert await rows_of(database, f"SELECT * FROM {t}") == [(1, "a", "z")]


async def test_keys_that_are_equal_for_the_table_are_one_key(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k numeric PRIMARY KEY, n int)")
    await make().write(FIRST, coming(keyed((b"1", {"n": 1}), (b"1.0", {"n": 2}), (b" 1 ", {"n": 3}))))
    assert await rows_of(database, f"SELECT k::int, n FROM {t}") == [(1, 3)]


async def test_values_of_every_kind(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k bytea PRIMARY KEY, v bytea, at timestamptz, h jsonb)")
    sink = make(value_column="v", event_time_column="at", headers_column="h")
    big = bytes(range(256)) * 4096
    rows = messages(
        Message(b"", key=b""), Message(b"x", key=b"\x00\xff", event_time=0, headers=[("a", b"b")]), Message(big, key=b"big")
    )
    assert await sink.check(rows) is None
    await sink.write(FIRST, coming(rows))
    assert await rows_of(database, f"SELECT k, v, extract(epoch FROM at)::int, h FROM {t} ORDER BY k") == [
        (b"", b"", None, None),
        (b"\x00\xff", b"x", 0, [{"name": "a", "value": "b"}]),
        (b"big", big, None, None),
    ]


async def test_a_table_of_keys_alone(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k text PRIMARY KEY)")
    await make().write(FIRST, coming(keyed((b"a", {}), (b"a", {"n": 1}), (b"b", None))))
    assert await rows_of(database, f"SELECT k FROM {t}") == [("a",)]


async def test_what_the_table_refuses_is_told_before_it_is_written(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k int PRIMARY KEY, n int CHECK (n < 10), email text UNIQUE)")
    await database.execute(f"INSERT INTO {t} VALUES (1, 1, 'taken')")
    rows = keyed(
        (b"2", {"n": 1}), (b"x", {"n": 1}), (None, {"n": 1}), (b"3", {"n": 10}), (b"4", {"email": "taken"}), (b"y", None)
    )
    outcomes = await make().check(rows)
    assert outcomes[0] == WRITTEN
    reasons = [outcome.reason for outcome in outcomes[1:]]
    assert [reason.split(";")[0] for reason in reasons] == [
        'invalid input syntax for type integer: "x"',
        "the message has no key",
        'new row for relation "t" violates check constraint "t_n_check"',
        'duplicate key value violates unique constraint "t_email_key"',
        'invalid input syntax for type integer: "y"',
    ]
    assert await rows_of(database, f"SELECT k FROM {t}") == [(1,)]


async def test_what_is_deleted_makes_room_for_what_is_inserted(make, database, t):
    await database.execute(f"CREATE TABLE {t} (k int PRIMARY KEY, email text UNIQUE)")
    await database.execute(f"INSERT INTO {t} VALUES (1, 'a')")
    rows = keyed((b"2", {"email": "a"}), (b"1", None))
    sink = make()
    assert await sink.check(rows) is None
    await sink.write(FIRST, coming(rows))
    assert await rows_of(database, f"SELECT * FROM {t}") == [(2, "a")]


async def test_a_deadlock_is_tried_again(make, database, url, t, stack):
    await database.execute(f"CREATE TABLE {t} (k int PRIMARY KEY, n int)")
    await database.execute(f"INSERT INTO {t} VALUES (1, 0), (2, 0)")
    other = await stack.enter_async_context(await connected(url))
    # It notices the deadlock later than the sink, so that the sink is the one to be undone.
    await other.execute("SET deadlock_timeout = '60s'")
    await other.execute("BEGIN")
    await other.execute(f"UPDATE {t} SET n = 5 WHERE k = 2")
    writing = asyncio.create_task(make().write(FIRST, coming(keyed((b"1", {"n": 1}), (b"2", {"n": 2})))))
    await until_rows(database, "SELECT FROM pg_locks WHERE NOT granted")
    await asyncio.wait_for(other.execute(f"UPDATE {t} SET n = 5 WHERE k = 1"), DEADLINE_S)
    await other.execute("COMMIT")
    await asyncio.wait_for(writing, DEADLINE_S)
    assert await rows_of(database, f"SELECT * FROM {t} ORDER BY k") == [(1, 1), (2, 2)]


async def test_many_chunks_and_updates_come_through_a_gateway(make, gateway, database, t):
    await database.execute(f"CREATE TABLE {t} (k text PRIMARY KEY, v text)")
    async with running(make(value_column="v"), gateway):
        writer = Writer(gateway)
        await writer.report_commits()
        for batch in range(2):
            # The gateway's side sends no keys: they are refused, and told.
            answer = await writer.deliver(batch, [b"x"])
            assert [refused.reason for refused in answer.refused] == ["the message has no key"]
            await writer.vote(batch)
            while await writer.report_commits(batch):
                pass
        await writer.close()
    sink = make(value_column="v", sink="direct")
    frames = [
        Rows(frame_of([b"%d" % n for n in range(at, at + 5000)], keys=[b"%d" % (n % 7000) for n in range(at, at + 5000)]))
        for at in range(0, 20_000, 5000)
    ]
    await sink.write(FIRST, coming(*frames))
    found = dict(await rows_of(database, f"SELECT k, v FROM {t}"))
    assert found == {str(n % 7000): str(n) for n in range(20_000)}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("k int, n int", {}, "there is no unique constraint on exactly k; run: ALTER TABLE"),
        ("k int UNIQUE, n int", {}, "column k of the key accepts nulls"),
        ("k int, l int, PRIMARY KEY (k, l)", {}, "there is no unique constraint on exactly k"),
        ("k int PRIMARY KEY DEFERRABLE, n int", {}, "there is no unique constraint on exactly k"),
    ],
)
async def test_a_table_that_does_not_fit_is_told(make, database, t, columns, options, message):
    await database.execute(f"CREATE TABLE {t} ({columns})")
    with pytest.raises(InvalidSink) as raised:
        await make(**options).pipelines()
    assert message in str(raised.value)
