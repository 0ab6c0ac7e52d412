"""A record batch that is damaged on the broker's disk is one record that cannot be taken: what is around it arrives once."""

import asyncio
from pathlib import Path

import pytest
from scripts.brokers import Kafka
from tests.connectors.kafka import rig
from tests.connectors.kafka.rig import DEADLINE, SETTINGS, Log, Query, numbered, numbers, reading

from headrace.connectors import dead_letters
from headrace.connectors.kafka import KafkaFailed, KafkaParameters, KafkaSource
from headrace.sdk import serve

BATCHES = 4


def damage(kafka: Kafka, topic: str, number: int, place: int, value: int) -> bytes:
    """Changes a byte of a batch in the file that the broker gives to consumers; returns the batch as it is then."""
    (path,) = (kafka.folder / "data" / f"{topic}-0").glob("*.log")
    data = bytearray(path.read_bytes())
    at = 0
    for _ in range(number):
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    with path.open("r+b") as file:
        file.seek(at + place if place >= 0 else end + place)
        assert file.read(1) != bytes([value])
        file.seek(-1, 1)
        file.write(bytes([value]))
    return path.read_bytes()[at:end]


@pytest.fixture
def damaged(kafka: Kafka, log: Log, topic: str) -> bytes:
    """A topic with four batches of ten records, the second of which is damaged; these are its bytes."""
    for number in range(BATCHES):
        log.append(topic, numbered(10 * number, 10))
    return damage(kafka, topic, 1, -3, 255)


SOUND = [*range(10), *range(20, 40)]


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_what_is_around_a_damaged_batch_arrives_once(log, topic, address, query, damaged, tmp_path: Path, caplog, policy):
    kept = {} if policy == "skip" else {"dead_letters": tmp_path / "dead"}
    options = {"bootstrap_servers": log.servers, "topics": topic, "bad_records": policy, **kept}
    one = query()
    async with reading(address, **options) as source:
        await one.attach()
        messages = await one.read(len(SOUND))
        assert numbers(messages) == SOUND
        assert [message.sequence for message in messages] == [offset + 1 for offset in SOUND]
        assert source.bad_records.total == 1
    assert f"stream s/{topic}-0: skipped a record (1 since the last such line, 1 in total" in caplog.text
    assert f"topic {topic}, partition 0: the record batch at offset 10 fails its checksum" in caplog.text
    assert "offsets 10 to 19 cannot be read" in caplog.text
    if policy == "dead-letter":
        (letter,) = dead_letters(tmp_path / "dead")
        assert (letter.message.value, letter.sink, letter.stream, letter.sequence) == (damaged, "s", f"s/{topic}-0", 20)
        assert dict(letter.message.headers) == {
            "kafka-topic": topic.encode(), "kafka-partition": b"0", "kafka-first-offset": b"10", "kafka-last-offset": b"19",
        }  # fmt: skip
    # It lies before the position, so that who begins anew does not meet it again.
    log.append(topic, numbered(40, 5))
    async with reading(address, **options) as source:
        assert numbers(await one.read(len(SOUND) + 5)) == [*SOUND, *range(40, 45)]
        assert source.bad_records.total == 0


async def test_a_damaged_batch_ends_the_connector_where_nothing_else_is_said(log, topic, address, query, damaged, each_client):
    told = f"topic {topic}, partition 0: the record batch at offset 10 fails its checksum.*; offsets 10 to 19 cannot be read; "
    if each_client == "librdkafka":
        told = f"topic {topic}, partition 0: a record batch at or after offset 10 is damaged: .*; "
    await assert_ends(query(), address, told + "restore it", bootstrap_servers=log.servers, topics=topic)


@pytest.mark.behaviour(
    "kafka",
    "a wrong checksum of a record batch, with librdkafka",
    "ends and names topic, partition and offset, whatever `bad_records` is",
)
async def test_a_damaged_batch_always_ends_a_connector_with_librdkafka(log, topic, address, query, damaged):
    pytest.importorskip("confluent_kafka")
    told = f"topic {topic}, partition 0: a record batch at or after offset 10 is damaged: .*; .* or read it with client = kafka-"
    options = {"bootstrap_servers": log.servers, "topics": topic, "bad_records": "skip", "client": "librdkafka"}
    await assert_ends(query(), address, told, **options)


async def assert_ends(one: Query, address: str, told: str, **parameters: str) -> None:
    """The source ends with an error, after what precedes the damage."""
    source = KafkaSource(KafkaParameters(**{"source": "s", "client": rig.CLIENT} | parameters))
    task = asyncio.create_task(serve(source, gateway=address, settings=SETTINGS))
    await one.attach()
    assert numbers(await one.read(10)) == list(range(10))
    with pytest.raises(KafkaFailed, match=told):
        await asyncio.wait_for(task, DEADLINE)


async def test_a_partition_beside_a_damaged_one_goes_on(kafka, log, address, query):
    name = log.create(2)
    for partition in range(2):
        for number in range(3):
            log.append(name, numbered(10 * number, 10), partition=partition)
    damage(kafka, name, 0, -3, 255)
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=name, bad_records="skip"):
        await one.attach()
        await one.read(50)
    assert [numbers(one.messages[f"s/{name}-{n}"]) for n in range(2)] == [[*range(10, 30)], [*range(30)]]


async def test_a_batch_that_cannot_be_unpacked_is_left_out_also_where_no_checksum_is_verified(kafka, log, address, query):
    name = log.create(compression_type="gzip")
    for number in range(3):
        log.append(name, numbered(10 * number, 10))
    damage(kafka, name, 1, 61, 0)  # where it says that it is gzip
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=name, bad_records="skip", verify_checksums=False) as source:
        await one.attach()
        assert numbers(await one.read(20)) == [*range(10), *range(20, 30)]
        assert source.bad_records.total == 1
