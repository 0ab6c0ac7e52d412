"""The bodies and headers of requests, built from messages."""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from multidict import CIMultiDict

from headrace.connectors.http._parameters import HttpSinkParameters, is_header_value
from headrace.sdk import Message, Part, Refused

_CONTENT_TYPES = {
    "message": "application/octet-stream",
    "json-array": "application/json",
    "ndjson": "application/x-ndjson",
}
_NULL = b"null"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send.

    Attributes:
        body: Its body.
        headers: Its headers, in addition to the headers of every request.
    """

    body: bytes
    headers: CIMultiDict[str]


class Requests:
    """Builds requests from messages, according to the parameters of the sink."""

    def __init__(self, parameters: HttpSinkParameters) -> None:
        """Creates a builder for the parameters of a sink."""
        self._parameters = parameters
        self._content_type = parameters.content_type or _CONTENT_TYPES[parameters.batch]

    def fixed_headers(self) -> CIMultiDict[str]:
        """Returns the headers of every request."""
        told = self._parameters
        headers = CIMultiDict({"User-Agent": "headrace", "Content-Type": self._content_type})
        headers.update(told.headers)
        headers.update({name: secret.get_secret_value() for name, secret in told.secret_headers.items()})
        if told.token is not None:
            headers["Authorization"] = f"Bearer {told.token.get_secret_value()}"
        return headers

    def refusal(self, message: Message) -> Refused | None:
        """Returns the reason why a message cannot be sent to any receiver; None if it can."""
        if self._parameters.batch != "message":
            return None if message.value is None else _json_refusal(message.value)
        if message.value is None:
            return Refused("it has no value, which a request cannot express")
        for name, value in self._own_headers(message):
            if value is None or not is_header_value(value):
                return Refused(f"its header {name} would contain bytes that are not allowed in an HTTP header")
        return None

    def chunks(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """Divides messages into chunks of one request each."""
        told = self._parameters
        most = 1 if told.batch == "message" else told.batch_messages
        chunk: list[Message] = []
        size = 0
        for message in messages:
            length = len(message.value or _NULL)
            if chunk and (len(chunk) == most or size + length > told.batch_bytes):
                yield chunk
                chunk, size = [], 0
            chunk.append(message)
            size += length
        if chunk:
            yield chunk

    def make(self, chunk: Sequence[Message], part: Part | None) -> Request:
        """Builds the request that sends some messages of a part."""
        headers = self._idempotency(chunk, part)
        values = [_NULL if message.value is None else message.value for message in chunk]
        match self._parameters.batch:
            case "json-array":
                return Request(b"[" + b",".join(values) + b"]", headers)
            case "ndjson":
                # JSON may contain line feeds between tokens, where they are insignificant, but not in strings.
                return Request(b"".join(value.replace(b"\n", b" ") + b"\n" for value in values), headers)
        (message,) = chunk
        for name, value in self._own_headers(message):
            headers.add(name, value or "")
        return Request(values[0], headers)

    def lanes(self, messages: Sequence[Message]) -> list[list[Message]]:
        """Divides messages into lanes that are sent sequentially: all messages of a key are in one lane."""
        count = self._parameters.concurrency
        if count == 1:
            return [list(messages)]
        lanes: list[list[Message]] = [[] for _ in range(count)]
        for place, message in enumerate(messages):
            lanes[(place if message.key is None else zlib.crc32(message.key)) % count].append(message)
        return [lane for lane in lanes if lane]

    def _idempotency(self, chunk: Sequence[Message], part: Part | None) -> CIMultiDict[str]:
        """Returns the id by which the receiver can detect duplicates."""
        headers: CIMultiDict[str] = CIMultiDict()
        if self._parameters.idempotency_header is not None and part is not None:
            first, last = chunk[0].sequence, chunk[-1].sequence
            places = first if self._parameters.batch == "message" else f"{first}-{last}"
            transaction = f"{part.transaction.pipeline}/{part.transaction.batch}"
            headers[self._parameters.idempotency_header] = f"{transaction}/{part.partition}/{places}"
        return headers

    def _own_headers(self, message: Message) -> Iterator[tuple[str, str | None]]:
        """Yields the headers of a message; None for a value that is not text."""
        told = self._parameters
        if told.key_header is not None and message.key is not None:
            yield told.key_header, _text(message.key)
        if told.id_header is not None and message.message_id is not None:
            yield told.id_header, message.message_id
        for name, value in (message.headers or ()) if told.carry_headers else ():
            if name in told.carry_headers and value is not None:
                yield name, _text(value)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _json_refusal(value: bytes) -> Refused | None:
    """Returns the reason why a value is not valid JSON; None if it is."""
    try:
        # Numbers are validated without converting them.
        json.loads(value.decode(), parse_int=str, parse_float=str, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        return Refused(f"its value is not JSON: {error}")
    return None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
