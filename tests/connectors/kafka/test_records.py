"""Record batches turned into columns: the same as what kafka-python makes of them."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition, codec
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder

from headrace.connectors.kafka._consumer import _Fetched
from headrace.connectors.kafka._records import Records
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


def built(records, *, compressed: int = 0, first: int = 0, per_batch: int = 10) -> bytes:
    """Record batches, with gaps before records as compaction leaves them."""
    data = b""
    for start in range(0, len(records), per_batch):
        builder = MemoryRecordsBuilder(2, compressed, 1 << 20, offset=0)
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
    with pytest.raises(InvalidMessage, match="the record batch at offset 0 is damaged"):
        Records().add(batch, 0)


def stretches(data: bytes, start: int = 0):
    """What a fetch of this brings."""
    fetched = _Fetched(start, PARTITION, MemoryRecords(data))
    return fetched.take(100), fetched.next_fetch_offset


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
    found, after = _Fetched(0, PARTITION, MemoryRecords(bytes(data)), check_crcs=False).take(10), 5
    assert [(len(stretch.records), stretch.next_offset) for stretch in found] == [(0, after)]


def test_a_damaged_batch_is_told_with_its_place():
    data = bytearray(built([(0, None, b"x", [], 0)] * 20))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordError, match=r"topic t, partition 0: the record batch at offset 10 fails its checksum"):
        stretches(bytes(data))


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
        _Fetched(0, PARTITION, MemoryRecords(bytes(data)), check_crcs=False).take(1)


def test_kafka_python_still_takes_batches_apart_where_it_is_expected_to():
    assert issubclass(_Fetched, Fetcher.PartitionRecords)
    assert _Fetched._unpack_records is not Fetcher.PartitionRecords._unpack_records


def test_a_time_that_does_not_fit_is_that_of_its_record_alone():
    records = Records(array("q", [7, 8]), array("q", [1, 2**62]), [None, None], [b"a", b"b"])
    assert records.batch(None).event_times == [1000, 2**62 * 1000]
