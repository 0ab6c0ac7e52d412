"""The connectors that come with Headrace."""

from headrace.connectors._dead_letters import DeadLetter, DeadLetterSource, dead_letters
from headrace.connectors._file import FileSource
from headrace.connectors._file_sink import FileSink
from headrace.connectors._file_sink_format import SinkFormat
from headrace.connectors._file_sink_output import Rotation
from headrace.connectors._records import BadRecord, Format
from headrace.connectors._registry import CONNECTORS, Connector
from headrace.connectors._stdout_sink import StdoutSink

__all__ = [
    "CONNECTORS",
    "BadRecord",
    "Connector",
    "DeadLetter",
    "DeadLetterSource",
    "FileSink",
    "FileSource",
    "Format",
    "Rotation",
    "SinkFormat",
    "StdoutSink",
    "dead_letters",
]
