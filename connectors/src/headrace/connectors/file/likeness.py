"""Compares a file with one that it has replaced, and that is still open."""

import os

from headrace.connectors.file._encoding import Encoding, first_end, marked
from headrace.connectors.file.parts import Part

_PROBES, _PROBE_BYTES = 64, 64 * 1024
_LINE_BYTES = 1024
_SEARCHED_BYTES = 64 << 20
_STEP_BYTES = 1 << 20


def begins_with(part: Part, descriptor: int, size: int) -> bool:
    """Returns whether a file begins with the contents of another one: compares all of it, or 64 places of a large one."""
    if part.size < size or not size:
        return False
    step = max(_PROBE_BYTES, (size - _PROBE_BYTES) // (_PROBES - 1))
    with part.open() as file:
        other = file.fileno()
        for at in (*range(0, size, step), max(0, size - _PROBE_BYTES)):
            length = min(_PROBE_BYTES, size - at)
            if os.pread(descriptor, length, at) != os.pread(other, length, at):
                return False
    return True


def shares_first_line(part: Part, descriptor: int, size: int, encoding: Encoding | None) -> bool | None:
    """Returns whether the first line of a file is a line of another one, too; None as long as it has no line.

    Args:
        part: The file.
        descriptor: The other one.
        size: The size of the other one, in bytes.
        encoding: The encoding of the other one; None if it is unknown.
    """
    encoding = encoding or Encoding.UTF_8
    with part.open() as file:
        head = file.read(_LINE_BYTES)
    is_long = len(head) == _LINE_BYTES
    if marked(head) is encoding:
        head = head[len(encoding.byte_order_mark) :]
    line = head[: first_end(head, encoding)] or (head if is_long else b"")
    if not line:
        return None
    start = len(encoding.byte_order_mark)
    has_mark = os.pread(descriptor, start, 0) == encoding.byte_order_mark
    before = encoding.line_feed
    for at in range(start if has_mark else 0, min(size, _SEARCHED_BYTES), _STEP_BYTES):
        data = before + os.pread(descriptor, _STEP_BYTES, at)
        if encoding.line_feed + line in data:
            return True
        before = data[-len(encoding.line_feed + line) + 1 :]
    return False
