"""Converts rows to messages to publish, or refuses them. Pure functions."""

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from pika import BasicProperties

from headrace.connectors.rabbitmq.columns import MILLISECONDS, PREFIX
from headrace.connectors.rabbitmq.fields import OFFSET
from headrace.sdk import Headers, Message, Outcome, Part

_PLACEHOLDER = re.compile(r"\{(.*?)\}")
_SHORT_BYTES = 255
# The properties and headers of a message form one frame. Besides the headers, it has up to 3 KiB.
_OTHER_BYTES = 3 << 10
_FRAME_BYTES = 22
_HEADER_BYTES = 11
_NUMBER = re.compile(rb"[0-9]{1,18}")
_PERSISTENT, _TRANSIENT = 2, 1
# Headers that the broker would interpret as instructions, or writes itself.
_LEFT_OUT = frozenset({"CC", "BCC", "x-death", "x-delivery-count", OFFSET})
_TEXTS = {
    PREFIX + name.replace("_", "-"): name
    for name in ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type", "app_id")
}
_PRIORITY = PREFIX + "priority"


class Unfit(Exception):
    """AMQP cannot represent a message; the text gives the reason."""


@dataclass(slots=True)
class Outgoing:
    """A message to publish.

    Attributes:
        routing_key: Its routing key.
        properties: Its properties and headers.
        body: Its body.
        headers_bytes: At least the size of its headers as AMQP encodes them, in bytes.
        outcome: Its outcome; None until the broker has answered.
    """

    routing_key: bytes
    properties: BasicProperties
    body: bytes
    headers_bytes: int = 0
    outcome: Outcome | None = None

    def excess(self, frame_max: int) -> int | None:
        """Returns the size in bytes of the frame with its properties and headers, if that is above the limit; otherwise None."""
        if not frame_max or self.headers_bytes + _OTHER_BYTES <= frame_max:
            return None
        size = sum(map(len, self.properties.encode())) + _FRAME_BYTES
        return size if size > frame_max else None


class RoutingKey:
    """A template of a routing key: text with `{key}`, `{message_id}` and `{header:NAME}`."""

    def __init__(self, template: str) -> None:
        """Parses a template.

        Raises:
            ValueError: It has an unknown placeholder.
        """
        self._template = template
        texts = _PLACEHOLDER.split(template)
        self._texts = [text.encode() for text in texts[::2]]
        self._names = texts[1::2]
        self._getters = [_getter(name) for name in self._names]

    def of(self, message: Message) -> bytes:
        """Returns the routing key of a message.

        Raises:
            Unfit: The message lacks a value for a placeholder, or the key is too long.
        """
        made = self._texts[0]
        for name, get, text in zip(self._names, self._getters, self._texts[1:], strict=True):
            part = get(message)
            if part is None:
                raise Unfit(f"its routing key is {self._template!r}, and its {name} is null")
            made += part + text
        return _short(made, "routing key")


def outgoing(message: Message, part: Part | None, routing_key: RoutingKey, *, persistent: bool) -> Outgoing:
    """Converts a message of a part.

    Raises:
        Unfit: AMQP cannot represent it.
    """
    if message.value is None:
        raise Unfit("it has no value, and RabbitMQ has no null")
    properties = BasicProperties(delivery_mode=_PERSISTENT if persistent else _TRANSIENT)
    headers: dict[str, object] = {}
    headers_bytes = 0
    if message.headers:
        headers, headers_bytes = _headers(message.headers, properties)
    if message.message_id is not None:
        properties.message_id = _short(message.message_id.encode(), "message id")
    elif part is not None:
        properties.message_id = _made_id(message, part)
    if message.event_time is not None:
        assert isinstance(message.event_time, int)
        _set_time(message.event_time, properties, headers)
    properties.headers = headers or None
    return Outgoing(routing_key.of(message), properties, message.value, headers_bytes)


def _made_id(message: Message, part: Part) -> bytes:
    """Returns an id that is the same if a message is written again: derived from its position and its content."""
    content = zlib.crc32(message.value or b"", zlib.crc32(message.key or b""))
    pipeline = part.transaction.pipeline.encode()
    place = f"/{part.transaction.batch}/{part.partition}/{message.sequence}/{content:08x}".encode()
    if len(pipeline) + len(place) > _SHORT_BYTES:
        pipeline = hashlib.sha256(pipeline).hexdigest().encode()
    return pipeline + place


def _getter(name: str) -> Callable[[Message], bytes | None]:
    """Returns a function that gets the value of a placeholder."""
    if name == "key":
        return lambda message: message.key
    if name == "message_id":
        return lambda message: None if message.message_id is None else message.message_id.encode()
    if name.startswith("header:"):
        wanted = name.removeprefix("header:")
        return lambda message: next((value for header, value in message.headers or () if header == wanted), None)
    raise ValueError(f"{{{name}}} is not a placeholder; write {{key}}, {{message_id}} or {{header:NAME}}")


def _headers(headers: Headers, properties: BasicProperties) -> tuple[dict[str, object], int]:
    """Returns the header table, and its size in bytes, rounded up; headers for properties become properties.

    The values of a repeated name become a list.
    """
    table: dict[str, list[object]] = {}
    size = 0
    for name, value in headers:
        if name.startswith(PREFIX):
            if value is not None:
                _set_property(name, value, properties)
        elif name not in _LEFT_OUT:
            size += len(_short(name.encode(), "header name")) + len(value or b"") + _HEADER_BYTES
            table.setdefault(name, []).append(_text(value))
    return {name: values[0] if len(values) == 1 else values for name, values in table.items()}, size


def _set_property(name: str, value: bytes, properties: BasicProperties) -> None:
    """Sets the property for a header; no effect if a publisher cannot set it."""
    if name in _TEXTS:
        setattr(properties, _TEXTS[name], _short(value, name))
    elif name == _PRIORITY:
        if not _NUMBER.fullmatch(value) or int(value) > _SHORT_BYTES:
            raise Unfit(f"its {name} is {value[:100]!r}, not a number up to 255")
        properties.priority = int(value)
    if name == PREFIX + "expiration" and not _NUMBER.fullmatch(value):
        raise Unfit(f"its {name} is {value[:100]!r}, not a number of milliseconds")


def _set_time(microseconds: int, properties: BasicProperties, headers: dict[str, object]) -> None:
    """Sets AMQP's timestamp, which is in seconds, and a more precise time in the header of the broker's timestamp plugin."""
    if microseconds >= 0:
        properties.timestamp = microseconds // 1_000_000
        if microseconds % 1_000_000:
            headers[MILLISECONDS] = microseconds // 1000


def _text(value: bytes | None) -> str | bytes | None:
    """Returns a header's value: text if it is valid UTF-8, or else bytes."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _short(value: bytes, what: str) -> bytes:
    """Checks a short string, whose length AMQP stores in one byte."""
    if len(value) > _SHORT_BYTES:
        raise Unfit(f"its {what} has {len(value)} bytes, and AMQP allows at most {_SHORT_BYTES}")
    return value
