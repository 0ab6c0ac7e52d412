"""How record batches may be compressed, and what that needs."""

from kafka import codec

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers for them."""
_PACKAGES = {"snappy": ("python-snappy", codec.has_snappy), "lz4": ("lz4", codec.has_lz4), "zstd": ("zstandard", codec.has_zstd)}


def missing_package(name: str) -> str | None:
    """The package that a codec needs, where it is not installed."""
    package, is_there = _PACKAGES.get(name, (None, None))
    return None if is_there is None or is_there() else package


def name_of(number: int) -> str:
    """The codec of a number."""
    return next((name for name, known in CODECS.items() if known == number), f"codec {number}")
