"""Extracts the cause from the output of a program that failed, in Python or in a JVM."""

import re
from collections.abc import Sequence
from itertools import takewhile

_ERRORS = "Error|Exception|Refused|Failed|Away|Lost|NotAllowed|TakenOver|NotAttached|OlderCheckpoint|Replaced"
"""Suffixes of the names of errors."""
_CAUSE = re.compile(rf"^(?!SQLSTATE)(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:{_ERRORS})\b: \S.*$", re.MULTILINE)

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*")

_CAUSED_BY = "Caused by: "
_OF_PY4J = ": "
"""Before an error of the JVM in one of py4j."""
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
        return said[-1].strip().removeprefix(_CAUSED_BY).removeprefix(_OF_PY4J)
    printed = last_words_of_jvm([*takewhile(lambda line: _TRACEBACK_BEGINS not in line, said[:-1])])
    why = f"it has printed: {printed}" if printed else "it has printed nothing; headrace doctor looks for what this machine lacks"
    return f"{JVM_ENDED}: {why}"


def without_progress(text: str) -> str:
    """Returns the output of a program without Spark's progress bars, which end without a new line."""
    return _PROGRESS.sub(lambda bars: "\n" if text[bars.start() - 1 : bars.start()].strip("\n") else "", text)


def first_traceback(trace: str) -> str:
    """Returns the first Python traceback in a trace, which shows the innermost error; the whole trace if it has none."""
    found = _TRACEBACK.search(trace)
    return found[0] if found else trace.rstrip()


def first_cause(trace: str) -> str:
    """Returns the innermost error in a trace: Spark wraps a Python error in several of its own."""
    causes = _CAUSE.findall(trace)
    return str(causes[-1] if causes else trace.splitlines()[0])


_PROGRESS = re.compile(r"(?:\r?\[Stage \d+:[^\]\r\n]*\][ \r]*)+")
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
