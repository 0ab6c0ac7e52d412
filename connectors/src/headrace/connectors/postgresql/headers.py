"""Headers from JSON objects, without changing what they contain. Pure functions."""

import json
import re
from collections.abc import Iterator

from headrace.sdk import Headers, InvalidMessage

_SPACE = re.compile(r"[ \t\n\r]*")


class _Pairs(list[tuple[str, object]]):
    """An object, with names that are repeated."""


_PARSER = json.JSONDecoder(strict=False, object_pairs_hook=_Pairs)


def headers_of(text: str | None) -> Headers | None:
    """Returns the headers that a JSON text has: texts as they are, null as null, and anything else as the JSON that it is.

    Raises:
        InvalidMessage: The text is not a JSON object, or a name or value cannot be written in UTF-8.
    """
    if text is None:
        return None
    try:
        found = _PARSER.decode(text)
        if found is None:
            return None
        if not isinstance(found, _Pairs):
            raise InvalidMessage("its headers are not a JSON object")
        if any(type(value) is not str and value is not None for _, value in found):
            found = _Pairs(_written(text))
        headers: list[tuple[str, bytes | None]] = []
        for name, value in found:
            name.encode()
            headers.append((name, None if value is None else str(value).encode()))
        return headers
    except UnicodeEncodeError:
        raise InvalidMessage("its headers have half a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"its headers cannot be parsed: {error}") from None


def _written(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields the members of an object that has been parsed before, with values as they are written: 1.10 is not 1.1."""
    at = _after_space(text, text.index("{") + 1)
    while text[at] == '"':
        name, at = _PARSER.raw_decode(text, at)
        start = _after_space(text, text.index(":", at) + 1)
        value, at = _PARSER.raw_decode(text, start)
        yield name, None if value is None else value if isinstance(value, str) else text[start:at]
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
