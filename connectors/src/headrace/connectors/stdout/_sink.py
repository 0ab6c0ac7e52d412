"""The `stdout-sink`: prints messages, at least once."""

import os
import signal
import sys

from pydantic import Field

from headrace.connectors._connector import VERSION, Implementation
from headrace.connectors._parameters import Parameters
from headrace.connectors.file._format import json_lines
from headrace.sdk import Rows, Sink


class StdoutSink(Sink):
    """Prints values, or messages as JSON lines. Ends the process gracefully if the reader of its output ends."""

    connector = "stdout-sink"
    version = VERSION

    def __init__(self, name: str, *, as_json: bool = False) -> None:
        """Creates a sink that prints one line for each message: its value, or the whole message as JSON.

        Args:
            name: The name of the sink in Spark.
            as_json: True for JSON lines.
        """
        self.name = name
        self._as_json = as_json

    def write(self, rows: Rows) -> None:
        """Prints rows."""
        values = (message.value or b"" for message in rows.messages())
        self._print(json_lines(rows) if self._as_json else b"".join(value + b"\n" for value in values))

    def _print(self, data: bytes) -> None:
        """Prints and flushes."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Python would report an error for the rest of the buffer at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            os.kill(os.getpid(), signal.SIGTERM)
            raise


class StdoutSinkParameters(Parameters):
    """Print messages, at least once."""

    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    as_json: bool = Field(default=False, alias="json", description="Print the message as a line of JSON, instead of its value.")


def _sink(parameters: StdoutSinkParameters) -> StdoutSink:
    return StdoutSink(parameters.sink, as_json=parameters.as_json)


STDOUT_SINK = Implementation(StdoutSinkParameters, _sink)
