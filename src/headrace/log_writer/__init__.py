"""Writes what processes print into files that may be renamed, removed or truncated, and whose disk may be full.

A process writes into a pipe, and never into a file, whose descriptor nobody else could exchange. A small process of its own reads
the pipes, `python -m headrace.log_writer`: it outlives a supervisor that is killed, and writes the last words of its processes.
What may wait for a disk has a thread of its own.
"""

from headrace.log_writer.disk import Disk
from headrace.log_writer.file import LogFile, close, opened
from headrace.log_writer.lines import Lines
from headrace.log_writer.service import MAX_MESSAGE_BYTES, send
from headrace.log_writer.writer import Writer

__all__ = ["MAX_MESSAGE_BYTES", "Disk", "Lines", "LogFile", "Writer", "close", "opened", "send"]
