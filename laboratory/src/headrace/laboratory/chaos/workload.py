"""What is sent, and what must come of it. Pure: senders, query and validator agree on this and on nothing else.

Eleven senders: ten partitions of a replayable source, and a queue that gives again what was not acknowledged. Each sends
messages that are numbered from 1, to keys of its own. The query keeps a count and a checksum for each key, and writes a row
for each message that has both. One that is a pipeline has windows and timers, too, by the sequences of the replayable streams,
and writes a row for each window that is closed and each timer that rings.
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
"""What the rows of these name as their stream."""
WINDOW, AFTER = 16, 5
"""How long a window is, and how long after its message a timer rings. A sequence counts as a second."""

_KEYS = 5
"""Of each sender."""
_GAP_AFTER = 7
"""As in a compacted topic, a sequence is missing after so many messages."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a message carries."""

    key: bytes
    value: bytes


@lru_cache(maxsize=1 << 17)
def content(stream: str, number: int) -> Content:
    """The n-th message of a sender: any bytes at all, of different lengths."""
    noise = blake2b(f"{stream} {number}".encode()).digest()
    return Content(f"{stream}:{noise[0] % _KEYS}".encode(), noise[2 : 2 + noise[1] % (len(noise) - 1)])


def sequence_of(number: int) -> int:
    """The sequence of a replayable sender's n-th message."""
    return number + (number - 1) // _GAP_AFTER


def number_at(sequence: int) -> int:
    """The last message at or before a sequence."""
    return sequence - sequence // (_GAP_AFTER + 1)


def message_id(number: int) -> str:
    """The id of the queue's n-th message."""
    return f"m{number}"


def name_of(stream: str, number: int) -> str:
    """What identifies a message in the output: its sequence, or its id where sequences do not last."""
    return str(sequence_of(number)) if stream.startswith(REPLAYABLE) else message_id(number)


def number_of(stream: str, name: str) -> int:
    """The number of the message that has this name."""
    return number_at(int(name)) if stream.startswith(REPLAYABLE) else int(name.removeprefix("m"))


@dataclass(frozen=True, slots=True)
class State:
    """What the query knows of a key."""

    count: int = 0
    checksum: int = 0
    """Over all values in their order."""

    def after(self, value: bytes) -> "State":
        """The state once one more message has come."""
        return State(self.count + 1, zlib.crc32(len(value).to_bytes(4, "big") + value, self.checksum))


@dataclass(frozen=True, slots=True)
class Row:
    """What the query writes for a message: whose it is, the batch that wrote it, the key's state after it, and its value."""

    stream: str
    name: str
    key: bytes
    batch: int
    state: State
    value: bytes

    def encode(self) -> bytes:
        """As it is written: a line, and the bytes of the value."""
        state = self.state
        head = f"{self.stream} {self.name} {self.key.hex()} {self.batch} {state.count} {state.checksum}\n"
        return head.encode() + self.value

    @classmethod
    def decode(cls, data: bytes) -> "Row":
        """The row that was written so.

        Raises:
            ValueError: it is none.
        """
        head, line_feed, value = data.partition(b"\n")
        fields = head.decode().split(" ")
        if not line_feed or len(fields) != 6:
            raise ValueError(f"{data[:80]!r} is no row")
        stream, name, key, *numbers = fields
        batch, count, checksum = map(int, numbers)
        return cls(stream, name, bytes.fromhex(key), batch, State(count, checksum), value)


def due(stream: str, messages: int) -> Iterator[tuple[str, str, bytes, State]]:
    """What windows and timers give of a replayable stream, once its senders have sent so many messages each.

    That is the stream and name of each row, its key, and the state of the window. A window is named by its beginning, and a timer
    by when it rings.
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
    """The name and content of each message that a sender has sent, and the state of its key after it, where none is repeated."""
    states: dict[bytes, State] = {}
    for number in range(1, messages + 1):
        sent = content(stream, number)
        state = states[sent.key] = states.get(sent.key, State()).after(sent.value)
        yield name_of(stream, number), sent, state
