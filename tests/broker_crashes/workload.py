"""The published messages, and the results that must follow. Pure: publishers, query and judge agree on this and on nothing else.

Each pair of a source and a sink has messages of its own, numbered from 1, of a few keys. The query keeps a count and a checksum
for each key, and writes a row for each message that has both as they are after it.
"""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b

KEYS = 5
DEDUPLICATES, HAS_NO_KEY = "!", "?"
"""What the query is told of a pair, behind its name."""


def key_of(number: int) -> str:
    """The key of the n-th message."""
    return f"k{_noise(number)[0] % KEYS}"


def value_of(number: int) -> bytes:
    """Its value: the number, and something of any length."""
    noise = _noise(number).hex()
    return f"{number} {noise[: int(noise[:2], 16) % len(noise)]}".encode()


def id_of(number: int) -> str:
    """Its message id, where the system has such a thing."""
    return f"m{number}"


@dataclass(frozen=True, slots=True)
class State:
    """The query's state for a key. The order of the messages does not matter: a queue does not promise any."""

    count: int = 0
    checksum: int = 0

    def after(self, value: bytes) -> "State":
        """The state once one more message has come."""
        return State(self.count + 1, (self.checksum + zlib.crc32(value)) % 2**32)


@dataclass(frozen=True, slots=True)
class Row:
    """What the query writes for a message: which one it is, and the state of its key after it."""

    key: str
    number: int
    count: int
    checksum: int

    @classmethod
    def of(cls, key: str, value: bytes, state: State) -> "Row":
        """The row of a message."""
        return cls(key, int(value.split(b" ")[0]), state.count, state.checksum)

    def encode(self) -> bytes:
        """As it is written: a JSON object."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Row":
        """The row that was written so."""
        return cls(**json.loads(data))


def model(published: int) -> list[Row]:
    """The rows of the messages that were published, in their order, where none is lost, repeated or out of place."""
    states: defaultdict[str, State] = defaultdict(State)
    rows = []
    for number in range(1, published + 1):
        key, value = key_of(number), value_of(number)
        states[key] = states[key].after(value)
        rows.append(Row.of(key, value, states[key]))
    return rows


# What is wrong with what has come: nothing, if all is well


def other_than_once(rows: Sequence[Row], published: int) -> list[str]:
    """Each message is to be there once, the messages of a key in their order, each with its state."""
    doubles = [f"{row} is there {times} times" for row, times in Counter(rows).items() if times > 1]
    wrong = not_at_least_once(rows, published) + doubles
    return wrong or [f"the rows of {key} are out of order" for key in _keys(rows) if not _in_order(rows, key)]


def not_at_least_once(rows: Sequence[Row], published: int) -> list[str]:
    """Each message is to be there, with its state; it may be there again, but not otherwise."""
    expected, there = set(model(published)), set(rows)
    return [f"{row} is missing" for row in sorted(expected - there, key=_place)] + [
        f"{row} is not what must be there" for row in sorted(there - expected, key=_place)
    ]


def not_all_counted_once(rows: Sequence[Row], published: int) -> list[str]:
    """Each message is to be there, and the state of each key in the end covers all its messages, each taken once.

    What came of a batch may stay beside what came of it when it was run again with what the queue gave then.
    """
    expected = model(published)
    numbers = {row.number: row.key for row in rows}
    missing = [f"message {row.number} of {row.key} is missing" for row in expected if numbers.get(row.number) != row.key]
    unknown = [f"message {number} was never published" for number in sorted(numbers.keys() - {row.number for row in expected})]
    ends = {row.key: State(row.count, row.checksum) for row in expected}
    last = {row.key: State(row.count, row.checksum) for row in sorted(rows, key=lambda row: row.count)}
    return (
        missing + unknown + [f"{key} ends with {last.get(key)}, not {end}" for key, end in ends.items() if last.get(key) != end]
    )


def not_all_there(rows: Sequence[Row], published: int) -> list[str]:
    """Each message is to be there, with any state: the source may give it again, and has no ids to drop that by."""
    there = {row.number for row in rows}
    return [f"message {number} is missing" for number in range(1, published + 1) if number not in there] + none_other(
        rows, published
    )


def none_other(rows: Sequence[Row], published: int) -> list[str]:
    """None is to be there that was not published; each may be missing."""
    return [f"{row} was never published" for row in rows if not 1 <= row.number <= published or row.key != key_of(row.number)]


def not_the_last(rows: Sequence[Row], published: int) -> list[str]:
    """One row is to be there for each key: the row of its last message."""
    last = {row.key: row for row in model(published)}
    return [f"{row} is not the last of its key" for row in rows if last.get(row.key) != row] + [
        f"{key} has {times} rows" for key in last if (times := sum(row.key == key for row in rows)) != 1
    ]


def _in_order(rows: Sequence[Row], key: str) -> bool:
    counts = [row.count for row in rows if row.key == key]
    return counts == sorted(counts)


def _keys(rows: Iterable[Row]) -> list[str]:
    return sorted({row.key for row in rows})


def _place(row: Row) -> tuple[int, int]:
    return row.number, row.count


def _noise(number: int) -> bytes:
    return blake2b(f"{number}".encode()).digest()
