"""The kit reads and writes frames as the vectors of the protocol say."""

import pytest
from google.protobuf.message import DecodeError
from tests.vectors.files import named, read

from headrace.conformance.core.frames import MalformedFrame, Message, decode, encode
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.protocol.v1.sink_pb2 import PartFrame

VECTORS = read("frames.json")
VALID, INVALID = named(VECTORS["valid"]), named(VECTORS["invalid"])
CONTENTS = tuple(f"FRM-{number}" for number in (1, 3, 4, 6, 7, 9, 10, 11, 16, 18))
"""Rules that a frame keeps or breaks by itself."""


def frame_of(case: dict[str, object]) -> Frame:
    """The frame of a valid case."""
    data = bytes.fromhex(str(case["hex"]))
    return PartFrame.FromString(data).frame if case["message"] == "PartFrame" else Frame.FromString(data)


def data(text: str | None) -> bytes | None:
    """Bytes of the vectors."""
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("name", VALID)
def test_a_frame_is_read(name: str) -> None:
    columns = VALID[name]["columns"]
    messages = decode(frame_of(VALID[name]))

    assert [str(message.sequence) for message in messages] == columns["sequences"]
    assert [message.value for message in messages] == [data(value) for value in columns["values"]]
    assert [message.key for message in messages] == [data(key) for key in columns.get("keys", [None] * len(messages))]
    headers = columns.get("headers", [[]] * len(messages))
    assert [list(message.headers) for message in messages] == [[(name, data(value)) for name, value in own] for own in headers]


@pytest.mark.parametrize("name", [name for name, case in INVALID.items() if case["rule"] in CONTENTS])
def test_a_malformed_frame_is_named(name: str) -> None:
    with pytest.raises((MalformedFrame, DecodeError)):
        decode(Frame.FromString(bytes.fromhex(INVALID[name]["hex"])))


def test_what_is_written_is_read() -> None:
    rows = [
        Message(b"one", b"key", 0, 1_700_000_000_000_000, "id", (("name", b"value"), ("null", None))),
        Message(None, None, 1),
        Message(b"", b"", 2, message_id=""),
    ]
    assert decode(encode(rows)) == rows
    assert encode([Message(b"bare")]) == Frame(count=1, values=b"bare", value_lengths=b"\x04\0\0\0")
