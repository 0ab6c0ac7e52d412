"""Converts deliveries to batches. Messages with the same route and properties are parsed only once."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.connectors.rabbitmq.deliveries import Arrived
from headrace.connectors.rabbitmq.fields import Header, read_properties, short_text
from headrace.contract.columns import MAX_TIME
from headrace.sdk import Batch

PREFIX = "amqp-"
"""The prefix of headers for message data that AMQP stores outside the headers."""
MILLISECONDS = "timestamp_in_ms"
_FAILED = "x-delivery-count"
_MAX_DIGITS = 15


@dataclass(frozen=True, slots=True)
class _Kind:
    """The common data of messages with the same route and properties."""

    key: bytes | None
    message_id: str | None
    event_time: int | None
    headers: list[Header] | None
    failed: int = 0
    """How often they were delivered in vain, as a quorum queue counts it."""


class Columns:
    """Converts deliveries to batches."""

    def __init__(self, key: str) -> None:
        """Creates a converter. `key` is the source of the message key: routing-key, none, or header:NAME."""
        self._key = key
        self._key_header = key.removeprefix("header:")
        self.failed = 0
        """How often a message of the last batch was delivered in vain at most; 0 if the queue does not count."""

    def batch(self, arrived: Arrived, sequences: Sequence[int] | None = None, tokens: Sequence[object] | None = None) -> Batch:
        """Creates a batch. A message whose properties cannot be parsed has its raw properties in a header."""
        pairs = list(zip(arrived.routes, arrived.properties, strict=True))
        kinds = {pair: self._kind(*pair) for pair in set(pairs)}
        rows = [kinds[pair] for pair in pairs]
        some = kinds.values()
        self.failed = max((kind.failed for kind in some), default=0)
        return Batch(
            arrived.values,
            keys=[row.key for row in rows] if any(kind.key is not None for kind in some) else None,
            event_times=[row.event_time for row in rows] if any(kind.event_time is not None for kind in some) else None,
            message_ids=[row.message_id for row in rows] if any(kind.message_id is not None for kind in some) else None,
            headers=[row.headers for row in rows] if any(kind.headers for kind in some) else None,
            sequences=sequences,
            tokens=tokens,
        )

    def _kind(self, route: bytes, raw: bytes) -> _Kind:
        """Parses the route and the properties of a message."""
        exchange, at = short_text(route, 1)
        routing_key, _ = short_text(route, at)
        try:
            properties = read_properties(raw)
        except ValueError as error:
            # Its body is intact, and the query decides what to do with the raw properties.
            unreadable = [("unreadable", str(error).encode()), ("properties", raw), ("routing-key", routing_key)]
            key = routing_key if self._key == "routing-key" else None
            return _Kind(key, None, None, [(PREFIX + name, value) for name, value in unreadable])
        message_id = properties.texts.pop("message-id", None)
        ours: list[Header] = [(PREFIX + name, text) for name, text in properties.texts.items()]
        if route[0]:
            ours.append((PREFIX + "redelivered", b"true"))
        if exchange:
            ours.append((PREFIX + "exchange", exchange))
        if self._key != "routing-key":
            ours.append((PREFIX + "routing-key", routing_key))
        event_time = _event_time(properties.timestamp, properties.headers)
        if properties.timestamp is not None and properties.timestamp * 1_000_000 > MAX_TIME:
            ours.append((PREFIX + "timestamp", b"%d" % properties.timestamp))
        headers = properties.headers + ours
        return _Kind(
            self._key_of(routing_key, headers),
            None if message_id is None else message_id.decode(errors="backslashreplace"),
            event_time,
            headers or None,
            _failed(properties.headers),
        )

    def _key_of(self, routing_key: bytes, headers: list[Header]) -> bytes | None:
        """Returns the key of a message."""
        if self._key == "routing-key":
            return routing_key
        return next((value for name, value in headers if name == self._key_header), None) if self._key != "none" else None


def _failed(headers: list[Header]) -> int:
    """Returns how often a message was delivered in vain."""
    for name, value in headers:
        if name == _FAILED and value is not None and value.isdigit() and len(value) <= _MAX_DIGITS:
            return int(value)
    return 0


def _event_time(timestamp: int | None, headers: list[Header]) -> int | None:
    """Returns the event time in microseconds; with the precision of the broker's timestamp plugin, if it is used.

    A timestamp that would be after the year 9999 in seconds is taken for milliseconds, which some publishers send.
    """
    for name, value in headers:
        if name == MILLISECONDS and value is not None and value.isdigit() and len(value) <= _MAX_DIGITS:
            milliseconds = int(value)
            if milliseconds * 1000 <= MAX_TIME:
                return milliseconds * 1000
    if timestamp is None:
        return None
    return next((timestamp * unit for unit in (1_000_000, 1000) if timestamp * unit <= MAX_TIME), None)
