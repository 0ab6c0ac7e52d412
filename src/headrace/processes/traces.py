"""Extracts the cause from the output of a program that failed."""

import re
from collections.abc import Sequence
from itertools import takewhile

from headrace.machine.jvm import is_of_a_trace, last_words_of_jvm

_ERRORS = "Error|Exception|Refused|Failed|Away|Lost|NotAllowed|TakenOver|NotAttached|OlderCheckpoint|Replaced"
"""Suffixes of the names of errors."""
_CAUSE = re.compile(rf"^(?!SQLSTATE)(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:{_ERRORS})\b: \S.*$", re.MULTILINE)

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*")

_CAUSED_BY = "Caused by: "
JVM_ENDED = "Spark's JVM has ended before it was ready"
JVM_EXITED = "[JAVA_GATEWAY_EXITED]"
"""In PySpark's error if the JVM has ended before it was ready: PySpark does not know why, and the JVM has printed it."""
_TRACEBACK_BEGINS = "Traceback (most recent call last)"


def last_words(lines: Sequence[str]) -> str:
    """Returns the last line that says why a program has ended, of a trace of the JVM its innermost cause; empty without one.

    If its JVM has ended before it was ready, that is what the JVM has printed.
    """
    said = [line for line in lines if not is_of_a_trace(line)]
    if not said:
        return ""
    if JVM_EXITED not in said[-1]:
        return said[-1].strip().removeprefix(_CAUSED_BY)
    printed = last_words_of_jvm([*takewhile(lambda line: _TRACEBACK_BEGINS not in line, said[:-1])])
    why = f"it has printed: {printed}" if printed else "it has printed nothing; headrace doctor looks for what this machine lacks"
    return f"{JVM_ENDED}: {why}"


def first_traceback(trace: str) -> str:
    """Returns the first Python traceback in a trace, which shows the innermost error; the whole trace if it has none."""
    found = _TRACEBACK.search(trace)
    return found[0] if found else trace.rstrip()


def first_cause(trace: str) -> str:
    """Returns the innermost error in a trace: Spark wraps a Python error in several of its own."""
    causes = _CAUSE.findall(trace)
    return str(causes[-1] if causes else trace.splitlines()[0])
