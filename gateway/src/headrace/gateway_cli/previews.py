"""Previews of messages as lines for a terminal. Characters that a terminal would obey are escaped."""

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headrace.terminal import counted

if TYPE_CHECKING:
    from headrace.gateway_status.messages import ContentDocument, MessagePreviewDocument, PreviewDocument

FORMS = ("auto", "text", "json", "hex")
"""How a value is shown; auto is JSON or text if it is one of them, and otherwise hex."""
form_option = click.option("--form", type=click.Choice(FORMS), default="auto", show_default=True, help="How to show values.")
_HEX_WIDTH = 16


def preview_lines(message: "MessagePreviewDocument", form: str) -> list[str]:
    """Returns the lines that show a message: what identifies it, its headers, and how its value begins."""
    place = str(message["sequence"]) if not message["epoch"] else f"{message['epoch']}:{message['sequence']}"
    first, *more = content_lines(message, form)
    return [f"{place}  {first}", *more]


def content_lines(message: "ContentDocument", form: str) -> list[str]:
    """Returns the lines that show the parts of a message: its key, time and size, its headers, and how its value begins."""
    value, key = message["value"], message["key"]
    facts = [
        *([f"key {_one_line(key)}"] if key is not None else []),
        *([message["event_time"]] if message["event_time"] is not None else []),
        "null" if value is None else counted(value["size"], "byte"),
    ]
    headers = [
        f"  {printable(header['name'])}: {'null' if header['value'] is None else _one_line(header['value'])}"
        for header in message["headers"]
    ]
    more = message["headers_in_all"] - len(headers)
    if more > 0:
        headers.append(f"  and {more} more headers")
    return ["  ".join(facts), *headers, *(f"    {line}" for line in ([] if value is None else value_lines(value, form)))]


def value_lines(value: "PreviewDocument", form: str) -> list[str]:
    """Returns the lines that show a value in a form of `FORMS`; what is not in that form is shown in another one."""
    text = value["text"]
    if form != "hex" and text is not None:
        laid_out = _json(text) if form in ("auto", "json") else None
        return [printable(line) for line in (laid_out or text).splitlines()]
    return list(_hex(base64.b64decode(value["base64"])))


def printable(text: str) -> str:
    """Returns a text with every control character escaped: a terminal would obey some of them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _one_line(preview: "PreviewDocument") -> str:
    text = preview["text"]
    return base64.b64decode(preview["base64"]).hex() if text is None else printable(text)


def _json(text: str) -> str | None:
    """Returns JSON laid out for people; None if the text is no JSON, or is cut off."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def _hex(content: bytes) -> Iterator[str]:
    for at in range(0, len(content), _HEX_WIDTH):
        row = content[at : at + _HEX_WIDTH]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        yield f"{at:04x}  {row.hex(' '):<{3 * _HEX_WIDTH - 1}}  {letters}"
