"""How files are read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors._records import BadRecord, Format
from headrace.connectors.file._encoding import Encoding
from headrace.connectors.file.parts import Key
from headrace.sdk import Message


@dataclass(frozen=True, slots=True)
class Options:
    """How the files of a stream are read.

    Attributes:
        format: The format of records.
        follow: Whether to wait for more data at the end.
        rotation: Whether a stream continues in the next file once its file was rotated.
        rotated_seconds: How long a rotated file must be unchanged before the next one is read, in seconds.
        bad_record: Called with a record that cannot be sent; raises if that ends the connector.
        encoding: The encoding of files of lines without a byte order mark.
        moved: Returns where the file of a key is now, if it was given a name that is no rotation of its own.
        is_read_elsewhere: Returns whether another stream reads the file of a key now.
    """

    format: Format
    follow: bool
    rotation: bool
    rotated_seconds: float
    bad_record: Callable[[Message, BadRecord], None]
    encoding: Encoding = Encoding.UTF_8
    moved: Callable[[Key], Path | None] = lambda key: None
    is_read_elsewhere: Callable[[Key], bool] = lambda key: False
