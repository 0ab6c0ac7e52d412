"""A frame on its way: the SDK packs it, the gateway checks it and may trim it, the engine turns it into Arrow."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.engine.codec import columns, cut, record_batches
from headrace.gateway.config import Limits
from headrace.gateway.core.base.errors import ProtocolError
from headrace.gateway.core.streams import check_frame, check_times, count_up_to, trim
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk import Message
from headrace.sdk.wire import fill_frame, pack

STREAM = "orders/0"
BODIES = st.one_of(st.none(), st.binary(max_size=30))
TIMES = st.one_of(st.none(), st.integers(-(10**15), 10**15))
IDS = st.one_of(st.none(), st.text(max_size=6))
HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=4), BODIES), max_size=3))
COLUMNS = [f.name for f in Frame.DESCRIPTOR.fields if f.name not in ("stream_id", "count", "first_sequence")]


@st.composite
def runs(draw: st.DrawFn) -> list[Message]:
    """Consecutive messages of a stream."""
    sequence, messages = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 12))):
        messages.append(Message(draw(BODIES), draw(BODIES), draw(TIMES), sequence, draw(IDS), draw(HEADERS)))
        sequence += draw(st.one_of(st.just(1), st.integers(1, 2**31)))
    return messages


def packed(messages: list[Message]) -> Frame:
    frame, packing = Frame(), pack(messages, 0, None)
    assert packing is not None
    fill_frame(frame, packing, 1, 0, packing.count)
    return Frame.FromString(frame.SerializeToString())


def checked(frame: Frame) -> int:
    last = check_frame(frame, frame.ByteSize(), Limits(max_frame_bytes=2**20, max_frame_messages=1000), STREAM)
    check_times(frame, STREAM)
    return last


def row(message: Message) -> dict[str, object]:
    """What Spark shows for a message."""
    assert message.event_time is None or isinstance(message.event_time, int)
    time = None if message.event_time is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=message.event_time)
    return {
        "key": message.key,
        "value": message.value,
        "event_time": time,
        "stream": STREAM,
        "sequence": message.sequence,
        "message_id": message.message_id,
        "headers": [{"name": name, "value": value} for name, value in message.headers or []],
    }


def decoded(*frames: Frame, after: int = -1, upto: int = 2**62) -> list[dict[str, object]]:
    parts = (cut(columns(STREAM, frame), after, upto) for frame in frames)
    batches = record_batches(part for part in parts if part is not None)
    return [found for batch in batches for found in batch.to_pylist()]


@given(runs())
def test_messages_reach_spark_as_they_were_given(messages: list[Message]) -> None:
    frame = packed(messages)
    assert checked(frame) == messages[-1].sequence
    assert decoded(frame) == [row(m) for m in messages]


@given(runs(), st.data())
def test_a_trimmed_frame_is_the_rest_of_it(messages: list[Message], data: st.DataObject) -> None:
    seen = data.draw(st.integers(0, len(messages) - 1))
    frame = packed(messages)
    resumed = messages[seen - 1].sequence if seen else messages[0].sequence - 1  # type: ignore[operator]
    assert count_up_to(frame, resumed or 0) == seen
    rest = trim(frame, seen)
    assert checked(rest) == messages[-1].sequence
    assert decoded(rest) == [row(m) for m in messages[seen:]]


@given(runs(), st.data())
def test_parts_of_a_range_hold_every_message_once(messages: list[Message], data: st.DataObject) -> None:
    split = data.draw(st.integers(0, len(messages)))
    frames = [packed(part) for part in (messages[:split], messages[split:]) if part]
    edge = data.draw(st.integers(messages[0].sequence or 0, (messages[-1].sequence or 0) + 1))
    parts = decoded(*frames, upto=edge) + decoded(*frames, after=edge)
    assert parts == [row(m) for m in messages]


@given(runs(), st.sampled_from(COLUMNS), st.binary(max_size=20))
@example([Message(None, sequence=0)], "event_times", (4 << 56).to_bytes(8, "little"))
def test_a_mutated_frame_is_refused_or_still_adds_up(messages: list[Message], column: str, junk: bytes) -> None:
    frame = packed(messages)
    setattr(frame, column, junk)
    try:
        last = checked(frame)
    except ProtocolError:
        return
    # Text that is not UTF-8 adds up all the same; only a reader of the text could tell.
    if column not in ("message_ids", "header_names"):
        assert decoded(frame)[-1]["sequence"] == last
