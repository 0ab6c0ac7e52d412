"""Durations and sizes as people write them."""

import re

_NUMBER_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "kib": 2**10, "m": 2**20, "mb": 2**20, "mib": 2**20}
_BYTES |= {"g": 2**30, "gb": 2**30, "gib": 2**30}


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `30s`, `5m`, `1h`; a bare number is seconds.

    Raises:
        ValueError: it is none of these.
    """
    number, unit = _split(text)
    if unit not in _SECONDS:
        raise ValueError("want a duration such as 500ms, 30s, 5m or 1h")
    return number * _SECONDS[unit]


def parse_bytes(text: str) -> int:
    """Bytes of `1000`, `256kb`, `10mb`, `1gb`; units are powers of 1024.

    Raises:
        ValueError: it is none of these.
    """
    number, unit = _split(text)
    if unit not in _BYTES:
        raise ValueError("want a size such as 1000, 256kb, 10mb or 1gb")
    return int(number * _BYTES[unit])


def _split(text: str) -> tuple[float, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text.lower())
    if match is None:
        raise ValueError("want a number, with or without a unit")
    return float(match[1]), match[2]
