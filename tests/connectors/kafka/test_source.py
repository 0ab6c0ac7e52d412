"""The Kafka source on a real broker, read through a gateway."""

import asyncio

import grpc
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tests.connectors.kafka.rig import DEADLINE, SETTINGS, Query, numbered, numbers, reading, until, wait
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors.kafka import KafkaFailed, KafkaParameters, KafkaSource
from headrace.gateway.config import Limits
from headrace.protocol.v1 import engine_pb2
from headrace.protocol.v1.frame_pb2 import Position
from headrace.sdk import MessageTooLarge, serve

pytestmark = pytest.mark.usefixtures("each_client")


async def test_a_topic_is_read_from_its_beginning_and_goes_on(log, topic, address, query):
    log.append(topic, numbered(0, 1000))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        messages = await one.read(1000)
        assert numbers(messages) == list(range(1000))
        assert [message.sequence for message in messages] == list(range(1, 1001))
        log.append(topic, [b"1000"])
        assert numbers(await one.read(1001)) == list(range(1001))


async def test_a_connector_that_is_started_again_goes_on_where_it_was(log, topic, address, query):
    log.append(topic, numbered(0, 100))
    one = query()
    await one.attach()
    for total in (100, 200):
        async with reading(address, bootstrap_servers=log.servers, topics=topic):
            assert numbers(await one.read(total)) == list(range(total))
        log.append(topic, numbered(total, 100))


async def test_positions_are_in_the_checkpoint(log, topic):
    log.append(topic, numbered(0, 100))
    committed = {}
    for first, last in ((0, 30), (30, 100)):
        # Nothing is left of an earlier round but what its query has kept.
        async with gateway_serving() as (_, address), reading(address, bootstrap_servers=log.servers, topics=topic):
            query = Query(address, committed=committed)
            await query.attach()
            while not query.messages:
                await query.batch(max_messages=last - first)
            assert numbers(await query.read(last - first)) == list(range(first, last))
            committed = query.committed
            await query.close()


async def test_messages_are_what_the_records_are(log, topic, address, query):
    big = bytes(range(256)) * 4000
    records = [
        (b"", None, []),
        (b"x", b"", [("a", b"1"), ("a", b""), ("é", bytes(range(256)))]),
        (big, b"\x00\xff", []),
        (None, b"tombstone", []),
        (b"last", b"k", [("h", b"v")]),
    ]
    for n, (value, key, headers) in enumerate(records):
        log.append(topic, [value], key=key, headers=headers, timestamp_ms=1_700_000_000_000 + n)
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        messages = await one.read(len(records))
    assert [(m.value, m.key, list(m.headers or [])) for m in messages] == records
    assert [m.event_time for m in messages] == [1_700_000_000_000_000 + n * 1000 for n in range(len(records))]


async def test_partitions_and_topics_that_appear_are_read(log, address, query):
    name = log.create(2)
    log.append(name, [b"0"], partition=0)
    log.append(name, [b"1"], partition=1)
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topic_pattern=rf"{name}(-more)?"):
        await one.attach()
        assert numbers(await one.read(2)) == [0, 1]
        log.ask(lambda admin: admin.create_partitions({name: 3}))
        log.create(name=f"{name}-more")
        wait(lambda: log.partitions(name) == 3)
        log.append(f"{name}-more", [b"3"])
        log.append(name, [b"2"], partition=2)
        assert sorted(numbers(await one.read(4))) == [0, 1, 2, 3]
        assert sorted(one.messages) == [f"s/{name}-0", f"s/{name}-1", f"s/{name}-2", f"s/{name}-more-0"]


async def test_what_is_not_committed_is_not_read(log, topic, address, query):
    producer = KafkaProducer(bootstrap_servers=log.servers, transactional_id=topic)
    producer.init_transactions()
    for n, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        for value in numbered(10 * n, 10):
            producer.send(topic, value, partition=0)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    committed, everything = query("a"), query("b")
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await committed.attach(available_now=True)
        while not await committed.batch():
            pass
        messages = await committed.read(20)
        assert numbers(messages) == [*range(10), *range(20, 30)]
        assert [m.sequence for m in messages] == [*range(1, 11), *range(23, 33)]
        # One that is open keeps nobody waiting: it is not there yet.
        producer.begin_transaction()
        producer.send(topic, b"30", partition=0).get(DEADLINE)
        later = query("c")
        later.committed = dict(committed.committed)
        await later.attach(available_now=True)
        async with asyncio.timeout(DEADLINE):
            while not await later.batch():
                pass
        assert later.messages == {}
        producer.commit_transaction()
        assert numbers(await committed.read(21))[-1] == 30
        await later.read(1)
    producer.close()
    async with reading(address, bootstrap_servers=log.servers, topics=topic, isolation="read_uncommitted"):
        await everything.attach()
        assert numbers(await everything.read(31)) == list(range(31))


async def test_a_partition_may_begin_after_its_last_record(log, topic, address, query):
    log.append(topic, numbered(0, 10))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic, start="latest"):
        await one.attach()
        await one.begin(f"s/{topic}-0")
        log.append(topic, numbered(10, 5))
        assert numbers(await one.read(5)) == list(range(10, 15))


async def test_retention_that_was_faster_is_told_with_the_range(log, topic, address, query):
    log.append(topic, numbered(0, 20))
    log.ask(lambda admin: admin.delete_records({TopicPartition(topic, 0): 12}))
    stream = f"s/{topic}-0"
    careful, careless = (
        query(name, {stream: Position(sequence=5)}, skip_lost=name == "careless") for name in ("careful", "careless")
    )
    async with reading(address, bootstrap_servers=log.servers, topics=topic, start="latest"):
        await careful.attach()
        with pytest.raises(grpc.RpcError, match=r"its earliest message is 13 .*offsets 5 to 11 of partition 0 of topic"):
            await careful.read(1)
        await careful.engine.stub.Detach(engine_pb2.DetachRequest(pipeline=careful.engine.who))
        await careless.attach()
        # The rest is read, though a partition that nobody has read would begin at its end.
        assert numbers(await careless.read(8)) == list(range(12, 20))


async def test_a_topic_that_ends_before_the_position_has_lost_it(log, topic, address, query):
    log.append(topic, numbered(0, 5))
    one = query("one", {f"s/{topic}-0": Position(sequence=50)})
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        with pytest.raises(grpc.RpcError, match=f"partition 0 of topic {topic} ends before offset 5, and everything before 50"):
            await one.read(1)


async def test_a_topic_that_is_made_anew_is_another_one(log, topic, address, query, caplog):
    log.append(topic, numbered(0, 10))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        await one.read(10)
        log.delete(topic)
        await until(lambda: f"no topic {topic}" in caplog.text)
        log.create(name=topic)
        log.append(topic, numbered(0, 20))
        with pytest.raises(grpc.RpcError, match=f"topic {topic} was deleted and recreated: give the source another name"):
            await one.read(11)
    # So it is for a connector that was not there to see it.
    async with gateway_serving() as (_, address), reading(address, bootstrap_servers=log.servers, topics=topic):
        again = Query(address, committed=one.committed)
        await again.attach()
        with pytest.raises(grpc.RpcError, match=f"topic {topic} was deleted and recreated"):
            await again.read(1)
        await again.close()


async def test_a_topic_that_is_not_there_is_waited_for(log, address, query, caplog):
    name = f"{log.create()}.later"
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=name):
        await one.attach()
        await until(lambda: f"no topic {name} at {log.servers}; waiting for it" in caplog.text)
        log.create(name=name)
        log.append(name, [b"0"])
        assert numbers(await one.read(1)) == [0]


async def test_a_group_is_told_what_is_in_the_checkpoint(log, topic, address, query):
    producer = KafkaProducer(bootstrap_servers=log.servers, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    for value in numbered(0, 10):
        producer.send(topic, value, partition=0)
    producer.commit_transaction()
    producer.close()
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic, group=topic):
        await one.attach()
        while not one.messages:
            await one.batch(max_messages=4)
        assert log.committed(topic) == {}
        await one.engine.plan(one.committed, wait_ms=0)
        await until(lambda: log.committed(topic) == {f"{topic}-0": 4})
        await one.read(10)
        # The end of the transaction is at offset 10, and nothing is left after it.
        await until(lambda: log.committed(topic) == {f"{topic}-0": 11})


async def test_a_group_with_consumers_of_its_own_is_told_of(log, topic, address, query, caplog):
    # The broker removes a member whose heartbeats are late, and one that does not poll does not join again: then the group is
    # empty, and takes any offset. This one must stay a member, however slow this machine is.
    patience = {"session_timeout_ms": 600_000, "max_poll_interval_ms": 600_000}
    consumer = KafkaConsumer(bootstrap_servers=log.servers, group_id=topic, **patience)
    # A member that joins before the broker names the new topic is assigned nothing, and does not look again.
    await asyncio.to_thread(wait, lambda: consumer.partitions_for_topic(topic))
    consumer.subscribe([topic])
    await asyncio.to_thread(wait, lambda: consumer.poll(100) is not None and consumer.assignment())
    log.append(topic, numbered(0, 10))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic, group=topic):
        await one.attach()
        assert numbers(await one.read(10)) == list(range(10))
        await until(lambda: "set group to one that no other application uses" in caplog.text)
    consumer.close()


async def test_a_message_above_the_limit_of_the_gateway_is_told(log, topic, each_client):
    log.append(topic, [b"small", b"x" * 900_000])
    limits = Limits(buffer_bytes=1 << 20, max_frame_bytes=500_000)
    source = KafkaSource(KafkaParameters(source="s", client=each_client, bootstrap_servers=log.servers, topics=topic))
    async with gateway_serving(limits) as (_, address):
        query = Query(address)
        await query.attach()
        task = asyncio.create_task(serve(source, gateway=address, settings=SETTINGS))
        assert (await query.read(1))[0].value == b"small"
        with pytest.raises(MessageTooLarge, match=f"stream s/{topic}-0: message 2 makes a frame of 900"):
            await asyncio.wait_for(task, DEADLINE)
        await query.close()


async def test_a_login_is_used_and_a_wrong_one_is_told(kafka, log, topic, address, query, each_client):
    log.append(topic, [b"0"])
    login = {"bootstrap_servers": f"{kafka.host}:{kafka.sasl_port}", "sasl_mechanism": "PLAIN", "username": kafka.user}
    one = query()
    async with reading(address, topics=topic, password=kafka.password, **login):
        await one.attach()
        assert numbers(await one.read(1)) == [0]
    source = KafkaSource(KafkaParameters(source="s", client=each_client, topics=topic, password="not.the.password", **login))
    with pytest.raises(KafkaFailed, match="rejects user 'headrace' with PLAIN: check username, password") as refused:
        await asyncio.wait_for(serve(source, gateway=address), DEADLINE)
    assert "not.the.password" not in str(refused.value)


async def test_topics_are_read_however_they_are_compressed(log, address, query):
    """The brokers compress them anew, as Kafka's own libraries do it: also what is more than a megabyte when it is unpacked."""
    name, values = log.create(), [*numbered(0, 1000), b"x" * 3_000_000, bytes(range(256)) * 100]
    codecs = ("gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        log.append(log.create(name=f"{name}-{codec}", compression_type=codec, max_message_bytes="8000000"), values, key=b"k")
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topic_pattern=rf"{name}-\w+"):
        await one.attach()
        await one.read(len(codecs) * len(values))
    for codec in codecs:
        assert [(m.key, m.value) for m in one.messages[f"s/{name}-{codec}-0"]] == [(b"k", value) for value in values]


async def test_stretches_are_what_the_unchanged_consumer_gives(log, address, query):
    name = log.create(3, compression_type="gzip")
    for partition in range(3):
        for first in range(0, 3000, 1000):
            log.append(name, numbered(first, 1000), partition=partition, key=b"k")
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=name):
        await one.attach()
        messages = await one.read(9000)
    records = log.records(name)
    assert [(m.sequence, m.key, m.value) for m in messages] == [(r.offset + 1, r.key, r.value) for r in records]
