"""The connectors that come with Headrace."""

from headrace.connectors._file import FileSource
from headrace.connectors._records import BadRecord, Format
from headrace.connectors._registry import CONNECTORS, Connector

__all__ = ["CONNECTORS", "BadRecord", "Connector", "FileSource", "Format"]
