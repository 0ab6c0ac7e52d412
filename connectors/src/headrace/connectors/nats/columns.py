"""Converts messages of nats-py to batches of the SDK. Pure functions, over whole columns where possible."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.msg import Msg

from headrace.connectors.nats._parameters import ShapeParameters
from headrace.connectors.nats.client import pairs_of
from headrace.sdk import Batch, Headers

MESSAGE_ID = "Nats-Msg-Id"
DELIVERIES = "Nats-Num-Delivered"

# $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time>.<pending>, or with a domain and an account
# before the stream, and perhaps a random token at the end.
_SHORT_TOKENS, _DOMAIN_TOKENS = 9, 2
_DELIVERIES, _SEQUENCE, _PLACE, _TIME, _PENDING = range(4, 9)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The metadata of consecutive messages, from their acknowledgement subjects.

    Attributes:
        sequences: The sequence of each in its stream.
        times: When each was stored, in microseconds since 1970-01-01 UTC.
        deliveries: How often each has been delivered, in decimal.
        first_place: The consumer sequence of the first message, counted from 1.
        last_place: The consumer sequence of the last message.
        pending: The number of messages that the consumer had left after the last one.
    """

    sequences: list[int]
    times: "array[int]"
    deliveries: list[str]
    first_place: int
    last_place: int
    pending: int


def delivered(messages: Sequence[Msg]) -> Delivered:
    """Parses the metadata of one or more messages.

    Raises:
        ValueError: A message has no acknowledgement subject of JetStream.
    """
    tokens = ".".join([message.reply for message in messages]).split(".")
    width, rest = divmod(len(tokens), len(messages))
    if rest or width < _SHORT_TOKENS:
        raise ValueError(f"{messages[0].reply} is not an acknowledgement subject")
    at = 0 if width == _SHORT_TOKENS else _DOMAIN_TOKENS
    places = tokens[at + _PLACE :: width]
    return Delivered(
        sequences=[int(token) for token in tokens[at + _SEQUENCE :: width]],
        times=array("q", [int(token) // 1000 for token in tokens[at + _TIME :: width]]),
        deliveries=tokens[at + _DELIVERIES :: width],
        first_place=int(places[0]),
        last_place=int(places[-1]),
        pending=int(tokens[len(tokens) - width + at + _PENDING]),
    )


def batch_of(
    messages: Sequence[Msg],
    shape: ShapeParameters,
    *,
    times: "array[int] | None" = None,
    sequences: Sequence[int] | None = None,
    cursor: bytes | None = None,
    ids: Sequence[str] | None = None,
    deliveries: Sequence[str] = (),
    tokens: Sequence[object] | None = None,
) -> Batch:
    """Converts messages to a batch.

    Args:
        messages: The messages.
        shape: How to map their subjects and headers.
        times: When each was stored.
        sequences: Their sequences, if the stream has them.
        cursor: Where to continue after them.
        ids: The ids of messages without their own id; None for no id.
        deliveries: How often each was delivered, for a header of redelivered messages; empty for no such header.
        tokens: The token to acknowledge each with.
    """
    again = any(number != "1" for number in deliveries)
    plain = shape.subject_header is None and not again and not any(message.headers for message in messages)
    pairs: Sequence[Headers] = [] if plain else [pairs_of(message) for message in messages]
    return Batch(
        values=[message.data for message in messages],
        keys=_keys(messages, pairs, shape.key),
        event_times=times,
        message_ids=_ids(pairs, ids) if pairs else ids,
        headers=_headers(messages, pairs, shape, deliveries if again else ()) if pairs else None,
        sequences=sequences,
        cursor=cursor,
        tokens=tokens,
    )


def _keys(messages: Sequence[Msg], pairs: Sequence[Headers], key: str) -> Sequence[bytes | None] | None:
    """Returns the keys."""
    if key == "subject":
        return [message.subject.encode(errors="surrogateescape") for message in messages]
    if key == "none" or not pairs:
        return None
    name = key.removeprefix("header:")
    return [_first(headers, name) for headers in pairs]


def _ids(pairs: Sequence[Headers], ids: Sequence[str] | None) -> Sequence[str | None] | None:
    """Returns the message ids: their own, or else the given ones."""
    own = [None if (id_ := _first(headers, MESSAGE_ID)) is None else id_.decode(errors="replace") for headers in pairs]
    if ids is not None:
        return [id_ or other for id_, other in zip(own, ids, strict=True)]
    return own if any(own) else None


def _headers(
    messages: Sequence[Msg], pairs: Sequence[Headers], shape: ShapeParameters, deliveries: Sequence[str]
) -> Sequence[Headers | None]:
    """Returns the headers, except the message id, which has its own column."""
    headers: list[list[tuple[str, bytes | None]]] = [[pair for pair in own if pair[0] != MESSAGE_ID] for own in pairs]
    if shape.subject_header is not None:
        for message, own in zip(messages, headers, strict=True):
            own.append((shape.subject_header, message.subject.encode(errors="surrogateescape")))
    if deliveries:
        for number, own in zip(deliveries, headers, strict=True):
            if number != "1":
                own.append((DELIVERIES, number.encode()))
    return headers


def _first(headers: Headers, name: str) -> bytes | None:
    """Returns the value of the first header of a name."""
    return next((value for known, value in headers if known == name), None)
