"""The `nats-sink`, on a real server: by itself, and through a real gateway."""

import asyncio
import logging

import pytest
from nats.js import api
from tests.connectors.nats.rig import Running, connection, until, unused
from tests.gateway.sink_wire import Writer

from headrace.connectors.nats import NatsAway, NatsRefused, NatsSink, NatsSinkParameters
from headrace.sdk import WRITTEN, Message, Part, Rows, Transaction

PART = Part(Transaction("pipeline", 7), 1, "a")


@pytest.fixture
async def sink(nats):
    """Makes sinks, and closes them."""
    made: list[NatsSink] = []

    def make(subject: str, **more) -> NatsSink:
        made.append(NatsSink(NatsSinkParameters(**{"sink": "out", "subject": subject, **connection(nats), **more})))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def rows(*values: bytes | None, **more) -> Rows:
    return Rows.of(*(Message(value) for value in values), **more)


def texts(outcomes) -> list[str]:
    return ["" if outcome == WRITTEN else outcome.reason for outcome in outcomes]


async def values(server, stream: str) -> list[bytes]:
    return [message.data for message in await server.stored(stream)]


# What is written


async def test_values_of_every_kind_are_stored_in_order(server, sink):
    stream = await server.stream()
    given = [b"", b"1", None, b"\x00\xff\r\n", b"x" * 1_000_000, *(b"%d" % n for n in range(10_000))]
    assert await sink(f"{stream}.x", max_in_flight=500).write(rows(*given)) is None
    assert await values(server, stream) == [value or b"" for value in given]


async def test_subjects_come_from_keys_and_headers(server, sink):
    stream = await server.stream()
    out = sink(f"{stream}.{{key}}.{{header:H}}", key_header="K")
    assert (
        await out.write(Rows.of(Message(b"1", b"a.b", headers=[("H", b"c")]), Message(b"2", "ö".encode(), headers=[("H", b"d")])))
        is None
    )
    stored = await server.stored(stream)
    assert [message.subject for message in stored] == [f"{stream}.a.b.c", f"{stream}.ö.d"]
    assert [message.headers["K"] for message in stored] == ["a.b", "ö"]


async def test_headers_are_stored_as_nats_has_them(server, sink):
    stream = await server.stream()
    headers = [("A", b"1"), ("A", b" 2 "), ("Null", None), ("Empty", b""), ("u", "ö".encode()), ("Nats-Rollup", b"all")]
    assert await sink(f"{stream}.x", deduplicate="given").write(Rows.of(Message(b"", headers=headers, message_id="one"))) is None
    (stored,) = await server.stored(stream)
    assert stored.headers == {"A": "2", "Null": "", "Empty": "", "u": "ö", "Nats-Msg-Id": "one"}


async def test_what_goes_in_comes_out(server, sink, source):
    stream = await server.stream()
    message = Message(b"\xff\x00", b"a.b", message_id="one", headers=[("A", b"1"), ("B", b""), ("A", b"2")])
    assert await sink(f"{stream}.{{key}}").write(Rows.of(message)) is None
    reading = source(stream).read(stream, None)
    batch = await anext(reading)
    await reading.aclose()
    assert (batch.values, batch.keys, batch.message_ids) == ([message.value], [f"{stream}.a.b".encode()], ["one"])
    assert batch.headers == [[("A", b"1"), ("B", b""), ("A", b"2")]]


async def test_the_server_is_given_instructions_only_where_that_is_wanted(server, sink):
    stream = await server.stream(allow_rollup_hdrs=True)
    rollup = Rows.of(Message(b"new", headers=[("Nats-Rollup", b"all"), ("Nats-Msg-Id", b"mine")]))
    await sink(f"{stream}.x").write(rows(b"old"))
    await sink(f"{stream}.x").write(rollup)
    assert await values(server, stream) == [b"old", b"new"]
    await sink(f"{stream}.x", nats_headers=True).write(rollup)
    assert await values(server, stream) == [b"new"]


# Once


async def test_a_batch_that_is_delivered_again_is_stored_once(server, sink):
    stream = await server.stream()
    batch = rows(b"same", b"same", b"other", part=PART)
    await sink(f"{stream}.x").write(batch)
    await sink(f"{stream}.x").write(Rows(batch.frame, Part(PART.transaction, PART.partition, "another attempt")))
    assert await values(server, stream) == [b"same", b"same", b"other"]


@pytest.mark.parametrize(
    "other",
    [
        Part(Transaction("pipeline", 8), 1, "a"),
        Part(Transaction("pipeline", 7), 2, "a"),
        Part(Transaction("other", 7), 1, "a"),
    ],
)
async def test_messages_of_other_batches_are_never_taken_for_repeats(server, sink, other):
    stream = await server.stream()
    for part in (PART, other):
        await sink(f"{stream}.x").write(rows(b"a", b"b", part=part))
    assert await values(server, stream) == [b"a", b"b", b"a", b"b"]


async def test_another_message_in_the_same_place_is_not_taken_for_a_repeat(server, sink):
    stream = await server.stream()
    await sink(f"{stream}.x").write(rows(b"a", b"b", part=PART))
    await sink(f"{stream}.x").write(rows(b"b", b"a", b"c", part=PART))
    assert sorted(await values(server, stream)) == [b"a", b"a", b"b", b"b", b"c"]


async def test_ids_of_messages_win_wherever_they_are(server, sink):
    stream = await server.stream()
    out = sink(f"{stream}.x")
    await out.write(Rows.of(Message(b"a", message_id="1"), Message(b"b", message_id="2"), part=PART))
    again = Part(Transaction("pipeline", 9), 0, "b")
    await out.write(Rows.of(Message(b"b", message_id="2"), Message(b"a", message_id="1"), part=again))
    assert await values(server, stream) == [b"a", b"b"]


async def test_messages_that_share_an_id_and_differ_are_refused_rather_than_dropped(server, sink, caplog):
    stream = await server.stream()
    given = [Message(b"a", message_id="1"), Message(b"b", message_id="1"), Message(b"a", message_id="1")]
    with caplog.at_level(logging.INFO):
        outcomes = texts(await sink(f"{stream}.x").write(Rows.of(*given)))
    assert outcomes == ["", "another message has the id 1: give each message its own id", ""]
    assert await values(server, stream) == [b"a"]
    assert "the stream already had 1 of 2 messages" in caplog.text


@pytest.mark.parametrize(("mode", "ids"), [("all", 2), ("given", 1), ("none", 0)])
async def test_which_messages_get_ids(server, sink, mode, ids):
    stream = await server.stream()
    await sink(f"{stream}.x", deduplicate=mode).write(Rows.of(Message(b"a"), Message(b"b", message_id="b"), part=PART))
    assert sum("Nats-Msg-Id" in (message.headers or {}) for message in await server.stored(stream)) == ids


# What is refused


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message(b"x" * 1_048_577, b"k"), "and the server accepts at most 1048576"),
        (Message(b"x" * 1_048_570, b"k", headers=[("a", b"1")]), "and the server accepts at most 1048576"),
        (Message(b"", None), "the subject needs a key, and there is none"),
        (Message(b"", b"\xff"), "the subject needs text, and key is not UTF-8"),
        (Message(b"", b""), "is not a valid subject"),
        (Message(b"", b"a b"), "is not a valid subject"),
        (Message(b"", b"a..b"), "is not a valid subject"),
        (Message(b"", b"*"), "is not a valid subject"),
        (Message(b"", b"a.>"), "is not a valid subject"),
        (Message(b"", b"a\r\nPUB evil 0"), "is not a valid subject"),
        (Message(b"", b"k" * 4000), "is above the limit of 3900"),
        (Message(b"", b"k", headers=[("a b", b"")]), "cannot be the name of a header"),
        (Message(b"", b"k", headers=[("a", b"\xff")]), "header a cannot be a header's value: it is not UTF-8"),
        (Message(b"", b"k", headers=[("a", b"1\r\nb: 2")]), "header a cannot be a header's value: it has more than one line"),
        (Message(b"", b"k", message_id="1\n2"), "the message id cannot be a header's value"),
    ],
)
async def test_what_nats_cannot_have_is_refused_and_the_rest_is_written(server, sink, message, why):
    stream = await server.stream()
    out = sink(f"{stream}.{{key}}", deduplicate="given")
    first, second, third = texts(await out.write(Rows.of(Message(b"a", b"k"), message, Message(b"b", b"k"))))
    assert (first, third) == ("", "")
    assert why in second
    assert await values(server, stream) == [b"a", b"b"]


async def test_a_value_as_large_as_may_be_and_a_subject_as_long(server, sink):
    stream = await server.stream()
    subject = f"{stream}." + "k" * (3900 - len(stream) - 1)
    out = sink("{key}", deduplicate="none")
    assert await out.write(Rows.of(Message(b"x" * 1_048_576, subject.encode()))) is None
    assert [len(message.subject) for message in await server.stored(stream)] == [3900]


async def test_a_key_cannot_speak_to_the_server(server, sink):
    stream = await server.stream()
    out = sink("{key}")
    victim = f"$JS.API.STREAM.DELETE.{stream}".encode()
    assert ["of the server itself" in text for text in texts(await out.write(Rows.of(Message(b"", victim))))] == [True]
    assert (await server.js.stream_info(stream)).config.name == stream


async def test_a_subject_that_no_stream_takes_is_refused(server, sink):
    stream = await server.stream()
    out = sink("{key}", deduplicate="given")
    (outcomes) = texts(await out.write(Rows.of(Message(b"a", b"nobody.x"), Message(b"b", f"{stream}.x".encode()))))
    assert outcomes == ["no stream stores the subject nobody.x", ""]


async def test_a_stream_that_is_not_the_one_that_is_wanted_refuses(server, sink):
    stream = await server.stream()
    assert "expected stream does not match" in texts(await sink(f"{stream}.x", stream="other").write(rows(b"a")))[0]
    assert await sink(f"{stream}.x", stream=stream).write(rows(b"a")) is None


async def test_what_is_larger_than_the_stream_takes_is_refused(server, sink):
    stream = await server.stream(max_msg_size=100)
    first, second = texts(await sink(f"{stream}.x").write(rows(b"x" * 1000, b"a")))
    assert "message size exceeds maximum allowed" in first
    assert second == ""


# Faults


async def test_a_full_stream_is_waited_for(server, sink, caplog):
    stream = await server.stream(max_msgs=5, discard="new", retention="workqueue")
    writing = asyncio.create_task(sink(f"{stream}.x").write(rows(*(b"%d" % n for n in range(20)))))
    reader = await server.js.pull_subscribe("", "r", stream)
    with caplog.at_level(logging.WARNING):
        await until(lambda: "maximum messages exceeded" in caplog.text)
    taken = []
    while len(taken) < 20:
        for message in await reader.fetch(5, timeout=60):
            taken.append(message.data)
            await message.ack_sync()
    assert await writing is None
    assert sorted(map(int, taken)) == list(range(20))


async def test_a_stream_that_stays_full_fails_the_part(server, sink):
    stream = await server.stream(max_msgs=5, discard="new")
    with pytest.raises(NatsAway, match=r"15 messages are not written: .*maximum messages exceeded .* max_msgs of the stream"):
        await sink(f"{stream}.x", retry_seconds=0.3).write(rows(*(b"%d" % n for n in range(20))))


# Limits and settings of streams


@pytest.mark.parametrize("subject", ["x", "{key}"])
async def test_a_stream_that_acknowledges_nothing_is_named_and_not_written_again(server, sink, subject, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.publisher._ANSWER_S", 0.5)
    stream = await server.stream(no_ack=True)
    out = sink(f"{stream}.{subject}", deduplicate="none")
    given = Rows.of(*(Message(b"%d" % n, b"k") for n in range(10)))
    for _ in range(3):
        with pytest.raises(NatsRefused, match=f"stream {stream} has no_ack: .*nats stream edit {stream} --ack"):
            await out.write(given)
    assert (await server.js.stream_info(stream)).state.messages == 10
    await server.js.update_stream(api.StreamConfig(name=stream, subjects=[f"{stream}.>"], no_ack=False))
    assert await out.write(given) is None


async def test_one_full_subject_does_not_hold_up_others(server, sink):
    stream = await server.raw_stream(
        unused("FULL"), discard="new", discard_new_per_subject=True, max_msgs_per_subject=5, retention="workqueue"
    )
    given = [Message(b"%d" % n, b"a" if n < 10 else b"b%d" % n) for n in range(19)]
    out = sink(f"{stream}.{{key}}", retry_seconds=0.5)
    said = texts(await out.write(Rows.of(*given)))
    assert [bool(text) for text in said] == [n in range(5, 10) for n in range(19)]
    assert f"subject {stream}.a: JetStream reports: maximum messages per subject exceeded" in said[5]
    assert "the cause is max_msgs_per_subject of the stream" in said[5]
    failing = sink(f"{stream}.{{key}}", retry_seconds=0.5, full_subject="fail")
    with pytest.raises(NatsAway, match=f"5 messages are not written: subject {stream}.a: .*max_msgs_per_subject"):
        await failing.write(Rows.of(*(Message(b"again %d" % n, b"a" if n < 5 else b"c%d" % n) for n in range(10))))


@pytest.mark.parametrize(
    ("config", "headers", "said"),
    [
        ({}, [("Nats-Rollup", b"sub")], "the cause is allow_rollup_hdrs of the stream"),
        ({}, [("Nats-TTL", b"10s")], "the cause is allow_msg_ttl of the stream"),
        ({"allow_msg_ttl": True}, [("Nats-TTL", b"soon")], "the cause is the header Nats-TTL"),
        ({"max_msg_size": 100}, [("h", b"x" * 100)], "the cause is max_msg_size of the stream"),
    ],
)
async def test_a_setting_that_does_not_allow_a_message_is_named_and_that_message_alone_is_refused(
    server, sink, config, headers, said
):
    stream = await server.raw_stream(unused("SET"), **config)
    out = sink(f"{stream}.x", nats_headers=True)
    refused = texts(await out.write(Rows.of(Message(b"1"), Message(b"2", headers=headers), Message(b"3"))))
    assert (refused[0], refused[2]) == ("", "")
    assert said in refused[1]
    assert await values(server, stream) == [b"1", b"3"]


@pytest.mark.parametrize(
    ("config", "setting"),
    [({"max_bytes": 1000}, "max_bytes of the stream"), ({"max_msgs": 3}, "max_msgs of the stream")],
)
async def test_a_bucket_that_is_full_fails_the_batch_with_the_setting(server, sink, config, setting):
    bucket = unused("KV_b")
    await server.raw_stream(bucket, subjects=[f"$KV.{bucket}.>"], discard="new", max_msgs_per_subject=1, **config)
    given = Rows.of(*(Message(b"x" * 100, b"k%d" % n) for n in range(20)))
    with pytest.raises(NatsAway, match=f"messages are not written: .*the cause is {setting}"):
        await sink(f"$KV.{bucket}.{{key}}", retry_seconds=0.3).write(given)


@pytest.mark.parametrize("fault", ["kill", "reset", "refuse"])
async def test_what_was_not_acknowledged_is_published_again(nats, server, sink, network, fault):
    stream = await server.stream()
    between = network(nats)
    out = sink(f"{stream}.x", **connection(nats, between.port), max_in_flight=200)
    given = [b"%d" % n for n in range(8000)]
    writing = asyncio.create_task(out.write(rows(*given, part=PART)))
    await until(lambda: _has_some(server, stream))
    if fault == "kill":
        await asyncio.to_thread(nats.kill)
        await asyncio.to_thread(nats.start)
    else:
        await asyncio.to_thread(getattr(between, fault))
        await asyncio.to_thread(between.restore)
    assert await writing is None
    assert await values(server, stream) == given


async def _has_some(server, stream: str) -> bool:
    return (await server.js.stream_info(stream)).state.messages > 0


async def test_a_network_that_hangs_is_noticed(nats, server, sink, network, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.publisher._ANSWER_S", 0.3)
    monkeypatch.setattr("headrace.connectors.nats.connection.REQUEST_S", 0.3)
    stream = await server.stream()
    between = network(nats)
    out = sink(f"{stream}.x", **connection(nats, between.port), connect_seconds=0.3, retry_seconds=20)
    await out.write(rows(b"a", part=PART))
    await asyncio.to_thread(between.cut)
    writing = asyncio.create_task(out.write(rows(b"b", first=1, part=PART)))
    await until(lambda: out._publisher is None)
    await asyncio.to_thread(between.restore)
    assert await writing is None
    assert await values(server, stream) == [b"a", b"b"]


async def test_a_server_that_stays_away_fails_the_part(nats, sink, network):
    between = network(nats)
    await asyncio.to_thread(between.refuse)
    with pytest.raises(NatsAway, match="1 message is not written"):
        await sink("x", **connection(nats, between.port), retry_seconds=0.2).write(rows(b"a"))


async def test_wrong_credentials_fail_the_part_at_once(sink):
    with pytest.raises(NatsRefused, match="check user and password"):
        await sink("x", password="wrong").write(rows(b"a"))


# Through a gateway


async def test_a_sink_that_is_killed_writes_its_batch_again_and_it_is_there_once(server, address, process):
    stream = await server.stream(max_msgs=1000, discard="new")
    connector = process("nats-sink", sink="out", subject=f"{stream}.x")
    connector.start()
    writer = Writer(address)
    await writer.report_commits()
    given = [b"%d" % n for n in range(3000)]
    first = writer.deliver(0, given)
    # It has written as much as there is room for, and waits.
    await until(lambda: _is_full(server, stream, 1000))
    connector.kill()
    with pytest.raises(Exception, match="session"):
        await first
    await server.js.update_stream(name=stream, subjects=[f"{stream}.>"], max_msgs=-1, discard="new")
    connector.start()
    await writer.deliver(0, given, attempt="b")
    await writer.vote(0, writer.part(0, attempt="b"))
    await writer.close()
    # Messages of the killed one may be stored as late as there is room for it.
    assert sorted(map(int, await values(server, stream))) == list(range(3000))


async def _is_full(server, stream: str, count: int) -> bool:
    return (await server.js.stream_info(stream)).state.messages == count


async def test_what_is_refused_is_told_to_spark(server, sink, address):
    stream = await server.stream(max_msg_size=100)
    running = Running(sink(f"{stream}.x"), address)
    writer = Writer(address)
    await writer.report_commits()
    told = await writer.deliver(0, [b"a", b"x" * 1000])
    assert [refused.sequence for refused in told.refused] == [1]
    await writer.close()
    await running.stop()
    assert await values(server, stream) == [b"a"]
