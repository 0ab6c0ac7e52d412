"""Counts what is in a message before it is parsed: an empty entry of a list takes 2 bytes on the wire, and 100 in memory."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.contract.limits import MAX_BATCHES, MAX_FRAMES
from headrace.gateway.core.base.bounds import (
    MAX_CAPABILITIES,
    MAX_LISTED,
    MAX_PARTS,
    MAX_PATTERNS,
    MAX_POSITIONS,
    MAX_SEGMENTS,
    MAX_SERIES,
    MAX_STAGES,
    MAX_STEPS,
    MAX_WRITTEN,
)
from headrace.gateway.core.base.errors import ListTooLong, MalformedMessage
from headrace.gateway.core.connections import MAX_ERRORS
from headrace.gateway.core.control import MAX_CONNECTORS
from headrace.gateway.core.state import MAX_LOG_LINES, MAX_NAMES, MAX_PROCESSES
from headrace.gateway.services.commits import MAX_VOTES
from headrace.gateway.services.reporting import MAX_RANGES

SMALL_BYTES = 64 * 2**10
"""The size in bytes of a message that is parsed as it is: whatever is in it takes a few MB, and a few milliseconds."""
MAX_FIELDS = 30_000
"""Fields in one message besides the entries of its lists."""
MAX_REFUSED = 400_000
"""Messages of one part that a sink refuses; a message has no room for more with reasons."""
MAX_ENTRIES: Mapping[str, int] = {
    "Hello.capabilities": MAX_CAPABILITIES,
    "SinkHello.capabilities": MAX_CAPABILITIES,
    "SinkHello.staged": MAX_LISTED,
    "SinkHello.prepared": MAX_LISTED,
    "SinkHello.committed": MAX_LISTED,
    "Staged.refused": MAX_REFUSED,
    "Starts.streams": MAX_POSITIONS,
    "Frames.frames": MAX_FRAMES,
    "Report.errors": MAX_ERRORS,
    "Pipeline.streams": MAX_PATTERNS,
    "AttachRequest.committed": MAX_POSITIONS,
    "AttachRequest.planned": MAX_POSITIONS,
    "AttachRequest.ended": MAX_POSITIONS,
    "PlanRequest.committed": MAX_POSITIONS,
    "PlanRequest.ended": MAX_POSITIONS,
    "PlanRequest.forgotten": MAX_POSITIONS,
    "PlanRequest.awaited": MAX_POSITIONS,
    "PlanRequest.bootstraps": MAX_PATTERNS,
    "Bootstrap.streams": MAX_PATTERNS,
    "Bootstrap.held": MAX_PATTERNS,
    "FetchRequest.ranges": MAX_POSITIONS,
    "FollowRequest.positions": MAX_POSITIONS,
    "DetachRequest.committed": MAX_POSITIONS,
    "ReportBatchesRequest.batches": MAX_BATCHES,
    "LoggedBatch.ranges": MAX_RANGES,
    "VoteRequest.parts": MAX_PARTS,
    "VoteRequest.instances": MAX_PARTS,
    "ReportCommitsRequest.readers": MAX_WRITTEN,
    "ReportCommitsRequest.sinks": MAX_WRITTEN,
    "ReportCommitsRequest.former_sinks": MAX_WRITTEN,
    "ReportCommitsRequest.awaited": MAX_WRITTEN,
    "ReportCommitsRequest.segments": MAX_SEGMENTS,
    "ReportCommitsRequest.votes": MAX_VOTES,
    "RunMetrics.stages": MAX_STAGES,
    "RunMetrics.steps": MAX_STEPS,
    "RunMetrics.series": MAX_SERIES,
    "MetricSeries.bounds": MAX_SERIES,
    "MetricSeries.buckets": MAX_SERIES,
    "SupervisedConnectors.connectors": MAX_CONNECTORS,
    "SupervisedProcesses.processes": MAX_PROCESSES,
    "ProcessState.pipelines": MAX_NAMES,
    "ProcessState.reads": MAX_NAMES,
    "ProcessLog.lines": MAX_LOG_LINES,
}
"""How many entries each list of a request may have, in the whole message. A list that is not named here may have none."""
_DEEP_BYTES = 1024
"""The size in bytes of a field without lists from which on its own fields count."""
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = 0, 1, 2, 3, 4, 5
_MAX_BYTES_OF_NUMBER = 10


@dataclass(slots=True, eq=False)
class _Field:
    """A field that is a list, or contains a message."""

    name: str
    most: int | None
    """How many entries it may have; None if it is no list."""
    packs: bool
    """Whether its entries may be numbers in one field."""
    inside: "_Fields | None"
    """The fields of its message; None if it has none."""


@dataclass(slots=True, eq=False)
class _Fields:
    """The fields of a kind of message that need a look, by number."""

    by_number: dict[int, _Field] = field(default_factory=dict)
    has_lists: bool = False


def check_entries(data: bytes, kind: Descriptor) -> None:
    """Checks how much there is in a serialized message. Whether it is well-formed is left to the parser.

    One entry more than allowed passes, so that whoever reads the list refuses it, and can tell where it belongs.

    Args:
        data: The message.
        kind: Its type.

    Raises:
        ListTooLong: a list has too many entries.
        MalformedMessage: there are too many fields.
    """
    if len(data) > SMALL_BYTES:
        try:
            _count(data, kind.name, _fields(kind))
        except IndexError:
            # It ends within a field, which the parser reports.
            return


def _count(data: bytes, name: str, root: _Fields) -> None:
    counts = dict[_Field, int]()
    others, inner = 0, [(0, len(data), root)]
    while inner:
        at, end, fields = inner.pop()
        while at < end:
            tag = data[at]
            at += 1
            if tag > 0x7F:
                tag, at = _number(data, at - 1)
            kind, found, entries = tag & 7, fields.by_number.get(tag >> 3), 1
            if kind == _BYTES:
                length = data[at]
                at += 1
                if length > 0x7F:
                    length, at = _number(data, at - 1)
                if found is not None:
                    if found.packs:
                        entries = length // _MAX_BYTES_OF_NUMBER
                    elif found.inside is not None and (found.inside.has_lists or length > _DEEP_BYTES):
                        inner.append((at, at + length, found.inside))
                    elif found.most is not None and tag <= 0x7F:
                        at, more = _entries_after(data, at + length, end, tag, found.most)
                        entries, length = entries + more, 0
                at += length
            elif kind == _VARINT:
                while data[at] > 0x7F:
                    at += 1
                at += 1
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            elif kind not in (_GROUP, _GROUP_END):
                return
            if found is None or found.most is None:
                others += 1
                if others > MAX_FIELDS:
                    text = f"{name} of {len(data)} bytes with more than {MAX_FIELDS} fields, besides lists; send each field once"
                    raise MalformedMessage(text)
            else:
                counts[found] = count = counts.get(found, 0) + entries
                if count > found.most + 1:
                    text = f"{found.name}: more than {found.most} in one request; at most {found.most} are allowed"
                    raise ListTooLong(text, limit=found.name, maximum=found.most, actual=count)


def _entries_after(data: bytes, at: int, end: int, tag: int, most: int) -> tuple[int, int]:
    """Returns the offset after the short entries of the same list that follow, and how many they are, up to a limit."""
    if end - at >= 2 * most and _too_many(tag, most).match(data, at, end) is not None:
        # Found out in a tenth of the time.
        return at, most + 1
    count = 0
    while at < end and data[at] == tag and count <= most and (length := data[at + 1]) <= 0x7F:
        at += length + 2
        count += 1
    return at, count


@cache
def _too_many(tag: int, most: int) -> re.Pattern[bytes]:
    """Returns the pattern of one short entry of a list more than are allowed."""
    entries = b"|".join(re.escape(bytes([length])) + b".{%d}" % length for length in range(0x80))
    return re.compile(b"(?:%s(?:%s)){%d}+" % (re.escape(bytes([tag])), entries, most + 1), re.DOTALL)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number, and the offset after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80 or shift > 63:
            return number, at
        shift += 7


@cache
def _fields(kind: Descriptor) -> _Fields:
    """Returns what to look at in a kind of message. No request contains a message of its own kind."""
    result = _Fields()
    for each in kind.fields:
        inside = None if each.message_type is None else _fields(each.message_type)
        most = MAX_ENTRIES.get(f"{kind.name}.{each.name}", 0) if each.is_repeated else None
        if most is not None or inside is not None:
            packs = each.is_repeated and each.cpp_type not in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE)
            result.by_number[each.number] = _Field(each.name, most, packs, inside)
        result.has_lists |= most is not None or (inside is not None and inside.has_lists)
    return result
