"""A record of the wire, as lines for people."""

import time
from collections import deque
from typing import Any

from google.protobuf.text_format import MessageToString

from headrace.contract.counts import counted

_FIRST, _LAST = 60, 60
_MAX_LENGTH = 220
"""The longest text of a message, in characters."""


class Trace:
    """The messages and events of one check: the first ones, and the last ones."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_LAST)
        self._count = 0

    def event(self, text: str) -> None:
        """Notes something that is no message: a process was started, a connection was cut."""
        line = f"{time.monotonic() - self._began:8.3f} s  {text}"
        self._count += 1
        if len(self._first) < _FIRST:
            self._first.append(line)
        else:
            self._last.append(line)

    def from_connector(self, session: int, message: Any) -> None:
        """Notes a message that has arrived."""
        self.event(f"#{session} connector -> gateway  {described(message)}")

    def from_gateway(self, session: int, message: Any) -> None:
        """Notes a message that is sent."""
        self.event(f"#{session} connector <- gateway  {described(message)}")

    def lines(self) -> tuple[str, ...]:
        """The lines so far; one of them says how many were left out."""
        left_out = self._count - len(self._first) - len(self._last)
        between = [f"            ... {counted(left_out, 'line')} left out ..."] if left_out else []
        return (*self._first, *between, *self._last)


def described(message: Any) -> str:
    """A message on one line; of a frame what identifies it, without its data."""
    kind = message.WhichOneof("message")
    if kind is None:
        return "a message that this version of the protocol does not know"
    inner = getattr(message, kind)
    if kind == "frame":
        part = f"part {inner.id}" if hasattr(inner, "frame") else f"stream_id {inner.stream_id}"
        frame = inner.frame if hasattr(inner, "frame") else inner
        return f"frame {part}: {counted(frame.count, 'message')} from sequence {frame.first_sequence}, {frame.ByteSize()} bytes"
    text = MessageToString(inner, as_one_line=True)
    return f"{kind} {text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH] + '...'}".rstrip()
