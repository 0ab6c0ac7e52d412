"""Writes, reads and replays dead letters in the JSON format of `file-sink`."""

import base64
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.connectors._connector import VERSION
from headrace.sdk import InvalidSource, Message, Position, Source, SourceFailed

_PREFIX = "headrace-"
_SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a sink refused permanently, that a source could not send, or that made a function of an application raise.

    Attributes:
        message: The original message.
        sink: The sink or source that refused it, or the step that raised, as `application/step`.
        reason: Why it became a dead letter.
        batch: The micro-batch that contained it; None if a step or a source refused it.
        stream: The stream that it came from; None if the query had dropped the column.
        sequence: Its sequence in that stream, if it had one.
    """

    message: Message
    sink: str
    reason: str
    batch: int | None
    stream: str | None
    sequence: int | None


def dead_letters(folder: str | os.PathLike[str]) -> Iterator[DeadLetter]:
    """Yields every dead letter in a folder, oldest first.

    Raises:
        InvalidSource: The folder does not exist, or contains something else.
    """
    for path in files(folder):
        for letter, _ in read_file(path, 0):
            yield letter


def files(folder: str | os.PathLike[str]) -> list[Path]:
    """Returns the files of a folder of dead letters.

    Raises:
        InvalidSource: The folder does not exist.
    """
    if not Path(folder).is_dir():
        what = "is no folder" if Path(folder).exists() else "does not exist"
        raise InvalidSource(f"{os.fspath(folder)} {what}; name the folder that the dead-letter sink writes to")
    return sorted(Path(folder).glob("*.jsonl"))


def read_file(path: Path, offset: int) -> Iterator[tuple[DeadLetter, int]]:
    """Yields the dead letters of a file from a byte offset on, each with the offset of its end.

    Raises:
        InvalidSource: A line is not a dead letter.
    """
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                letter = _letter(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InvalidSource(f"{path}, byte {offset}: not a dead letter: {error}") from None
            offset += len(line)
            yield letter, offset


class DeadLetterSource(Source):
    """Replays the messages of dead letters unchanged. Every file is a partition, which ends at the end of the file."""

    connector = "dead-letters"
    version = VERSION

    def __init__(self, name: str, folder: str | os.PathLike[str], sink: str | None = None) -> None:
        """Creates a source from a folder of dead letters.

        Args:
            name: The source part of stream names.
            folder: The folder that a `file-sink` with the format json wrote.
            sink: Replays only what this sink refused; None for everything.

        Raises:
            InvalidSource: The folder does not exist.
        """
        self.name = name
        self._folder = folder
        self._files = {path.name: path for path in files(folder)}
        self._sink = sink

    def has_letters(self) -> bool:
        """Returns whether there is anything to replay. Looks no further than at the first dead letter of the sink.

        Raises:
            InvalidSource: The folder contains something else, or only dead letters of others than the sink.
        """
        others: Counter[str] = Counter()
        for letter in dead_letters(self._folder):
            if self._sink in (None, letter.sink):
                return True
            others[letter.sink] += 1
        if others:
            known = ", ".join(name for name, _ in others.most_common(_SHOWN_NAMES))
            raise InvalidSource(
                f"{os.fspath(self._folder)} has no dead letters that {self._sink} refused, but letters of: {known}"
            )
        return False

    def partitions(self) -> Sequence[str]:
        """Returns the files that existed when the source was created."""
        return list(self._files)

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        """Yields the messages; the sequence of each is the byte offset just past its dead letter.

        Raises:
            SourceFailed: A line is not a dead letter.
        """
        try:
            for letter, end in read_file(self._files[partition], position.sequence if position else 0):
                if self._sink in (None, letter.sink):
                    yield replace(letter.message, sequence=end)
        except InvalidSource as error:
            raise SourceFailed(str(error)) from error


def letter_of(message: Message, *, source: str, stream: str, reason: str) -> bytes:
    """Returns a message that a source could not send, as a line of a file of dead letters."""
    said = {"source": source, "stream": stream, "reason": reason}
    if message.sequence is not None:
        said["sequence"] = str(message.sequence)
    headers: list[tuple[str, bytes | None]] = [(_PREFIX + name, text.encode(errors="replace")) for name, text in said.items()]
    document: dict[str, Any] = {} if message.key is None else _member("key", message.key)
    document |= _member("value", message.value)
    if message.event_time is not None:
        time = message.event_time
        document["event_time"] = time if isinstance(time, int) else time.isoformat()
    if message.message_id is not None:
        document["message_id"] = message.message_id
    document["headers"] = [{"name": name, **_member("value", value)} for name, value in (*(message.headers or ()), *headers)]
    return json.dumps(document).encode() + b"\n"


def _member(name: str, data: bytes | None) -> dict[str, str | None]:
    """Converts bytes to a member of an object: as text if they are UTF-8, or else in base64."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}


def _letter(document: dict[str, Any]) -> DeadLetter:
    headers = [(header["name"], _bytes(header, "value")) for header in document.get("headers", ())]
    ours = {
        name.removeprefix(_PREFIX): value.decode() for name, value in headers if name.startswith(_PREFIX) and value is not None
    }
    time = document.get("event_time")
    message = Message(
        _bytes(document, "value"),
        _bytes(document, "key"),
        event_time=datetime.fromisoformat(time) if isinstance(time, str) else time,
        message_id=document.get("message_id"),
        headers=[header for header in headers if not header[0].startswith(_PREFIX)] or None,
    )
    return DeadLetter(
        message,
        ours.get("sink") or ours.get("source") or _step(ours),
        ours["reason"],
        _whole(ours.get("batch")),
        ours.get("stream"),
        _whole(ours.get("sequence")),
    )


def _step(ours: dict[str, str]) -> str:
    """Returns the step of an application whose function raised, for a message that no sink refused."""
    return f"{ours['pipeline']}/{ours['step']}"


def _bytes(document: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in document:
        return base64.b64decode(document[f"{name}_base64"])
    text = document.get(name)
    return None if text is None else str(text).encode()


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
