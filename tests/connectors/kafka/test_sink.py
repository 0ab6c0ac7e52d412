"""The Kafka sink on a real broker, by itself and through a gateway."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaTimeoutError
from kafka.partitioner import murmur2
from tests.connectors.kafka.rig import Log, wait
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import serve as gateway_serving
from tests.sdk.python.test_sinks_with_gateway import serving, visible

from headrace.connectors.kafka import (
    KAFKA_SINK,
    Fenced,
    KafkaAway,
    KafkaFailed,
    KafkaSink,
    KafkaSinkParameters,
    python_transactions,
)
from headrace.sdk import WRITTEN, InvalidSink, Message, Refused, Rows, Transaction

NOW = time.time_ns() // 1000


@pytest.fixture
def make(log: Log, topic: str, each_client: str):
    """Makes sinks of one name, as if each were another process."""
    made: list[KafkaSink] = []

    def sink(**parameters: object) -> KafkaSink:
        made.append(
            KafkaSink(
                KafkaSinkParameters(
                    **{"bootstrap_servers": log.servers, "client": each_client, "topic": topic, "sink": topic} | parameters
                )
            )
        )
        return made[-1]

    yield sink
    for each in made:
        each.close()


def write(sink: KafkaSink, batch: int, *messages: Message | bytes) -> None:
    """Writes a transaction of pipeline `p`, as the SDK does."""
    rows = [Rows.of(message if isinstance(message, Message) else Message(message)) for message in messages]
    if sink.last("p") != batch:
        sink.write(Transaction("p", batch), iter(rows))


def refusals(sink: KafkaSink, *messages: Message) -> list[str | None]:
    outcomes = sink.check(Rows.of(*messages)) or [WRITTEN] * len(messages)
    return [outcome.reason if isinstance(outcome, Refused) else None for outcome in outcomes]


# Transactions


def test_a_transaction_is_written_with_its_id(make, log, topic):
    sink = make()
    assert (sink.last("p"), sink.pipelines()) == (None, [])
    write(sink, 0, b"a", b"b")
    write(sink, 1, b"c")
    sink.write(Transaction("q", 7), iter([]))
    assert log.values(topic) == [b"a", b"b", b"c"]
    assert (sink.last("p"), sink.last("q")) == (1, 7)
    again = make()
    assert (again.last("p"), again.last("q"), sorted(again.pipelines())) == (1, 7, ["p", "q"])
    write(again, 1, b"c")
    write(again, 2, b"d")
    assert log.values(topic) == [b"a", b"b", b"c", b"d"]


def test_nothing_is_seen_of_a_transaction_that_fails(make, log, topic):
    def breaking_off() -> Iterator[Rows]:
        yield Rows.of(Message(b"never"))
        raise ConnectionError

    sink = make()
    write(sink, 0, b"a")
    with pytest.raises(ConnectionError):
        sink.write(Transaction("p", 1), breaking_off())
    write(sink, 1, b"b")
    assert log.values(topic) == [b"a", b"b"]
    assert sink.last("p") == 1


def test_a_second_instance_fences_the_first_which_says_so(make, log, topic):
    first, second = make(), make()
    write(first, 0, b"a")
    write(second, 1, b"b")
    with pytest.raises(Fenced, match=f"another instance of this sink has taken over transactional id headrace-{topic}: stop one"):
        first.write(Transaction("p", 2), iter([Rows.of(Message(b"lost"))]))
    # It has no part in the transaction that it did not know of, and may continue if the other one is gone.
    assert first.last("p") == 1
    write(first, 2, b"c")
    assert log.values(topic) == [b"a", b"b", b"c"]


def test_writers_of_one_state_topic_are_told_apart(make, log, each_client):
    names = {"a": log.create(), "b": log.create()}
    for batch, (writer, topic) in enumerate(names.items()):
        write(make(topic=topic, state_topic=f"shared.{each_client}", transactional_id=writer), batch, b"x")
    assert [make(state_topic=f"shared.{each_client}", transactional_id=writer).last("p") for writer in names] == [0, 1]


def test_a_transaction_that_takes_too_long_is_told(make, log, topic, monkeypatch):
    sink = make(transaction_timeout_seconds=1.0)
    # So that the transaction begins at the broker, too, with the first message.
    monkeypatch.setattr(python_transactions, "_UNSENT_BYTES", 1)

    def slow() -> Iterator[Rows]:
        yield Rows.of(Message(b"x"))
        wait(lambda: log.transaction(f"headrace-{topic}") == "CompleteAbort")
        yield Rows.of(Message(b"y"))

    with pytest.raises(Fenced, match="took longer than 1 s, and was aborted: raise transaction_timeout_seconds"):
        sink.write(Transaction("p", 0), slow())
    assert (sink.last("p"), log.values(topic)) == (None, [])


def test_a_transaction_timeout_that_the_brokers_do_not_take_is_told(make):
    with pytest.raises(KafkaFailed, match="reject a transaction timeout of 3600 s: lower transaction_timeout_seconds, or raise"):
        make(transaction_timeout_seconds=3600).last("p")


def test_a_state_topic_that_is_deleted_is_made_anew(make, log, topic):
    write(make(), 0, b"a")
    log.delete(f"headrace-{topic}")
    sink = make()
    assert sink.last("p") is None
    write(sink, 1, b"b")
    assert (sink.last("p"), log.values(topic)) == (1, [b"a", b"b"])


def test_a_state_topic_that_forgets_is_refused(make, log):
    name = log.create(cleanup_policy="delete")
    with pytest.raises(KafkaFailed, match=f"topic {name} would delete the ids of transactions: its cleanup.policy is delete"):
        make(state_topic=name).last("p")


def test_a_message_that_is_not_stored_though_kafka_python_would_commit_fails_the_transaction(log, topic, monkeypatch):
    sink = KafkaSink(KafkaSinkParameters(bootstrap_servers=log.servers, topic=topic, sink=topic))
    write(sink, 0, b"a")
    send = KafkaProducer.send

    def failing(self, topic, value=None, **record):
        future = send(self, topic, value, **record)
        if value == b"timed out":
            future.exception = KafkaTimeoutError("expired")
        return future

    monkeypatch.setattr(KafkaProducer, "send", failing)
    with closing(sink):
        with pytest.raises(KafkaAway, match=r"did not complete the transaction: .*expired; do its topics exist"):
            write(sink, 1, b"b", b"timed out")
        monkeypatch.undo()
        assert sink.last("p") == 0
    assert log.values(topic) == [b"a"]


def test_a_message_that_a_broker_rejects_fails_the_transaction(make, log, topic):
    """The topic accepts less than when the sink asked for its limits."""
    sink = make()
    write(sink, 0, b"a")
    large = Message(b"x" * 5000)
    assert refusals(sink, large) == [None]
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "1000"})
    log.ask(lambda admin: admin.alter_configs([resource]))
    with pytest.raises(KafkaFailed):
        write(sink, 1, b"b", large)
    assert sink.last("p") == 0
    assert log.values(topic) == [b"a"]


# Messages


def test_messages_are_written_as_they_are(make, log):
    topic = log.create(4)
    messages = [
        Message(b"", b"k", NOW, headers=[("a", b"1"), ("a", b""), ("é", bytes(range(256)))]),
        Message(b"x", b"\x00\xff"),
        Message(None, b"tombstone"),
        Message(bytes(range(256)) * 4000),
        Message(b"y", b"k", 1000),
        Message(b"z", b""),
        Message(b"h", headers=[("n", None), ("n", b"")]),
    ]
    sink = make(topic=topic, compression="gzip")
    assert refusals(sink, *messages) == [None] * 7
    write(sink, 0, *messages)
    records = log.records(topic)
    found = {(record.value, record.key, tuple(record.headers)) for record in records}
    assert found == {(message.value, message.key, tuple(message.headers or ())) for message in messages}
    times = {record.value: record.timestamp for record in records}
    assert (times[b""], times[b"y"]) == (NOW // 1000, 1)
    # As Java's producer does it, so that a key is where its other writers have put it.
    assert all(record.partition == (murmur2(record.key) & 0x7FFFFFFF) % 4 for record in records if record.key is not None)


def test_what_a_topic_would_never_take_is_refused(make, log):
    topic = log.create(max_message_bytes="1000", message_timestamp_before_max_ms="3600000")
    fits, too_large = Message(b"x" * 900), Message(b"x" * 1000)
    hour = 3600_000_000
    refused = refusals(
        make(topic=topic),
        fits,
        too_large,
        Message(None),
        Message(b"x", event_time=-1),
        Message(b"x", event_time=NOW - 2 * hour),
        Message(b"x", event_time=NOW + 2 * hour),
    )
    assert refused == [
        None,
        "it has 1070 bytes, and the topic accepts 1000",
        "it has neither key nor value",
        "its event time is before 1970",
        "its event time is older than the topic accepts: 3600000 ms",
        "its event time is further ahead than the topic accepts: 3600000 ms",
    ]
    assert refusals(make(topic=topic, compression="gzip"), too_large) == [None]
    compacted = log.create(cleanup_policy="compact")
    assert refusals(make(topic=compacted), Message(b"x"), Message(b"x", b"k")) == [
        "it has no key, and the topic is compacted",
        None,
    ]


@pytest.mark.behaviour(
    "kafka",
    "a message that librdkafka would alter: an event time in the first millisecond of 1970, a NUL in the name of a header",
    'refuses it, with `client = "librdkafka"`',
)
def test_what_librdkafka_would_alter_is_refused(make, each_client):
    messages = [Message(b"x", event_time=999), Message(b"x", headers=[("a\0b", b"")]), Message(b"x", event_time=1000)]
    taken = [reason is None for reason in refusals(make(), *messages)]
    assert taken == ([False, False, True] if each_client == "librdkafka" else [True, True, True])


def test_what_is_just_not_refused_can_be_written(make, log):
    topic = log.create(max_message_bytes="1000")
    sink = make(topic=topic)
    sizes = range(900, 1000)
    largest = max(
        size for size, reason in zip(sizes, refusals(sink, *(Message(b"x" * n) for n in sizes)), strict=True) if not reason
    )
    write(sink, 0, *[Message(b"x" * largest)] * 50)
    assert len(log.values(topic)) == 50


def test_a_topic_may_depend_on_the_message(make, log):
    topic = log.create()
    prefix, _, number = topic.rpartition(".")
    sink = make(topic=prefix + ".{header:n}")
    messages = [Message(b"x", headers=[("n", number.encode())]), Message(b"x"), Message(b"x", headers=[("n", b"nowhere")])]
    assert refusals(sink, *messages, Message(b"x", headers=[("n", b"/")])) == [
        None,
        f"its topic is '{prefix}.{{header:n}}', and it has no header:n",
        f"there is no topic {prefix}.nowhere",
        f"'{prefix}./' is not a valid topic name",
    ]
    write(sink, 0, messages[0])
    assert log.values(topic) == [b"x"]


def test_a_topic_that_is_not_there_is_told_and_not_made(make, log, each_client):
    name = f"not.there.{each_client}"
    sink = make(topic=name)
    with pytest.raises(KafkaFailed, match=rf"there is no topic {name} at .*: create it, or set topic to another one"):
        sink.check(Rows.of(Message(b"x")))
    log.create(name=name)
    wait(lambda: _takes(sink))


def _takes(sink: KafkaSink) -> bool:
    try:
        return sink.check(Rows.of(Message(b"x"))) is None
    except KafkaFailed:
        return False


# Parameters


def test_a_login_is_used_and_a_wrong_one_is_told(make, log, topic, kafka):
    login = {"bootstrap_servers": f"{kafka.host}:{kafka.sasl_port}", "sasl_mechanism": "PLAIN", "username": kafka.user}
    write(make(password=kafka.password, **login), 0, b"a")
    assert log.values(topic) == [b"a"]
    with pytest.raises(KafkaFailed, match="rejects user 'headrace' with PLAIN: check username, password and") as refused:
        make(password="not.the.password", **login).last("p")
    assert "not.the.password" not in str(refused.value)


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_a_sink_compresses_as_it_is_told(make, log, topic, codec):
    values = [*(b"%d" % n for n in range(1000)), b"x" * 900_000]
    write(make(topic=topic, compression=codec), 0, *values)
    assert sorted(log.values(topic)) == sorted(values)


def test_a_codec_that_is_not_installed_is_told(make, monkeypatch):
    for module in ("lz4", "lz4f", "lz4framed"):
        monkeypatch.setattr(f"kafka.codec.{module}", None)
    with pytest.raises(InvalidSink, match="compression lz4 needs a package: pip install lz4"):
        make(compression="lz4")


def test_check_tells_what_there_is_and_makes_nothing(log, topic):
    def check(**parameters: str) -> str:
        assert KAFKA_SINK.check is not None
        return KAFKA_SINK.check(KafkaSinkParameters(bootstrap_servers=log.servers, sink="checked", **parameters))

    assert check(topic=topic) == f"topic {topic}; topic headrace-checked will be created for the ids of transactions"
    assert check(topic="{key}") == "topics {key}; topic headrace-checked will be created for the ids of transactions"
    assert log.partitions("headrace-checked") == 0
    with pytest.raises(KafkaFailed, match="no topic nowhere at"):
        check(topic="nowhere")


# Through a gateway


async def test_batches_of_a_query_are_written_once(make, log, topic):
    async with gateway_serving() as (_, address):
        writer = Writer(address)
        ids = {"sink": "out", "state_topic": f"headrace-{topic}", "transactional_id": topic}
        sink, successor = make(**ids), make(**ids)
        # A broker takes its time for the first transaction of all.
        await asyncio.to_thread(sink.last, "query")
        async with serving(sink, address):
            await writer.report_commits()
            for batch in range(3):
                await asyncio.gather(*(writer.deliver(batch, [b"%d%d" % (batch, n)], partition=n) for n in range(2)))
                await writer.vote(batch, writer.part(batch, 0), writer.part(batch, 1))
                await visible(writer, batch)
        # The query has lost the last answer, and asks again: of another connector.
        await asyncio.to_thread(successor.last, "query")
        async with serving(successor, address):
            again = Writer(address, run="r2", first_batch=2)
            await again.report_commits(1)
            await again.deliver(2, [b"20", b"21"])
            await again.vote(2)
            await visible(again, 2)
            await again.close()
        await writer.close()
    assert sorted(log.values(topic)) == [b"00", b"01", b"10", b"11", b"20", b"21"]
