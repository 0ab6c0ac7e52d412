"""What a source gives and is given: messages, batches, positions."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of one message: names with values, in order; a name may repeat."""


class Close:
    """The type of `CLOSE` and `GONE`."""

    __slots__ = ()


CLOSE = Close()
"""What `read` yields last to give its stream up for now, though it has not ended: an idle file makes room for another."""
GONE = Close()
"""What `read` yields last where its partition has ended and will never be offered again: what it was read from is no more.

Once every pipeline has committed all of it, it is forgotten: a partition of this name that is listed later is a new one, provided
that `partitions` has not listed it meanwhile. The connector goes on, and looks for further partitions.
"""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a stream: everything at or before it has been seen, nothing after it has.

    Attributes:
        sequence: The sequence of the last message at or before this position.
        cursor: The last cursor that the source gave at or before this position, or None. It may lie before `sequence`:
            what the source gives again between the two is dropped.
        epoch: The generation of the stream's sequences; 0 for ever for a replayable source.
    """

    sequence: int
    cursor: bytes | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a source holds beyond what `read` has yielded. Every figure is optional.

    Attributes:
        messages: How many messages are left.
        bytes: How many bytes of messages are left.
        latest_sequence: No message that exists now has a larger sequence.
    """

    messages: int | None = None
    bytes: int | None = None
    latest_sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        value: The payload; None for a tombstone.
        key: The key, or None.
        event_time: When it happened, in microseconds since 1970-01-01 UTC; an aware datetime is taken too. None where unknown.
        sequence: Its sequence in the source, larger than that of the message before, at most 2**63 - 1. None lets the SDK
            count on from the position that `read` was given. Redelivering sources leave it None.
        message_id: Its id in the source, or None.
        headers: Names with values, in order; or None.
        cursor: Where the source would seek to so as to give what follows this message; at most 4 KiB. Optional.
        token: Anything the source needs to acknowledge this message, such as a delivery tag. It is kept here and given
            back to `settle`, never sent.
    """

    value: bytes | None
    key: bytes | None = None
    event_time: int | datetime | None = None
    sequence: int | None = None
    message_id: str | None = None
    headers: Headers | None = None
    cursor: bytes | None = None
    token: object = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A column that is packed already: all entries joined, and their lengths.

    Attributes:
        data: The entries, joined.
        lengths: The length of each, as `array("I")`; `headrace.sdk.NULL` for null, which adds nothing to `data`.
    """

    data: bytes
    lengths: "array[int]"


@dataclass(frozen=True, slots=True)
class Steps:
    """Sequences as a first one and the distances between neighbours.

    Attributes:
        first: The sequence of the first message.
        deltas: The distance of each further message from the one before, as `array("I")`: one entry fewer than messages.
    """

    first: int
    deltas: "array[int]"


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive messages of one partition in columns, for sources that are fast because they never touch single messages.

    Every column has one entry for each message. A column that is None is null throughout.

    Attributes:
        values: The payloads: a sequence of bytes (None for a tombstone), or packed.
        keys: The keys, likewise.
        event_times: Microseconds since 1970-01-01 UTC; a sequence of int (None where unknown), or `array("q")`.
        message_ids: The ids of the messages in the source: a sequence of str or None, or packed UTF-8.
        headers: The headers of each message; None for a message without any.
        sequences: The sequences, strictly increasing: a `range`, a sequence of int, or `Steps`. None lets the SDK count.
        cursor: Where the source would seek to so as to give what follows the batch; at most 4 KiB. Optional.
        tokens: What the source needs to acknowledge each message; see `Message.token`.
    """

    values: Sequence[bytes | None] | Packed
    keys: Sequence[bytes | None] | Packed | None = None
    event_times: "Sequence[int | None] | array[int] | None" = None
    message_ids: Sequence[str | None] | Packed | None = None
    headers: Sequence[Headers | None] | None = None
    sequences: Sequence[int] | Steps | None = None
    cursor: bytes | None = None
    tokens: Sequence[object] | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.values.lengths) if isinstance(self.values, Packed) else len(self.values)
