"""Patterns of stream names: `*` stands for any text within one part of a name (`orders/*`), as at the gateway."""

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(re.escape(text) for text in pattern.split("*")))


def matches(pattern: str, stream: str) -> bool:
    """Whether a stream is one that a pattern means."""
    return _compiled(pattern).fullmatch(stream) is not None
