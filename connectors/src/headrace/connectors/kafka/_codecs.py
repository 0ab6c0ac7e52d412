"""The compression codecs of record batches, and the packages that they need."""

from kafka import codec
from kafka.errors import UnsupportedCodecError

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers for them."""
_PACKAGES = {"snappy": ("python-snappy", codec.has_snappy), "lz4": ("lz4", codec.has_lz4), "zstd": ("zstandard", codec.has_zstd)}


def missing_package(name: str) -> str | None:
    """Returns the package that a codec needs; None if it is installed, or none is needed."""
    package, is_there = _PACKAGES.get(name, (None, None))
    return None if is_there is None or is_there() else package


def name_of(number: int) -> str:
    """Returns the name of a codec, by its number."""
    return next((name for name, known in CODECS.items() if known == number), f"codec {number}")


def unpacked(data: bytes, number: int) -> bytes:
    """Decompresses data.

    Raises:
        UnsupportedCodecError: The codec needs a package that is not installed.
        ValueError: The data is damaged, or no codec has this number.
    """
    name = name_of(number)
    if package := missing_package(name):
        raise UnsupportedCodecError(f"compressed with {name}; run: pip install {package}")
    decode = {"gzip": codec.gzip_decode, "snappy": codec.snappy_decode, "lz4": codec.lz4_decode, "zstd": codec.zstd_decode}
    if name not in decode:
        raise ValueError(f"{name} is not a codec of Kafka")
    try:
        return bytes(decode[name](data))
    except Exception as error:  # each package has its own exceptions
        raise ValueError(f"data compressed with {name} cannot be decompressed: {error}") from error
