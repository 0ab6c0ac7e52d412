"""The checksum of record batches, against the loop of kafka-python."""

import random

import pytest
from kafka.record import default_records
from kafka.record._crc32c import crc

import headrace.connectors.kafka  # noqa: F401
from headrace.connectors.kafka.checksum import crc32c


def test_the_check_value_that_everybody_has() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1023, 1024, 1025, 1027, 1028, 4096, 65_535, 65_536, 65_539, 66_000])
def test_any_number_of_bytes_has_the_checksum_that_kafka_python_finds(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert crc32c(memoryview(bytearray(data))) == crc(data)


def test_a_single_bit_changes_it() -> None:
    data = bytearray(5_000)
    before = crc32c(data)
    data[2_345] ^= 4
    assert crc32c(data) != before


def test_kafka_python_uses_it() -> None:
    assert default_records.calc_crc32c is crc32c
