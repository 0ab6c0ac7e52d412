"""Patterns of stream and pipeline names: `*` stands for any text within one part of a name (`orders/*`)."""

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(re.escape(text) for text in pattern.split("*")))


def covers(pattern: str, name: str) -> bool:
    """True where `pattern` matches `name`; `name` may be a pattern itself, and is then covered where all it matches is."""
    return _compiled(pattern).fullmatch(name) is not None
