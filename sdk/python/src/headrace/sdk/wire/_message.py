"""The types that sources exchange with the SDK: messages, batches, positions and backlogs."""

from array import array
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import defstruct

T = TypeVar("T")
Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a message: pairs of name and value, in order; a name may repeat."""
GivenHeaders = Sequence[tuple[str, bytes | str | None]]
"""Headers as a source gives them: text is sent as UTF-8."""


class Close:
    """The type of `CLOSE` and `GONE`."""

    __slots__ = ()


CLOSE = Close()
"""The last item of a `read` that releases its stream temporarily: for instance, an idle file makes room for another one."""
GONE = Close()
"""The last item of a `read` whose partition was permanently removed and will not be listed again.

Once every pipeline has committed all of it, the SDK forgets the partition. If `partitions` has omitted the name in the meantime,
a later partition of that name is a new one. The connector continues, and polls for further partitions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a stream: all messages up to and including it were received, and none after it.

    Attributes:
        epoch: The generation of the stream's sequences; always 0 for a replayable source.
        sequence: The sequence of the last message at or before this position.
        cursor: The last cursor that the source supplied at or before this position, or None. It may precede `sequence`: messages
            between the two that the source yields again are dropped.
    """

    epoch: int = 0
    sequence: int
    cursor: bytes | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What remains in the source after the messages that `read` has yielded. Each attribute is optional.

    Attributes:
        messages: The number of messages left.
        bytes: The size of the messages left, in bytes.
        latest_sequence: The largest sequence of any message that exists now.
    """

    messages: int | None = None
    bytes: int | None = None
    latest_sequence: int | None = None


def _made_in_c(dataclass_: type[T]) -> type[T]:
    """Returns a class like a dataclass whose instances are made in C: an `__init__` in Python takes four times as long.

    It was most of what a single message cost. `dataclasses.replace` and its like take the instances, too.
    """
    known = fields(dataclass_)  # type: ignore[arg-type]
    kept = ("__doc__", "__module__", "__qualname__", "__hash__", "__dataclass_fields__")
    columns: list[Any] = [(one.name, one.type) if one.default is MISSING else (one.name, one.type, one.default) for one in known]
    made: Any = defstruct(dataclass_.__name__, columns, namespace={name: getattr(dataclass_, name) for name in kept})
    return made  # type: ignore[no-any-return]


@_made_in_c
@dataclass(slots=True, unsafe_hash=True)
class Message:
    """One message. Do not change it once you have yielded it.

    Attributes:
        value: The payload; None for a tombstone.
        key: The key, or None.
        event_time: When it happened, as microseconds since 1970-01-01 UTC or as an aware datetime, in the years 1 to 9999. None
            if unknown.
        sequence: Its sequence in the source, greater than the sequence before, at most 2**63 - 1. If it is None, the SDK
            continues counting from the position passed to `read`. Redelivering sources leave it None.
        message_id: Its id in the source, or None.
        headers: Pairs of name and value, in order; or None. A source may give text, which is sent as UTF-8.
        cursor: Where the source can seek to resume after this message; at most 64 KiB, or what the gateway allows. Optional.
        token: Anything the source needs to acknowledge this message, such as a delivery tag. The SDK keeps it, passes it to
            `settle`, and never sends it.
    """

    value: bytes | None
    key: bytes | None = None
    event_time: int | datetime | None = None
    sequence: int | None = None
    message_id: str | None = None
    headers: Headers | None = None
    cursor: bytes | None = None
    token: object = None

    if TYPE_CHECKING:

        def __init__(
            self,
            value: bytes | None,
            key: bytes | None = None,
            event_time: int | datetime | None = None,
            sequence: int | None = None,
            message_id: str | None = None,
            headers: GivenHeaders | None = None,
            cursor: bytes | None = None,
            token: object = None,
        ) -> None: ...


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed column: the concatenated entries, and their lengths.

    Attributes:
        data: The concatenated entries.
        lengths: The length of each entry in bytes, as `array("I")`; `headrace.sdk.NULL` for null, which adds nothing to `data`.
    """

    data: bytes
    lengths: "array[int]"


@dataclass(frozen=True, slots=True)
class Steps:
    """Sequences, delta-encoded.

    Attributes:
        first: The sequence of the first message.
        deltas: The difference of each further sequence from the one before, as `array("I")`: one entry fewer than messages.
    """

    first: int
    deltas: "array[int]"


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive messages of one partition in columns, for fast sources that do not handle messages one by one.

    Every column has one entry for each message. A column that is None is null throughout.

    Attributes:
        values: The payloads: a sequence of bytes (None for a tombstone), or packed.
        keys: The keys, in the same form.
        event_times: Microseconds since 1970-01-01 UTC, in the years 1 to 9999; a sequence of int (None if unknown), or
            `array("q")`.
        message_ids: The ids of the messages in the source: a sequence of str or None, or packed UTF-8.
        headers: The headers of each message; None for a message without any.
        sequences: The sequences, strictly increasing: a `range`, a sequence of int, or `Steps`. If it is None, the SDK counts.
        cursor: Where the source can seek to resume after the batch; as `Message.cursor`. A batch without messages,
            `Batch([], cursor=...)`, moves the cursor of a replayable source alone.
        tokens: The tokens by which the source acknowledges each message; see `Message.token`.
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
        """Returns the number of messages."""
        return len(self.values.lengths) if isinstance(self.values, Packed) else len(self.values)
