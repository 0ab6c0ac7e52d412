"""Servers that die, networks that fail, credentials that are wrong, and connectors that are killed."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError
from scripts.brokers import PostgreSQL
from tests.brokers.network import FaultyNetwork
from tests.connectors.postgresql.rig import (
    DEADLINE_S,
    Stream,
    coming,
    connected,
    in_database,
    messages,
    rows_of,
    running,
    sequences,
    started,
    until,
    until_rows,
    values,
    write,
)
from tests.gateway.sink_wire import Writer

from headrace.connectors.postgresql import (
    PostgreSQLParameters,
    PostgreSQLSink,
    PostgreSQLSinkParameters,
    PostgreSQLSource,
    PostgreSQLUpsertParameters,
    PostgreSQLUpsertSink,
)
from headrace.sdk import InvalidSink, InvalidSource, Part, Recovered, Transaction

Network = Callable[[PostgreSQL], FaultyNetwork]
FIRST, SECOND = Transaction("p", 0), Transaction("p", 1)


@pytest.fixture
def numbered(url: str, table: str) -> str:
    in_database(url, f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value text)")
    return table


def insert(url: str, table: str, first: int, last: int) -> None:
    in_database(url, f"INSERT INTO {table} (value) SELECT n::text FROM generate_series({first}, {last}) n")


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


def source(url: str, table: str, **options: object) -> PostgreSQLSource:
    given = {"value_column": "value", "poll_seconds": 0.02, "timeout_seconds": 1, **options}
    return PostgreSQLSource(PostgreSQLParameters(url=url, table=table, source="s", **given))


@asynccontextmanager
async def process(kind: str, gateway: str, **parameters: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A connector in a process of its own."""
    command = (sys.executable, "-m", "tests.connectors.postgresql.programs", kind, gateway, json.dumps(parameters))
    started = await asyncio.create_subprocess_exec(*command)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


# A source


async def test_the_server_may_be_killed_and_restarted_while_it_is_read(postgresql, url, numbered, gateway):
    insert(url, numbered, 1, 1000)
    stream = Stream(gateway, "s/0")
    async with running(source(url, numbered), gateway):
        await stream.attach()
        await stream.read(1000)
        await asyncio.to_thread(postgresql.kill)
        await started(postgresql)
        insert(url, numbered, 1001, 2000)
        await stream.read(1000)
        await asyncio.to_thread(postgresql.stop)
        await started(postgresql)
        insert(url, numbered, 2001, 2500)
        await stream.read(500)
    assert values(stream.messages) == numbers(1, 2500)
    assert sequences(stream.messages) == sorted(set(sequences(stream.messages)))
    await stream.close()


async def test_a_network_that_fails_is_waited_for(postgresql, url, numbered, gateway, network, caplog):
    caplog.set_level(logging.WARNING)
    between = network(postgresql)
    stream = Stream(gateway, "s/0")
    async with running(source(postgresql.url_at(between.port), numbered), gateway):
        await stream.attach()
        for number, (fail, message) in enumerate(
            [(between.cut, "no answer within 1 s"), (between.refuse, ""), (between.reset, "")]
        ):
            insert(url, numbered, 10 * number, 10 * number + 4)
            assert values(await stream.read(5)) == numbers(10 * number, 10 * number + 4)
            fail()
            insert(url, numbered, 10 * number + 5, 10 * number + 9)
            await until(lambda message=message: message in caplog.text)
            between.restore()
            assert values(await stream.read(5)) == numbers(10 * number + 5, 10 * number + 9)
    assert "retrying" in caplog.text
    assert postgresql.password + "@" not in caplog.text
    await stream.close()


@pytest.mark.parametrize("kind", ["postgresql", "postgresql-outbox"])
async def test_a_source_that_is_killed_goes_on_where_it_was(url, numbered, gateway, kind):
    insert(url, numbered, 1, 30_000)
    stream = Stream(gateway, "s/0")
    await stream.attach()
    for share in (1, 2, 3):
        async with process(kind, gateway, url=url, table=numbered, source="s", value_column="value"):
            while len(stream.messages) < share * 10_000:
                await stream.read(1, at_most=2000)
    assert values(stream.messages) == numbers(1, 30_000)
    await stream.close()


# What cannot be mended by waiting


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password": "wrong"}, 'password authentication failed for user "headrace"'),
        ({"url": "nobody:x@"}, 'password authentication failed for user "nobody"'),
        ({"url": "/nothing"}, 'database "nothing" does not exist'),
        ({"url": "?sslmode=require"}, "server does not support SSL"),
    ],
)
async def test_what_is_wrong_ends_the_connector(url, wrong, message, gateway):
    place = wrong.get("url", "")
    if place.endswith("@"):
        url = url.replace("headrace:headrace@", place)
    elif place.startswith("/"):
        url = url.replace("/postgres", place)
    else:
        url += place
    options = {"url": url, **({"password": wrong["password"]} if "password" in wrong else {})}
    with pytest.raises(InvalidSource) as raised:
        await anext(PostgreSQLSource(PostgreSQLParameters(table="t", source="s", **options)).read("0", None))
    assert message in str(raised.value)
    assert "headrace:headrace" not in str(raised.value)
    sink = PostgreSQLSink(PostgreSQLSinkParameters(table="t", sink="out", **options))
    with pytest.raises(InvalidSink, match="PostgreSQL at 127"):
        await sink.recover()
    upsert = PostgreSQLUpsertSink(PostgreSQLUpsertParameters(table="t", sink="out", key_columns="k", **options))
    with pytest.raises(InvalidSink, match="PostgreSQL at 127"):
        await upsert.pipelines()


def test_passwords_are_not_shown(url):
    given = PostgreSQLParameters(url=url, password="s3cret", table="t", source="s")
    assert "s3cret" not in repr(given)
    assert "headrace:headrace" not in repr(given)
    with pytest.raises(ValidationError, match="libpq cannot parse it; write postgresql://") as raised:
        PostgreSQLParameters(url="postgresql://u:s3cret@host:port/?nonsense=1", table="t", source="s")
    assert "s3cret" not in str(raised.value)


# Sinks


@pytest.fixture
async def sinks(url: str, schema: str) -> AsyncIterator[Callable[..., PostgreSQLSink]]:
    """Makes sinks that write to the table `t` of the schema."""
    in_database(url, f"CREATE TABLE {schema}.t (id bigint GENERATED ALWAYS AS IDENTITY, v text)")
    made: list[PostgreSQLSink] = []

    def make(**options: object) -> PostgreSQLSink:
        given = {"url": url, "table": f"{schema}.t", "sink": "out", "value_column": "v", "timeout_seconds": 1, **options}
        made.append(PostgreSQLSink(PostgreSQLSinkParameters(**given)))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_what_is_staged_and_voted_for_outlives_the_server(postgresql, url, schema, sinks):
    sink, parts = sinks(), [Part(FIRST, number, "r/a") for number in range(2)]
    await sink.recover()
    await sink.stage(parts[0], coming(messages(b"a")))
    await asyncio.to_thread(postgresql.kill)
    await started(postgresql)
    await sink.stage(parts[1], coming(messages(b"b")))
    await sink.prepare(FIRST, parts)
    await asyncio.to_thread(postgresql.kill)
    await started(postgresql)
    assert await sink.recover() == Recovered(parts, [FIRST], [])
    await sink.commit(FIRST)
    assert await sink.recover() == Recovered([], [], [FIRST])
    await write(sink, SECOND, messages(b"c"))
    async with await connected(url) as database:
        assert await rows_of(database, f"SELECT v FROM {schema}.t ORDER BY id") == [("a",), ("b",), ("c",)]


async def test_a_sink_waits_for_a_network_that_hangs(postgresql, database, schema, sinks, network):
    between = network(postgresql)
    sink, part = sinks(url=postgresql.url_at(between.port)), Part(FIRST, 0, "r/a")
    await sink.recover()
    steps = [
        lambda: sink.stage(part, coming(messages(b"a"))),
        lambda: sink.prepare(FIRST, [part]),
        lambda: sink.commit(FIRST),
    ]
    for step in steps:
        between.cut()
        going = asyncio.create_task(step())
        done, _ = await asyncio.wait({going}, timeout=1.2)
        assert not done
        between.restore()
        await asyncio.wait_for(going, DEADLINE_S)
    assert await rows_of(database, f"SELECT v FROM {schema}.t") == [("a",)]


async def test_only_one_process_writes_for_an_owner(sinks, caplog):
    caplog.set_level(logging.WARNING)
    one, two = sinks(), sinks()
    await one.recover()
    await sinks(owner="other").recover()
    waiting = asyncio.create_task(two.recover())
    await until(lambda: "another process writes the sink out as owner 0; give each its own owner" in caplog.text)
    await one.close()
    assert await asyncio.wait_for(waiting, DEADLINE_S) == Recovered([], [], [])


async def test_a_sink_that_is_killed_after_its_vote_is_told_to_commit(url, database, schema, sinks, gateway):
    given = {"url": url, "table": f"{schema}.t", "sink": "out", "value_column": "v"}
    writer = Writer(gateway)
    await writer.report_commits()
    async with process("postgresql-sink", gateway, **given):
        await writer.deliver(0, [b"a", b"b"])
        await writer.vote(0)
    assert await writer.report_commits(committed=0) == 1
    assert await rows_of(database, f"SELECT FROM {schema}.t") == []
    async with process("postgresql-sink", gateway, **given):
        await until_rows(database, f"SELECT FROM {schema}.t")
        assert await rows_of(database, f"SELECT v FROM {schema}.t ORDER BY id") == [("a",), ("b",)]
    await writer.close()
