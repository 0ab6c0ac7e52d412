"""The pipes to a process: sends a request, and waits for the response until a deadline."""

import contextlib
import fcntl
import os
import select
import sys
import time
from collections import deque
from subprocess import Popen

from headrace.contract.columns import varint

PIPE_BYTES = 2**20
"""The capacity that is requested for each pipe, in bytes. A larger one saves switches between the processes."""
_READ_BYTES = 2**20
_LINES, _LINE_BYTES = 10, 400
"""The number of last lines of standard error for errors, and how much is kept of each."""
_MAX_VARINT = 10
"""The maximum size of a varint, in bytes."""


class Broken(Exception):
    """The process has ended, is late, or does not keep to the protocol. The text continues a sentence about the program."""


class Pipes:
    """The pipes to a process, which answers one request at a time.

    Args:
        process: The process, with three pipes.
        name: The prefix of its lines of standard error, which this process passes on to its own.
    """

    def __init__(self, process: Popen[bytes], name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._name = process, name
        self._in, self._out, self._err = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        _enlarge(self._in)
        _enlarge(self._out)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._received = bytearray()
        self._has_ended = False
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._line = b""

    def exchange(self, request: bytes, timeout_s: float, limit_bytes: int) -> bytes:
        """Sends a request with its length, and returns the response without its length.

        Args:
            request: The request.
            timeout_s: The time for both, in seconds.
            limit_bytes: The maximum size of the response.

        Raises:
            Broken: There is no such response.
        """
        self._read()
        if self._received:
            raise Broken(f"wrote to standard output without being asked{self._excerpt()}")
        deadline = time.monotonic() + timeout_s
        unsent = memoryview(varint(len(request)) + request)
        while True:
            unsent = self._write(unsent)
            self._wait(bool(unsent), deadline, timeout_s)
            self._read()
            response = self._response(limit_bytes)
            if response is not None:
                if unsent:
                    raise Broken("answered a request before it had read it")
                return response
            if self._has_ended:
                raise Broken(self._end())

    def last_lines(self) -> str:
        """The last lines of standard error, for an error; empty if there are none."""
        self._read_errors()
        if self._line:
            self._line_ends(b"")
        return "".join(f"\n    {line}" for line in self._lines)

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            while unsent:
                unsent = unsent[os.write(self._in, unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return memoryview(b"")  # Its standard output will end as well, or its time.
        return unsent

    def _wait(self, writes: bool, deadline: float, timeout_s: float) -> None:
        """Waits until there is something to read, or room to write."""
        left = deadline - time.monotonic()
        if writes:
            self._poll.register(self._in, select.POLLOUT)
        try:
            ready = left > 0 and self._poll.poll(left * 1000)
        finally:
            if writes:
                self._poll.unregister(self._in)
        if not ready:
            raise Broken(f"has not answered within {timeout_s:g} s, the timeout= of the step{self._excerpt()}")
        if any(pipe == self._err for pipe, _ in ready):
            self._read_errors()

    # Both read once: a program that writes as fast as it is read must not keep the caller from its deadline.

    def _read(self) -> None:
        """Reads the available standard output, or a part of it."""
        if self._has_ended:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._out, _READ_BYTES)
            self._received += data
            self._has_ended = not data

    def _read_errors(self) -> None:
        """Reads the available standard error, or a part of it."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._err, _READ_BYTES)
            if not data:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(self._err)
                return
            first, *others = data.split(b"\n")
            for part in others:
                self._line_ends(first)
                first = part
            self._line = (self._line + first)[: 2 * _LINE_BYTES]

    def _line_ends(self, last: bytes) -> None:
        text = (self._line + last).decode(errors="backslashreplace").rstrip("\r")
        self._line = b""
        print(f"{self._name}: {text}", file=sys.stderr)
        self._lines.append(text[:_LINE_BYTES])

    def _response(self, limit_bytes: int) -> bytes | None:
        """Removes and returns a complete message from the received bytes; None if there is none."""
        size = shift = at = 0
        for at, byte in enumerate(self._received[:_MAX_VARINT], 1):  # noqa: B007
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            if at == _MAX_VARINT:
                raise Broken(f"wrote something else than messages to standard output{self._excerpt()}")
            return None
        if size > limit_bytes:
            raise Broken(
                f"announced a message of {size:,} bytes, and the limit is {limit_bytes:,}; it may have written something else "
                f"than messages to standard output{self._excerpt()}"
            )
        if len(self._received) < at + size:
            return None
        response = bytes(self._received[at : at + size])
        del self._received[: at + size]
        return response

    def _excerpt(self) -> str:
        return f", beginning with {bytes(self._received[:40])!r}" if self._received else ""

    def _end(self) -> str:
        """How the process has ended."""
        try:
            code = self._process.wait(1)
        except Exception:
            return "closed its standard output"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _enlarge(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # There is a limit for all pipes of a user.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
