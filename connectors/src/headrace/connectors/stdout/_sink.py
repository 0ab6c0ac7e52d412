"""The `stdout-sink`: prints what it is given, at least once."""

import os
import signal
import sys

from headrace.connectors.file._format import json_lines
from headrace.sdk import Rows, Sink


class StdoutSink(Sink):
    """Prints values, or messages as JSON lines. Ends the process, in good order, where nobody reads them any more."""

    connector = "stdout-sink"
    version = "0.1.0"

    def __init__(self, name: str, *, as_json: bool = False) -> None:
        """Prints a line for each message: its value, or all of it as JSON.

        Args:
            name: What Spark calls the sink.
            as_json: True for JSON lines.
        """
        self.name = name
        self._as_json = as_json

    def write(self, rows: Rows) -> None:
        """Prints rows."""
        values = (message.value or b"" for message in rows.messages())
        self._print(json_lines(rows) if self._as_json else b"".join(value + b"\n" for value in values))

    def _print(self, data: bytes) -> None:
        """Prints, and lets it out."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # What is left in the buffer would be complained about at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            os.kill(os.getpid(), signal.SIGTERM)
            raise
