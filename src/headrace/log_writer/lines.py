"""Lines of several processes on one output, each with the name of its process."""

import json
import os
import select

_LONGEST_LINE = 64 << 10
"""What is longer is cut into several lines."""
_WAITS_MS = 5_000


class Lines:
    """Writes whole lines to a descriptor: `orders: text`, or with the field `process` if the line is a JSON object.

    Attributes:
        fault: Why the last line was not written; None if it was.
    """

    def __init__(self, descriptor: int) -> None:
        """Writes nothing yet."""
        self.fault: str | None = None
        self._descriptor = descriptor
        self._parts: dict[str, bytes] = {}

    def write(self, name: str, output: bytes) -> None:
        """Takes the output of a process, and writes the lines that are complete."""
        *lines, part = (self._parts.pop(name, b"") + output).split(b"\n")
        while len(part) > _LONGEST_LINE:
            lines.append(part[:_LONGEST_LINE])
            part = part[_LONGEST_LINE:]
        if part:
            self._parts[name] = part
        if lines:
            self._put(b"".join(_named(name, line) for line in lines))

    def end(self, name: str) -> None:
        """Writes the line that a process has not completed."""
        part = self._parts.pop(name, b"")
        if part:
            self._put(_named(name, part))

    def _put(self, output: bytes) -> None:
        try:
            while output:
                try:
                    output = output[os.write(self._descriptor, output) :]
                except BlockingIOError:
                    # Another process has set that on the same output.
                    if not _writable(self._descriptor):
                        raise
        except OSError as error:
            # Nobody reads it any more, or its disk is full: the lines are in the file.
            self.fault = f"cannot write to standard error: {error.strerror or error}"
            return
        self.fault = None


def _named(name: str, line: bytes) -> bytes:
    """Returns a line with the name of its process."""
    if line.startswith(b"{") and line.rstrip().endswith(b"}"):
        rest = line[1:].lstrip()
        comma = b"" if rest.startswith(b"}") else b", "
        return b'{"process": ' + json.dumps(name).encode() + comma + rest + b"\n"
    return name.encode() + b": " + line + b"\n"


def _writable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(_WAITS_MS))
