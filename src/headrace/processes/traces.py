"""What a program said before it ended."""

import re

_ERRORS = "Error|Exception|Refused|Failed|Away|Lost|NotAllowed|TakenOver|NotAttached|OlderCheckpoint|Replaced"
"""What the names of errors end with."""
_CAUSE = re.compile(rf"^(?!SQLSTATE)(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:{_ERRORS})\b: \S.*$", re.MULTILINE)

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*")


def first_traceback(trace: str) -> str:
    """The traceback of the innermost error of Python that a trace names; all of the trace where it names none."""
    found = _TRACEBACK.search(trace)
    return found[0] if found else trace.rstrip()


def first_cause(trace: str) -> str:
    """The innermost error that a trace names: Spark wraps one that comes from Python in several of its own."""
    causes = _CAUSE.findall(trace)
    return str(causes[-1] if causes else trace.splitlines()[0])
