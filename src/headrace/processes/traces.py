"""Extracts the cause from the output of a program that failed."""

import re
from collections.abc import Sequence

_ERRORS = "Error|Exception|Refused|Failed|Away|Lost|NotAllowed|TakenOver|NotAttached|OlderCheckpoint|Replaced"
"""Suffixes of the names of errors."""
_CAUSE = re.compile(rf"^(?!SQLSTATE)(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:{_ERRORS})\b: \S.*$", re.MULTILINE)

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*")

_OF_A_TRACE = re.compile(r"\s*(?:at \S+\(|\.\.\. \d+ (?:more|common frames))")
"""Lines of a trace of the JVM that name no error."""
_CAUSED_BY = "Caused by: "


def last_words(lines: Sequence[str]) -> str:
    """Returns the last line that says why a program has ended, of a trace of the JVM its innermost cause; empty without one."""
    said = [line for line in lines if not _OF_A_TRACE.match(line)]
    return said[-1].strip().removeprefix(_CAUSED_BY) if said else ""


def first_traceback(trace: str) -> str:
    """Returns the first Python traceback in a trace, which shows the innermost error; the whole trace if it has none."""
    found = _TRACEBACK.search(trace)
    return found[0] if found else trace.rstrip()


def first_cause(trace: str) -> str:
    """Returns the innermost error in a trace: Spark wraps a Python error in several of its own."""
    causes = _CAUSE.findall(trace)
    return str(causes[-1] if causes else trace.splitlines()[0])
