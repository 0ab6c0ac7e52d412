"""The messages that are sent, and the expected results. Pure: this is all that senders, queries and validator share.

There are eleven senders: ten partitions of a replayable source, and a queue that redelivers unacknowledged messages. Each sends
messages numbered from 1, with its own keys. A query keeps a count and a checksum for each key, and writes a row with both for
each message. The query that is a pipeline also has windows and timers, by the sequences of the replayable streams, and writes
a row for each window that closes and each timer that fires.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

REPLAYABLE = "replayable"
REDELIVERING = "redelivering"
PARTITIONS = tuple(str(n) for n in range(10))
STREAMS = (*(f"{REPLAYABLE}/{partition}" for partition in PARTITIONS), f"{REDELIVERING}/0")

WINDOWS, TIMERS = "windows", "timers"
"""The stream names in rows of windows and timers."""
WINDOW, AFTER = 16, 5
"""The length of a window, and the time from a message to its timer, in seconds. A sequence counts as a second."""

_KEYS = 5
"""The number of keys of each sender."""
_GAP_AFTER = 7
"""A sequence is missing after this many messages, as in a compacted topic."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message."""

    key: bytes
    value: bytes


@lru_cache(maxsize=1 << 17)
def content(stream: str, number: int) -> Content:
    """Returns the n-th message of a sender: arbitrary bytes, of different lengths."""
    noise = blake2b(f"{stream} {number}".encode()).digest()
    return Content(f"{stream}:{noise[0] % _KEYS}".encode(), noise[2 : 2 + noise[1] % (len(noise) - 1)])


def sequence_of(number: int) -> int:
    """Returns the sequence of a replayable sender's n-th message."""
    return number + (number - 1) // _GAP_AFTER


def number_at(sequence: int) -> int:
    """Returns the number of the last message at or before a sequence."""
    return sequence - sequence // (_GAP_AFTER + 1)


def message_id(number: int) -> str:
    """Returns the id of the queue's n-th message."""
    return f"m{number}"


def name_of(stream: str, number: int) -> str:
    """Returns what identifies a message in the output: its sequence, or its id if sequences are not stable."""
    return str(sequence_of(number)) if stream.startswith(REPLAYABLE) else message_id(number)


def number_of(stream: str, name: str) -> int:
    """Returns the number of the message with this name."""
    return number_at(int(name)) if stream.startswith(REPLAYABLE) else int(name.removeprefix("m"))


@dataclass(frozen=True, slots=True)
class State:
    """A query's state of a key."""

    count: int = 0
    checksum: int = 0
    """The checksum of all values, in order."""

    def after(self, value: bytes) -> "State":
        """Returns the state after another message."""
        return State(self.count + 1, zlib.crc32(len(value).to_bytes(4, "big") + value, self.checksum))


@dataclass(frozen=True, slots=True)
class Row:
    """The output for a message: its identity, the batch that wrote it, the key's state after it, and its value."""

    stream: str
    name: str
    key: bytes
    batch: int
    state: State
    value: bytes

    def encode(self) -> bytes:
        """Returns the bytes to write: a line, followed by the value."""
        state = self.state
        head = f"{self.stream} {self.name} {self.key.hex()} {self.batch} {state.count} {state.checksum}\n"
        return head.encode() + self.value

    @classmethod
    def decode(cls, data: bytes) -> "Row":
        """Parses the bytes of a row.

        Raises:
            ValueError: They are not a row.
        """
        head, line_feed, value = data.partition(b"\n")
        fields = head.decode().split(" ")
        if not line_feed or len(fields) != 6:
            raise ValueError(f"{data[:80]!r} is no row")
        stream, name, key, *numbers = fields
        batch, count, checksum = map(int, numbers)
        return cls(stream, name, bytes.fromhex(key), batch, State(count, checksum), value)


def due(stream: str, messages: int) -> Iterator[tuple[str, str, bytes, State]]:
    """Yields the expected rows of windows and timers for a replayable stream, after `messages` messages.

    Each is the stream and name of the row, its key, and the state. A window is named by its start, a timer by its time.
    """
    now = sequence_of(messages)
    windows: dict[tuple[int, bytes], State] = {}
    for number in range(1, messages + 1):
        sequence, sent = sequence_of(number), content(stream, number)
        window = sequence // WINDOW * WINDOW, sent.key
        windows[window] = windows.get(window, State()).after(sent.value)
        if sequence + AFTER <= now:
            yield TIMERS, str(sequence + AFTER), sent.key, State()
    for (start, key), state in windows.items():
        if start + WINDOW <= now:
            yield WINDOWS, str(start), key, state


def model(stream: str, messages: int) -> Iterator[tuple[str, Content, State]]:
    """Yields the name and content of each message of a sender, and the state of its key after it, without duplicates."""
    states: dict[bytes, State] = {}
    for number in range(1, messages + 1):
        sent = content(stream, number)
        state = states[sent.key] = states.get(sent.key, State()).after(sent.value)
        yield name_of(stream, number), sent, state
