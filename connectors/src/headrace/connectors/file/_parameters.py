"""What the file connectors can be told, and how they are made and checked."""

import asyncio
import os
from pathlib import Path

from pydantic import Field

from headrace.connectors._bad_records import BadRecordParameters
from headrace.connectors._parameters import Parameters
from headrace.connectors._records import Format
from headrace.connectors._registry import Implementation
from headrace.connectors.file._format import SinkFormat
from headrace.connectors.file._names import Names
from headrace.connectors.file._output import Rotation
from headrace.connectors.file._sink import FileSink
from headrace.connectors.file._source import FileSource
from headrace.sdk import InvalidSink


class FileParameters(BadRecordParameters):
    """Stream the records of files; each file is a partition.

    Files must only be appended to, and may be rotated. Patterns are those of the shell: quote them on the command line, so that
    files that appear later are found.
    """

    path: tuple[Path, ...] = Field(min_length=1, description="Files, or patterns that they match.", examples=["trades/*.csv"])
    source: str = Field(description="Streams are called SOURCE/<path>.", examples=["trades"])
    format: Format = Field(default=Format.LINES, description="length-prefixed: a big-endian u32 before each record.")
    follow: bool = Field(default=True, description="Wait for more at the end of a file, and for new files; else end there.")
    names: Names = Field(
        default=Names.RELATIVE,
        description="What a stream is called after: relative, the path below root; or base, the file name alone.",
    )
    root: Path | None = Field(
        default=None,
        description="The folder that paths in names are relative to; where not given, the one before a pattern's first wildcard.",
    )
    rotation: bool = Field(
        default=True,
        description="Go on in the next file once one was rotated: app.log.1, app.log-20260131 and app.log.1.gz were app.log.",
    )
    rotated_seconds: float = Field(
        default=5.0, ge=0, description="How long a rotated file must be unchanged until the next one is read."
    )
    max_streams: int = Field(
        default=500,
        ge=1,
        description="How many files are read at the same time; more take turns. At most the gateway's max_streams_per_session.",
    )
    idle_seconds: float = Field(
        default=2.0, ge=0, description="How long a file has nothing new until another one, which waits, gets its turn."
    )


class FileSinkParameters(Parameters):
    """Write to files, exactly once: a message is in a file if and only if its batch is committed.

    Files are called SINK-000001.jsonl and so on (.lines, .bin), and are only appended to. A file is complete once the next one
    exists; only then may it be moved away. The hidden folder .headrace beside them belongs to the sink.
    """

    path: Path = Field(description="The folder that the files are in; it is made where needed.", examples=["alerts"])
    sink: str = Field(description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"])
    format: SinkFormat = Field(
        default=SinkFormat.JSON,
        description="json: all of a message in a line; lines: its value; length-prefixed: its value after a big-endian u32.",
    )
    rotate_bytes: int = Field(default=128 << 20, ge=1, description="Begin a new file when one has so many bytes.")
    rotate_seconds: float | None = Field(
        default=None, gt=0, description="Begin a new file when one is so old; never where not given."
    )


def _source(parameters: FileParameters) -> FileSource:
    return FileSource(
        parameters.source,
        parameters.path,
        parameters.format,
        follow=parameters.follow,
        names=parameters.names,
        root=parameters.root,
        rotation=parameters.rotation,
        rotated_seconds=parameters.rotated_seconds,
        max_streams=parameters.max_streams,
        idle_seconds=parameters.idle_seconds,
        bad_records=parameters.bad_records,
        dead_letters=parameters.dead_letters,
    )


def _check_source(parameters: FileParameters) -> str:
    """Looks which files there are."""
    count = len(asyncio.run(_source(parameters).partitions()))
    return f"{count} {'stream' if count == 1 else 'streams'} now" + (", more are waited for" if parameters.follow else "")


def _sink(parameters: FileSinkParameters) -> FileSink:
    rotation = Rotation(parameters.rotate_bytes, parameters.rotate_seconds)
    return FileSink(parameters.sink, parameters.path, parameters.format, rotation=rotation)


def _check_sink(parameters: FileSinkParameters) -> str:
    """Looks whether files can be made, and makes none."""
    folder = parameters.path.absolute()
    exists = next(above for above in (folder, *folder.parents) if above.exists())
    if not exists.is_dir():
        raise InvalidSink(f"cannot write to {folder}: {exists} is no folder")
    if not os.access(exists, os.W_OK | os.X_OK):
        raise InvalidSink(f"cannot write to {folder}: this user may not write to {exists}")
    return f"{folder} can be written to" if exists == folder else f"{folder} can be made"


FILE = Implementation(FileParameters, _source, _check_source)
FILE_SINK = Implementation(FileSinkParameters, _sink, _check_sink)
