"""Record batches turned into columns: the same as what kafka-python makes of them."""

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import IsolationLevel, TopicPartition, codec
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecordsBuilder

from headrace.connectors.kafka.internals import raw
from headrace.connectors.kafka.records import Records
from headrace.connectors.kafka.stretches import Fetched, Stretch
from headrace.sdk import InvalidMessage

PARTITION = TopicPartition("t", 0)
TEXTS = st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        st.none() | TEXTS,
        st.none() | TEXTS,
        st.lists(st.tuples(st.text(max_size=3), st.none() | TEXTS), max_size=2),
        st.integers(0, 1) | st.integers(0, 2**20),
    ),
    min_size=1,
    max_size=30,
)


def built(records, *, compressed: int = 0, first: int = 0, per_batch: int = 10, **options) -> bytes:
    """Record batches, with gaps before records as compaction leaves them."""
    data = b""
    for start in range(0, len(records), per_batch):
        builder = MemoryRecordsBuilder(2, compressed, 1 << 20, offset=0, **options)
        for time, key, value, headers, gap in records[start : start + per_batch]:
            builder.skip(gap)
            builder.append(time, key, value, headers)
        builder.close()
        batch = builder.buffer()
        batch[:8] = first.to_bytes(8, "big")
        first += builder.next_offset()
        data += bytes(batch)
    return data


def by_kafka_python(data: bytes):
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in MemoryRecords(data)
        for record in batch
    ]


def by_columns(records: Records):
    headers = [records.headers.get(at, []) for at in range(len(records))]
    return list(zip(records.offsets, records.times, records.keys, records.values, headers, strict=True))


@given(RECORDS, st.sampled_from([0, 1]), st.integers(0, 2**40))
def test_columns_are_what_kafka_python_reads(records, compressed, first):
    data = built(records, compressed=compressed, first=first)
    columns = Records()
    for batch in MemoryRecords(data):
        columns.add(batch, 0)
    expected = by_kafka_python(data)
    assert by_columns(columns) == expected
    assert columns.size == sum(len(key or b"") + len(value or b"") for _, _, key, value, _ in expected)
    packed = columns.batch(b"c")
    assert list(packed.sequences) == [offset + 1 for offset, *_ in expected]
    assert list(packed.event_times) == [time * 1000 for _, time, *_ in expected]
    assert len(packed) == len(records)


@given(RECORDS, st.integers(0, 40))
def test_what_lies_before_the_offset_that_was_asked_for_is_left_out(records, start):
    data = built(records)
    columns = Records()
    for batch in MemoryRecords(data):
        columns.add(batch, start)
    assert by_columns(columns) == [record for record in by_kafka_python(data) if record[0] >= start]


@given(RECORDS, st.data())
def test_a_batch_that_ends_too_early_is_noticed(records, data):
    (batch,) = MemoryRecords(built(records, per_batch=100))
    del batch._buffer[-data.draw(st.integers(1, len(batch._buffer) - 61)) :]
    columns = Records()
    with pytest.raises(InvalidMessage, match="a record is truncated"):
        columns.add(batch, 0)
    assert columns == Records()


def stretches(data: bytes, start: int = 0):
    """The result of a fetch of this."""
    fetched = Fetched(start, PARTITION, MemoryRecords(data))
    return fetched.take(100), fetched.next_fetch_offset


def log_of(data: bytes, **options) -> list[Stretch]:
    """What fetches of this bring, each from where the last one ended, and twice where it has brought nothing new."""
    found, suspects, start, end = [], {}, 0, 10 * len(list(MemoryRecords(data)))
    for _ in range(10):
        batches = [bytes(raw(batch)) for batch in MemoryRecords(data)]
        # A broker begins with the batch that the offset is in, as far as it knows.
        while start < end and DefaultRecordBatch(batches[0]).next_offset <= start:
            del batches[0]
        fetched = Fetched(
            start, PARTITION, MemoryRecords(b"".join(batches) if start < end else b""), suspects=suspects, **options
        )
        found += fetched.take(100)
        assert not fetched
        start = fetched.next_fetch_offset
    return found


def test_a_fetch_is_given_in_stretches_of_about_a_frame():
    records = [(0, None, b"x" * 1000, [], 0)] * 1000
    found, after = stretches(built(records))
    assert [len(stretch.records) for stretch in found] == [250, 250, 250, 250]
    assert [stretch.next_offset for stretch in found] == [250, 500, 750, after]
    assert stretches(b"") == ([], 0)


def test_a_log_that_was_compacted_to_nothing_is_passed_over():
    data = bytearray(built([(0, None, b"x", [], 0)] * 5))
    del data[61:]
    data[8:12] = (61 - 12).to_bytes(4, "big")
    data[57:61] = bytes(4)
    found, after = Fetched(0, PARTITION, MemoryRecords(bytes(data)), check_crcs=False).take(10), 5
    assert [(len(stretch.records), stretch.next_offset) for stretch in found] == [(0, after)]


def damaged(places: dict[int, int], batches: int = 3, **options) -> bytes:
    """Batches of 10 records, some bytes of which are others, by their places in the second one."""
    whole = [built([(0, None, b"x%d" % n, [], 0)] * 10, first=10 * n, **options) for n in range(batches)]
    batch = bytearray(whole[1])
    for place, value in places.items():
        batch[place] = value
    whole[1] = bytes(batch)
    return b"".join(whole)


@pytest.mark.parametrize(
    ("places", "options", "reason"),
    [
        ({-3: 255}, {}, "fails its checksum: it was damaged on the broker's disk or in transit"),
        ({25: 255}, {}, "fails its checksum"),  # how many offsets it has
        ({57: 127}, {}, "fails its checksum"),  # how many records it has
        ({57: 127}, {"check_crcs": False}, "is damaged: a record is truncated"),
        ({22: 1}, {"check_crcs": False}, "is damaged: data compressed with gzip cannot be decompressed"),
        ({22: 6}, {"check_crcs": False}, "is damaged: codec 6 is not a codec of Kafka"),
    ],
)
def test_a_damaged_batch_is_told_apart_from_those_around_it(places, options, reason):
    data = damaged(places)
    before, at, after = log_of(data, **options)
    assert [stretch.records.values for stretch in (before, at, after)] == [[b"x0"] * 10, [], [b"x2"] * 10]
    assert [stretch.next_offset for stretch in (before, at, after)] == [10, 20, 30]
    assert (before.damage, after.damage) == (None, None)
    assert at.damage is not None
    assert (at.damage.first, at.damage.next_offset) == (10, 20)
    assert at.damage.reason.startswith(f"topic t, partition 0: the record batch at offset 10 {reason}")
    assert at.damage.data == data[len(data) // 3 : 2 * len(data) // 3]


def test_a_batch_counts_as_damaged_once_it_was_fetched_twice():
    suspects: dict[TopicPartition, int] = {}
    on_the_way, on_disk = damaged({-3: 255}), damaged({})
    first = Fetched(0, PARTITION, MemoryRecords(on_the_way), suspects=suspects)
    assert [stretch.records.values for stretch in first.take(100)] == [[b"x0"] * 10]
    again = Fetched(first.next_fetch_offset, PARTITION, MemoryRecords(on_disk[len(on_disk) // 3 :]), suspects=suspects)
    (stretch,) = again.take(100)
    assert (stretch.records.values, stretch.damage) == ([b"x1"] * 10 + [b"x2"] * 10, None)


def test_the_last_batch_ends_where_its_header_says_if_that_adds_up():
    assert [stretch.next_offset for stretch in log_of(damaged({-3: 255}, batches=2))] == [10, 20]
    with pytest.raises(CorruptRecordError, match="it is unknown where the next batch begins: restore it"):
        log_of(damaged({25: 255}, batches=2))


def test_after_a_damaged_batch_the_broker_tells_anew_whose_transactions_were_aborted():
    """The batch may be the end of one: what its writer wrote later would be taken for part of it, and left out."""
    aborted = SimpleNamespace(first_offset=0, producer_id=7)
    data = damaged({-3: 255}, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    options = {"isolation_level": IsolationLevel.READ_COMMITTED, "aborted_transactions": [aborted]}
    suspects = {PARTITION: 10}
    fetched = Fetched(0, PARTITION, MemoryRecords(data), suspects=suspects, **options)
    (stretch,) = fetched.take(100)
    assert (len(stretch.records), stretch.next_offset, bool(fetched)) == (0, 20, False)
    assert stretch.damage is not None


def test_what_is_no_batch_is_told_with_its_place():
    data = bytearray(damaged({}))
    place = len(data) // 3
    data[place + 8 : place + 12] = (5).to_bytes(4, "big")  # how long it is
    ((before,), after) = stretches(bytes(data))
    assert (before.records.values, after) == ([b"x0"] * 10, 10)
    with pytest.raises(CorruptRecordError, match="topic t, partition 0: what follows offset 10 is not a record batch"):
        stretches(bytes(data[place:]), 10)


@pytest.mark.parametrize(
    ("number", "modules", "package"),
    [(2, ["snappy"], "python-snappy"), (3, ["lz4", "lz4f", "lz4framed"], "lz4"), (4, ["zstd"], "zstandard")],
)
def test_a_codec_that_is_not_installed_is_told_with_its_package(monkeypatch, number, modules, package):
    for module in modules:
        monkeypatch.setattr(codec, module, None)
    data = bytearray(built([(0, None, b"x", [], 0)]))
    data[22] |= number
    with pytest.raises(UnsupportedCodecError, match=f"offset 0 is compressed with .*; run: pip install {package}"):
        Fetched(0, PARTITION, MemoryRecords(bytes(data)), check_crcs=False).take(1)


def test_a_time_that_does_not_fit_is_that_of_its_record_alone():
    records = Records(array("q", [7, 8]), array("q", [1, 2**62]), [None, None], [b"a", b"b"])
    assert records.batch(None).event_times == [1000, 2**62 * 1000]
