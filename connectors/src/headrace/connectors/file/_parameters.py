"""The parameters of the file connectors, and how the connectors are built and checked."""

import asyncio
import os
from pathlib import Path

from pydantic import Field

from headrace.configuration import Duration, Size
from headrace.connectors._connector import Implementation
from headrace.connectors._parameters import Parameters
from headrace.connectors._records import Format
from headrace.connectors.bad_records import BadRecordParameters
from headrace.connectors.file._encoding import Encoding
from headrace.connectors.file._format import SinkFormat
from headrace.connectors.file._names import Names
from headrace.connectors.file._output import Rotation
from headrace.connectors.file._sink import FileSink
from headrace.connectors.file._source import FileSource
from headrace.sdk import InvalidSink


class FileParameters(BadRecordParameters):
    """Stream the records of files; each file is a partition.

    Files may only be appended to, and may be rotated. Patterns are shell patterns: quote them on the command line, so that files
    that appear later are found.
    """

    path: tuple[Path, ...] = Field(min_length=1, description="Files, or patterns that match files.", examples=["trades/*.csv"])
    source: str = Field(description="Streams are named SOURCE/<path>.", examples=["trades"])
    format: Format = Field(default=Format.LINES, description="The format; length-prefixed: a big-endian u32 before each record.")
    encoding: Encoding = Field(
        default=Encoding.UTF_8,
        description="Encoding of lines without a byte order mark. They are sent in UTF-8; with bytes, unchanged, and"
        " marks do not count.",
    )
    follow: bool = Field(
        default=True, description="Wait for more data and new files; otherwise a stream ends at the end of its file."
    )
    names: Names = Field(
        default=Names.RELATIVE,
        description="What names streams: the path below root, or the file name alone.",
    )
    root: Path | None = Field(
        default=None,
        description="The folder for relative names; default: the one before a pattern's first wildcard.",
    )
    rotation: bool = Field(
        default=True,
        description="Read rotated files, such as app.log.1 or app.log.1.gz, as earlier parts of app.log.",
    )
    rotated_seconds: Duration = Field(
        default=5.0, ge=0, description="How long a rotated file is unchanged before the next one is read."
    )
    max_streams: int = Field(
        default=500,
        ge=1,
        description="The most files to read at a time; others take turns. No more than the gateway's max_streams_per_session.",
    )
    idle_seconds: Duration = Field(
        default=2.0, ge=0, description="How long a file has nothing new before a waiting one gets its turn."
    )


class FileSinkParameters(Parameters):
    """Write to files, exactly once: a message is in a file if and only if its batch is committed.

    Files are named SINK-000001.jsonl and so on (.lines, .bin), and are only appended to. A file is complete once the next one
    exists; only then may you move it. The hidden folder .headrace next to them belongs to the sink.
    """

    path: Path = Field(description="The folder for the files; created if it does not exist.", examples=["alerts"])
    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    format: SinkFormat = Field(
        default=SinkFormat.JSON,
        description="json: the message as a line; lines: its value; length-prefixed: its value after a big-endian u32.",
    )
    rotate_bytes: Size = Field(default=128 << 20, ge=1, description="Size at which a new file begins.")
    rotate_seconds: Duration | None = Field(default=None, gt=0, description="Age at which a new file begins; default: never.")


def _source(parameters: FileParameters) -> FileSource:
    return FileSource(
        parameters.source,
        parameters.path,
        parameters.format,
        encoding=parameters.encoding,
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
    """Lists the files that exist now."""
    count = len(asyncio.run(_source(parameters).partitions()))
    return f"{count} {'stream' if count == 1 else 'streams'} now" + (", waiting for more" if parameters.follow else "")


def _sink(parameters: FileSinkParameters) -> FileSink:
    rotation = Rotation(parameters.rotate_bytes, parameters.rotate_seconds)
    return FileSink(parameters.sink, parameters.path, parameters.format, rotation=rotation)


def _check_sink(parameters: FileSinkParameters) -> str:
    """Checks whether files can be created, without creating any."""
    folder = parameters.path.absolute()
    exists = next(above for above in (folder, *folder.parents) if above.exists())
    if not exists.is_dir():
        raise InvalidSink(f"cannot write to {folder}: {exists} is not a folder")
    if not os.access(exists, os.W_OK | os.X_OK):
        raise InvalidSink(f"cannot write to {folder}: this user may not write to {exists}")
    return f"{folder} can be written to" if exists == folder else f"{folder} can be created"


FILE = Implementation(FileParameters, _source, _check_source)
FILE_SINK = Implementation(FileSinkParameters, _sink, _check_sink)
