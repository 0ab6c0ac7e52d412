"""The last words of a JVM that does not start, and the lines of its traces."""

import re
from collections.abc import Sequence

_OF_A_TRACE = re.compile(r"\s*(?:at \S+\(|\.\.\. \d+ (?:more|common frames))")
_NO_ERROR = re.compile(
    r"WARNING: |Picked up |Using Spark's default|Setting default log level|To adjust logging level|:: "
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|WARN) "
)
_ERRORS_ARE_LAST = 4
"""How many lines are shown: an error of the JVM has up to three, and its cause may be any of them."""
_MAX_CHARACTERS = 500


def is_of_a_trace(line: str) -> bool:
    """Returns whether a line belongs to a trace of the JVM, and names no error."""
    return _OF_A_TRACE.match(line) is not None


def last_words_of_jvm(printed: Sequence[str]) -> str:
    """Returns the last lines that a JVM has printed as one, without its traces and warnings; empty if there are none.

    Args:
        printed: The lines, the newest last.
    """
    lines = [line.strip() for line in printed if not is_of_a_trace(line) and not _NO_ERROR.match(line)]
    return "; ".join([line for line in lines if line][-_ERRORS_ARE_LAST:])[:_MAX_CHARACTERS]
