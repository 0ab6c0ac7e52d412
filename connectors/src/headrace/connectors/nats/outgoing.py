"""Converts rows to NATS messages: subjects from a template, and valid headers. Pure functions."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from headrace.connectors.nats._parameters import NatsSinkParameters
from headrace.connectors.nats.columns import MESSAGE_ID
from headrace.sdk import Message, Part, Refused

EXPECTED_STREAM = "Nats-Expected-Stream"

_PLACEHOLDER = re.compile(r"\{(key|header:[^{}]+)\}")
_TOKEN = re.compile(r"[^\s.*>\x00-\x1f\x7f][^\s.\x00-\x1f\x7f]*|[*>][^\s.\x00-\x1f\x7f]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_RESERVED = ("$", "_INBOX.")
# A server closes the connection after a line of more than 4096 bytes: the subject, the reply subject, and two sizes.
_MAX_SUBJECT_BYTES = 3900
_CACHED_SUBJECTS = 10_000


class OutgoingHeaders(dict[str, str]):
    """Headers for nats-py, which only calls `items`: names may repeat."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        """Creates headers from names and values, in order."""
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Names and values, in order."""
        return self._pairs


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish.

    Attributes:
        subject: Its subject.
        payload: Its value.
        headers: Its headers, or None.
        id: Its given id; None for a derived id, or none.
        size: Its size for the server's limit, in bytes.
    """

    subject: str
    payload: bytes
    headers: OutgoingHeaders | None
    id: str | None
    size: int


def same_ids(messages: Sequence[Outgoing | Refused]) -> Iterator[tuple[int, Refused]]:
    """Yields the messages, by position, that differ from an earlier one with the same id: JetStream would drop them."""
    first: dict[str, Outgoing] = {}
    for place, message in enumerate(messages):
        if isinstance(message, Outgoing) and message.id is not None and first.setdefault(message.id, message) != message:
            yield place, Refused(f"another message has the id {message.id}: give each message its own id")


class _Unfit(Exception):
    """NATS does not allow such a message; the text gives the reason."""


class Encoder:
    """Builds NATS messages according to the parameters."""

    def __init__(self, parameters: NatsSinkParameters) -> None:
        """Parses the subject template."""
        # Literal text, placeholder, text, ...: the placeholders are at odd indexes.
        self._pieces = _PLACEHOLDER.split(parameters.subject)
        self._only_key = set(self._pieces[1::2]) <= {"key"}
        self._parameters = parameters
        self._subject_of = lru_cache(_CACHED_SUBJECTS)(self._subject)

    def encode(self, message: Message, part: Part | None) -> Outgoing | Refused:
        """Encodes a message of a part; refuses one that NATS does not allow."""
        payload, given = message.value or b"", None
        try:
            headers = message.headers or ()
            subject = self._subject_of(message.key, () if self._only_key else tuple(headers))
            pairs = self._pairs(message)
            if self._parameters.deduplicate != "none" and message.message_id:
                given = _text("the message id", message.message_id.encode())
                pairs.append((MESSAGE_ID, given))
            elif self._parameters.deduplicate == "all" and part is not None:
                pairs.append((MESSAGE_ID, _made_id(part, message.sequence, subject, pairs, payload)))
        except _Unfit as unfit:
            return Refused(str(unfit))
        # As nats-py writes them: NATS/1.0, one line for each, and an empty line.
        size = sum([len(name) + len(value.encode()) + 4 for name, value in pairs]) + 12 if pairs else 0
        return Outgoing(subject, payload, OutgoingHeaders(pairs) if pairs else None, given, size + len(payload))

    def _subject(self, key: bytes | None, headers: tuple[tuple[str, bytes | None], ...]) -> str:
        """Returns the subject of a message."""
        pieces = list(self._pieces)
        for place in range(1, len(pieces), 2):
            name = pieces[place]
            header = name.removeprefix("header:")
            value = key if name == "key" else next((value for known, value in headers if known == header), None)
            if value is None:
                raise _Unfit(f"the subject needs {'a key' if name == 'key' else f'the header {header}'}, and there is none")
            try:
                pieces[place] = value.decode()
            except UnicodeDecodeError:
                raise _Unfit(f"the subject needs text, and {name} is not UTF-8") from None
        subject = "".join(pieces)
        if not all(map(_TOKEN.fullmatch, subject.split("."))):
            raise _Unfit(f"{subject[:100]!r} is not a valid subject: tokens must not be empty, be wildcards, or contain spaces")
        if len(subject.encode()) > _MAX_SUBJECT_BYTES:
            raise _Unfit(f"a subject of {len(subject.encode())} bytes is above the limit of {_MAX_SUBJECT_BYTES}")
        if subject.startswith(_RESERVED) and not self._pieces[0]:
            raise _Unfit(
                f"{subject[:100]!r} is a subject of the server itself; begin the parameter subject with a literal prefix"
            )
        return subject

    def _pairs(self, message: Message) -> list[tuple[str, str]]:
        """Returns the headers of a message."""
        parameters = self._parameters
        pairs = []
        for name, value in message.headers or ():
            if not name.lower().startswith("nats-") or (parameters.nats_headers and name not in (MESSAGE_ID, EXPECTED_STREAM)):
                pairs.append((_name(name), _text(f"header {name}", value)))
        if parameters.key_header is not None and message.key is not None:
            pairs.append((parameters.key_header, _text("the key", message.key)))
        if parameters.stream is not None:
            pairs.append((EXPECTED_STREAM, parameters.stream))
        return pairs


def _made_id(part: Part, place: int | None, subject: str, pairs: list[tuple[str, str]], payload: bytes) -> str:
    """Returns an id that is the same if the batch runs again.

    It is derived from the position and the message, so that another message at the same position has another id.
    """
    hashed = blake2b(payload, digest_size=8)
    hashed.update(repr((part.transaction.pipeline, subject, pairs)).encode())
    return f"{part.transaction.batch}-{part.partition}-{place}-{hashed.hexdigest()}"


def _name(name: str) -> str:
    """Returns the name of a header, if NATS allows it."""
    if not _HEADER_NAME.fullmatch(name):
        raise _Unfit(f"{name[:100]!r} cannot be the name of a header: letters, digits and !#$%&'*+-.^_`|~ are allowed")
    return name


def _text(what: str, value: bytes | None) -> str:
    """Returns a header's value, if NATS allows it; null becomes empty."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        raise _Unfit(f"{what} cannot be a header's value: it is not UTF-8") from None
    if "\r" in text or "\n" in text:
        raise _Unfit(f"{what} cannot be a header's value: it has more than one line")
    return text
