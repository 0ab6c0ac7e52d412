"""Where an error of a query began: its first cause in the traces of Python and of the JVM, and what it concerns."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from headrace.protocol.v1 import metrics_pb2 as pb

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)*)(\S.*)")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_CAUSED_BY = re.compile(r"^\s*Caused by: (\S.*)$", re.MULTILINE)
_ERROR = re.compile(
    r"^:? ?((?:\w+\.)*\w*(?:Error|Exception|Refused|Failed|Away|Lost|Silent|Replaced|TakenOver)\b: \S.*)$", re.MULTILINE
)
_NOT_OF_THE_USER = re.compile(
    r"/headrace/(?:engine|pipelines|contract|sdk|protocol)/|/pyspark/|/py4j/|^<frozen "
    r"|/lib/python3\.\d+/(?!(?:site|dist)-packages/)"
)
"""Files of the engine, of Spark, and of Python itself."""
_OF_THE_JVM = "py4j.protocol.Py4JJavaError"
_PATH = re.compile(r"(?<![\w/])(/[\w.@+-]+(?:/[\w.@+-]+)+)")
_SINK = re.compile(r"\bsink ([\w.-]*\w)")
_STREAM = re.compile(r"\bstream ([\w.-]+/[\w.-]*\w)")
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system|Input/output error|ENOSPC")
_DENIED = re.compile(r"Permission denied|Operation not permitted|AccessDeniedException|AccessControlException|Stale file handle")
_LACKS = re.compile(
    r"OutOfMemoryError|Too many open files|Cannot allocate memory|Python worker exited unexpectedly|MemoryError"
    r"|can't start new thread|unable to create native thread|Resource temporarily unavailable"
)
_BY_ERROR: dict[str, "pb.RunFaultOrigin.ValueType"] = {
    "SinkFailed": pb.RUN_FAULT_ORIGIN_SINK,
    "SinkLost": pb.RUN_FAULT_ORIGIN_SINK,
    "SinkAway": pb.RUN_FAULT_ORIGIN_SINK,
    "SourceSilent": pb.RUN_FAULT_ORIGIN_SOURCE,
    "StreamAway": pb.RUN_FAULT_ORIGIN_SOURCE,
    "MessagesLost": pb.RUN_FAULT_ORIGIN_SOURCE,
    "GatewayAway": pb.RUN_FAULT_ORIGIN_SOURCE,
    "Replaced": pb.RUN_FAULT_ORIGIN_OTHER_RUN,
    "TakenOver": pb.RUN_FAULT_ORIGIN_OTHER_RUN,
}
"""Where errors of the engine began, by their class."""
_OF_AN_ENGINE = re.compile(rf"\b({'|'.join(_BY_ERROR)}): ")
_OTHER_DRIVER = re.compile(r"another driver has (?:started|continued)")
_MAX_TEXT = 1_000
_MIN_BYTES = 2**20
"""A file system with less room is full."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The first cause of an error.

    Attributes:
        text: The line that says why, and where in the user's code it was raised, if it was.
        origin: Where it began.
        about: Its subject, by its origin; empty if that is not known.
    """

    text: str
    origin: "pb.RunFaultOrigin.ValueType" = pb.RUN_FAULT_ORIGIN_UNSPECIFIED
    about: str = ""


def cause_of(error: str) -> Cause:
    """Returns the first cause of an error of Spark: of the innermost traceback, or else of the last `Caused by`."""
    traceback = next((found for found in _TRACEBACK.finditer(error) if not found[2].startswith(_OF_THE_JVM)), None)
    where = ""
    if traceback is not None:
        line = traceback[2]
        frames = [frame for frame in _FRAME.findall(traceback[1]) if not _NOT_OF_THE_USER.search(frame[0])]
        if frames:
            path, number, function = frames[-1]
            where = f" ({path.rpartition('/')[2]}, line {number}, in {function})"
    else:
        causes = _CAUSED_BY.findall(error) or _ERROR.findall(error)
        line = causes[-1] if causes else error.strip().partition("\n")[0]
    line = line.strip()[:_MAX_TEXT]
    origin = _origin(line, is_of_a_function=bool(where) or "USER_RAISED_EXCEPTION" in error)
    return Cause(line + where, origin, _about(line, origin))


def _origin(line: str, *, is_of_a_function: bool) -> "pb.RunFaultOrigin.ValueType":
    # The JVM may have wrapped an error of the engine in one of its own.
    if (found := _OF_AN_ENGINE.search(line)) is not None:
        return _BY_ERROR[found[1]]
    if _OTHER_DRIVER.search(line):
        return pb.RUN_FAULT_ORIGIN_OTHER_RUN
    if _NO_ROOM.search(line):
        return pb.RUN_FAULT_ORIGIN_STORAGE
    if _LACKS.search(line):
        return pb.RUN_FAULT_ORIGIN_SPARK
    if is_of_a_function:
        return pb.RUN_FAULT_ORIGIN_FUNCTION
    return pb.RUN_FAULT_ORIGIN_STORAGE if _DENIED.search(line) else pb.RUN_FAULT_ORIGIN_UNSPECIFIED


def _about(line: str, origin: "pb.RunFaultOrigin.ValueType") -> str:
    patterns = {pb.RUN_FAULT_ORIGIN_SINK: _SINK, pb.RUN_FAULT_ORIGIN_SOURCE: _STREAM, pb.RUN_FAULT_ORIGIN_STORAGE: _PATH}
    found = patterns[origin].search(line) if origin in patterns else None
    return found[1] if found is not None else ""


def with_place(cause: Cause, places: Iterable[str]) -> Cause:
    """Adds to an error of a storage, which names no file, which of the folders is full; all of them if none is full now.

    Args:
        cause: The cause.
        places: The folders that it may concern, as paths or URLs.
    """
    known = list(dict.fromkeys(local_path(place) for place in places if place))
    full = [place for place in known if is_full(place)]
    if full:
        return replace(cause, text=f"{cause.text}: {', '.join(full)} has no room left", about=full[0])
    return replace(cause, text=f"{cause.text}: it writes to {' and '.join(known)}", about=known[0] if known else "")


def local_path(place: str) -> str:
    """Returns the path of a URL of a file, and anything else as it is."""
    url = urlsplit(place)
    return url.path if url.scheme == "file" else place


def is_full(folder: str) -> bool:
    """Returns whether a local folder has room for no further file; False for one that is not local, or that is gone."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _MIN_BYTES or (found.f_files > 0 and found.f_favail == 0)
