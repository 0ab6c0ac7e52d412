"""Files: a source that follows them, and a sink that writes each message exactly once."""

from headrace.connectors._records import BadRecord, Format
from headrace.connectors.file._encoding import Encoding
from headrace.connectors.file._format import SinkFormat
from headrace.connectors.file._names import Names
from headrace.connectors.file._output import Rotation
from headrace.connectors.file._parameters import FILE, FILE_SINK, FileParameters, FileSinkParameters
from headrace.connectors.file._sink import FileSink
from headrace.connectors.file._source import FileSource

__all__ = [
    "FILE",
    "FILE_SINK",
    "BadRecord",
    "Encoding",
    "FileParameters",
    "FileSink",
    "FileSinkParameters",
    "FileSource",
    "Format",
    "Names",
    "Rotation",
    "SinkFormat",
]
