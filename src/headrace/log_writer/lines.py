"""Lines of several processes on one output, each with the name of its process."""

import json
import os
import select
import threading

_MAX_LINE = 64 << 10
"""What is longer is cut into several lines."""


class Lines:
    """Writes whole lines to a descriptor: `orders: text`, or with the field `process` if the line is a JSON object.

    One thread may take output while another one writes: only `flush` waits for a reader.

    Attributes:
        fault: Why the last lines were not written; None if they were.
    """

    def __init__(self, descriptor: int) -> None:
        """Writes nothing yet."""
        self.fault: str | None = None
        self._descriptor = descriptor
        self._parts: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._waiting = bytearray()

    def take(self, name: str, output: bytes) -> None:
        """Keeps the output of a process until it is written. Who calls this does not read on while `flush` waits."""
        *lines, part = (self._parts.pop(name, b"") + output).split(b"\n")
        while len(part) > _MAX_LINE:
            lines.append(part[:_MAX_LINE])
            part = part[_MAX_LINE:]
        if part:
            self._parts[name] = part
        self._put(b"".join(_with_name(name, line) for line in lines))

    def end(self, name: str) -> None:
        """Keeps the line that a process has not completed."""
        part = self._parts.pop(name, b"")
        if part:
            self._put(_with_name(name, part))

    def flush(self) -> None:
        """Writes the lines that are complete."""
        with self._lock:
            output = bytes(self._waiting)
            self._waiting.clear()
        try:
            while output:
                try:
                    output = output[os.write(self._descriptor, output) :]
                except BlockingIOError:
                    # Another process has set that on the same output.
                    _wait_until_writable(self._descriptor)
        except OSError as error:
            # Nobody reads it, or its disk is full: the lines are in the file.
            self.fault = f"cannot write to standard error: {error.strerror or error}"
            return
        self.fault = None

    def _put(self, lines: bytes) -> None:
        with self._lock:
            self._waiting += lines


def _with_name(name: str, line: bytes) -> bytes:
    """Returns a line with the name of its process."""
    if line.startswith(b"{") and line.rstrip().endswith(b"}"):
        rest = line[1:].lstrip()
        comma = b"" if rest.startswith(b"}") else b", "
        return b'{"process": ' + json.dumps(name).encode() + comma + rest + b"\n"
    return name.encode() + b": " + line + b"\n"


def _wait_until_writable(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()
