"""Sizes in bytes as people write them: `64MiB`."""

import re

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_FACTORS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str) -> int:
    """Reads `1048576`, `64MiB`, `1.5 GB`; raises ValueError for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _FACTORS:
        raise ValueError(f"{text!r} is not a size in bytes; write for instance 64MiB, 500kB or 1048576")
    return int(float(match[1]) * _FACTORS[match[2].lower()])
