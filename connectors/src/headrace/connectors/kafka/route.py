"""The topic of a message."""

import re
from collections.abc import Callable

from headrace.sdk import Message

_MAX_NAME_LENGTH = 249
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_Part = Callable[[Message], "str | bytes | None"]


class NoTopic(Exception):
    """The topic of a message cannot be determined; the text gives the reason."""


class Route:
    """The name of a topic, or text with placeholders for parts of a message."""

    def __init__(self, text: str) -> None:
        """Parses the text.

        Raises:
            ValueError: It cannot be the name of a topic, whatever replaces its placeholders.
        """
        self._text = text
        *pairs, last = _PLACEHOLDER.split(text)
        self._parts: list[tuple[str, str, _Part]] = [
            (before, name, _part(name)) for before, name in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        self._last = last
        if not is_topic("x".join([*pairs[::2], last])):
            raise ValueError(f"topic {text!r}: write a name of letters, digits and '._-', with {{key}} or {{header:NAME}} in it")

    @property
    def fixed(self) -> str | None:
        """The topic of all messages, if there are no placeholders."""
        return None if self._parts else self._text

    def topic(self, message: Message) -> str:
        """Returns the topic of a message.

        Raises:
            NoTopic: The message lacks a value for a placeholder, or the result is not a valid name.
        """
        if not self._parts:
            return self._text
        filled = [before + self._filled(placeholder, part(message)) for before, placeholder, part in self._parts]
        name = "".join([*filled, self._last])
        if not is_topic(name):
            raise NoTopic(f"{name!r} is not a valid topic name")
        return name

    def _filled(self, placeholder: str, value: str | bytes | None) -> str:
        """Returns the value of a placeholder."""
        if value is None:
            raise NoTopic(f"its topic is {self._text!r}, and it has no {placeholder}")
        return value.decode(errors="replace") if isinstance(value, bytes) else value


def is_topic(name: str) -> bool:
    """Returns whether this is a valid topic name."""
    return re.fullmatch(r"[A-Za-z0-9._-]+", name) is not None and name not in (".", "..") and len(name) <= _MAX_NAME_LENGTH


def _part(name: str) -> _Part:
    """Parses a placeholder."""
    if name == "key":
        return lambda message: message.key
    if name == "message_id":
        return lambda message: message.message_id
    kind, _, header = name.partition(":")
    if kind == "header" and header:
        return lambda message: dict(message.headers or ()).get(header)
    raise ValueError(f"{{{name}}} is not a placeholder; write {{key}}, {{message_id}} or {{header:NAME}}")
