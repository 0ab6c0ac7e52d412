"""`headrace peek`, at a real gateway."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.captured_logs import capture_logs
from tests.cli.json_shape import result_of
from tests.cli.test_timeline_command import call
from tests.gateway.test_peeking import Rig, rigged
from tests.gateway.test_rights import token
from tests.gateway.wire import frame, numbered, serve

from headrace.gateway import Peek
from headrace.gateway_cli.previews import preview_lines, value_lines
from headrace.gateway_status.messages import MessagePreviewDocument, PreviewDocument


@asynccontextmanager
async def quiet_rig() -> AsyncIterator[Rig]:
    """A gateway whose log is not among what the command prints."""
    with capture_logs():
        async with rigged() as rig:
            yield rig


def preview(content: bytes, size: int | None = None) -> PreviewDocument:
    try:
        text: str | None = content.decode()
    except UnicodeDecodeError:
        text = None
    return {"text": text, "base64": base64.b64encode(content).decode(), "size": len(content) if size is None else size}


async def test_it_shows_messages_until_the_limit() -> None:
    async with quiet_rig() as rig:
        await rig.send(numbered(1, 1, 5))
        found = await call("peek", "orders/0", "--limit", "3", address=rig.address)
        assert (found.exit_code, found.stdout) == (0, "1  1 byte\n    1\n2  1 byte\n    2\n3  1 byte\n    3\n")
        assert found.stderr == "not shown: 2 messages\n"


async def test_as_json_it_prints_what_the_api_answers() -> None:
    async with quiet_rig() as rig:
        await rig.send(frame(1, 7, [b"{}", b"\xff"]))
        found = await call("peek", "orders/0", "--limit", "2", "--json", address=rig.address)
        sample, last = found.stdout.splitlines()
        document = json.loads(sample)
        assert [(each["sequence"], each["value"]["text"]) for each in document["messages"]] == [(7, "{}"), (8, None)]
        assert document["not_shown"] == result_of(last)["not_shown"] == 0


async def test_it_says_why_nothing_is_shown() -> None:
    tokens = [token("sees", peek=("orders/*",)), token("other", admin=True, control=True)]
    async with serve(tokens=tokens) as (gateway, address):
        gateway.stream("orders/0")
        for stream, caller, said in (
            ("orders/0", "other", "peek"),
            ("payments/0", "sees", "payments/0"),
            ("orders/0", "sees", "[peek]"),
            ("orders/0", "unknown", "token"),
        ):
            found = await call("peek", stream, address=address, environ={"HEADRACE_TOKEN": caller})
            assert (found.exit_code, said in found.stderr) == (1, True), found.output
        gateway.peek = Peek(enabled=True)
        found = await call("peek", "orders/1", address=address, environ={"HEADRACE_TOKEN": "sees"})
        assert (found.exit_code, "no stream 'orders/1'" in found.stderr) == (1, True)
        found = await call("peek", "orders/0", "--limit", "10001", address=address)
        assert (found.exit_code, "10000" in found.stderr) == (2, True)
    found = await call("peek", "orders/0", address=address)
    assert (found.exit_code, address in found.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "form", "lines"),
    [
        (b'{"a":[1]}', "auto", ["{", '  "a": [', "    1", "  ]", "}"]),
        (b'{"a":[1]}', "text", ['{"a":[1]}']),
        (b'{"cut": "of', "json", ['{"cut": "of']),
        (b"one\ntwo", "auto", ["one", "two"]),
        (b"hi\x1b[2J\x07", "auto", ["hi\\x1b[2J\\x07"]),
        ("grün\u202e".encode(), "text", ["grün\\u202e"]),
        (b"\xffA\x00", "auto", [f"0000  {'ff 41 00':<47}  .A."]),
        (b"ab", "hex", [f"0000  {'61 62':<47}  ab"]),
        (b"", "auto", []),
    ],
)
def test_a_value_is_shown_in_the_form_that_is_asked_for_and_no_terminal_obeys_it(
    content: bytes, form: str, lines: list[str]
) -> None:
    assert value_lines(preview(content), form) == lines


def test_what_identifies_a_message_comes_first() -> None:
    message: MessagePreviewDocument = {
        "epoch": 3,
        "sequence": 41,
        "event_time": "2026-11-23T20:10:29.000Z",
        "key": preview(b"k\x1b"),
        "value": preview(b"hello", 5_000),
        "headers": [{"name": "trace\n", "value": preview(b"\xff")}, {"name": "none", "value": None}],
        "headers_in_all": 5,
    }
    assert preview_lines(message, "auto") == [
        "3:41  key k\\x1b  2026-11-23T20:10:29.000Z  5,000 bytes",
        "  trace\\n: ff",
        "  none: null",
        "  and 3 more headers",
        "    hello",
    ]
    empty: MessagePreviewDocument = {**message, "epoch": 0, "key": None, "event_time": None, "value": None, "headers": []}
    assert preview_lines({**empty, "headers_in_all": 0}, "auto") == ["41  null"]
