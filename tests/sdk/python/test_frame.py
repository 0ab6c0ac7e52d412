"""Frames: what goes in comes out, sizes are exact, limits are kept. Nothing here does I/O."""

from array import array
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.columns import MAX_TIME, MIN_TIME, NULL_TIME, time_outside
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk import NULL, Batch, InvalidMessage, Message, Packed, Steps, decode_frame
from headrace.sdk.wire import fill_frame, fit, frame_size, pack

STREAM_ID = 300
BODIES = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5), BODIES), min_size=1, max_size=3))


def distinct(draw, count):
    """Sequences, with gaps of every size that matters."""
    gaps = st.one_of(st.integers(1, 3), st.integers(2**32 - 2, 2**32 + 2), st.integers(1, 2**40))
    sequence, sequences = draw(st.integers(0, 2**20)), []
    for _ in range(count):
        sequences.append(sequence)
        sequence += draw(gaps)
    return sequences


@st.composite
def message_lists(draw):
    count = draw(st.integers(1, 12))
    optional = {
        "key": BODIES,
        "event_time": st.one_of(st.none(), st.integers(MIN_TIME, MAX_TIME)),
        "message_id": st.one_of(st.none(), st.text(max_size=8)),
        "headers": HEADERS,
        "cursor": st.one_of(st.none(), st.binary(max_size=300)),
    }
    used = draw(st.sets(st.sampled_from(sorted(optional))))
    return [
        Message(draw(BODIES), sequence=sequence, **{name: draw(optional[name]) for name in sorted(used)})
        for sequence in distinct(draw, count)
    ]


def cut(items, max_bytes=1 << 20, max_messages=1 << 20):
    """All frames of some items, and the messages in them."""
    columns, frames, at = pack(items, 1, None), [], 0
    while at < columns.count:
        stop, size = fit(columns, STREAM_ID, at, max_bytes, max_messages)
        if stop == at:
            assert frame_size(columns, STREAM_ID, at, at + 1) > max_bytes
            stop, size = at + 1, frame_size(columns, STREAM_ID, at, at + 1)
        frame = Frame()
        fill_frame(frame, columns, STREAM_ID, at, stop)
        assert frame.ByteSize() == size
        assert frame.ByteSize() <= max_bytes or frame.count == 1
        assert frame.count <= max_messages
        frames.append(frame)
        at = stop
    return frames


def without_cursor(message):
    return Message(*(getattr(message, name) for name in ("value", "key", "event_time", "sequence", "message_id", "headers")))


@given(message_lists(), st.integers(50, 1000), st.integers(1, 13))
def test_messages_come_out_of_frames_as_they_went_in(messages, max_bytes, max_messages):
    frames = cut(messages, max_bytes, max_messages)
    received = [message for frame in frames for message in decode_frame(frame)]
    assert [without_cursor(m) for m in received] == [without_cursor(m) for m in messages]


@given(message_lists(), st.integers(50, 1000))
def test_a_frame_carries_the_last_cursor_within_it(messages, max_bytes):
    at = 0
    for frame in cut(messages, max_bytes):
        cursors = [m.cursor for m in messages[at : at + frame.count] if m.cursor is not None]
        assert (frame.cursor if frame.HasField("cursor") else None) == (cursors[-1] if cursors else None)
        at += frame.count


@given(message_lists(), st.lists(st.booleans(), min_size=12, max_size=12), st.integers(50, 1000))
def test_batches_and_messages_mix(messages, as_batch, max_bytes):
    items = [_batch([m]) if batch else m for m, batch in zip(messages, as_batch, strict=False)]
    received = [message for frame in cut(items, max_bytes) for message in decode_frame(frame)]
    assert [without_cursor(m) for m in received] == [without_cursor(m) for m in messages]


@given(message_lists())
def test_a_batch_is_its_messages(messages):
    assert cut([_batch(messages)])[0].values == cut(messages)[0].values
    received = [message for frame in cut([_batch(messages)]) for message in decode_frame(frame)]
    assert [without_cursor(m) for m in received] == [without_cursor(m) for m in messages]


def _batch(messages):
    return Batch(
        values=[m.value for m in messages],
        keys=[m.key for m in messages],
        event_times=[m.event_time for m in messages],
        message_ids=[m.message_id for m in messages],
        headers=[m.headers for m in messages],
        sequences=[m.sequence for m in messages],
        cursor=messages[-1].cursor,
    )


def test_packed_columns_pass_untouched():
    values = Packed(b"onethree", array("I", [3, NULL, 5]))
    batch = Batch(values, sequences=Steps(7, array("I", [1, 10])), event_times=array("q", [1, 2, 3]))
    (frame,) = cut([batch])
    assert [(m.value, m.sequence, m.event_time) for m in decode_frame(frame)] == [
        (b"one", 7, 1),
        (None, 8, 2),
        (b"three", 18, 3),
    ]


def test_sequences_in_a_row_need_no_deltas():
    (frame,) = cut([Batch([b"a"] * 3, sequences=[4, 5, 6]), Message(b"b", sequence=7), Batch([b"c"], sequences=range(8, 9))])
    assert (frame.first_sequence, frame.count, frame.sequence_deltas) == (4, 5, b"")


def test_columns_are_little_endian():
    (frame,) = cut([Batch([b"a", b"bb"], sequences=[1, 4], event_times=[-2, None])])
    assert frame.sequence_deltas == b"\x03\0\0\0"
    assert frame.value_lengths == b"\x01\0\0\0\x02\0\0\0"
    assert frame.event_times == b"\xfe" + b"\xff" * 7 + b"\0" * 7 + b"\x80"


def test_a_datetime_becomes_microseconds():
    (frame,) = cut([Message(b"", event_time=datetime(2013, 1, 1, 5, 15, 0, 1, tzinfo=UTC))])
    assert decode_frame(frame)[0].event_time == 1_357_017_300_000_001


def test_a_column_that_nobody_uses_takes_no_space():
    (frame,) = cut([Message(b"a"), Message(b"b")])
    assert {field.name for field, _ in frame.ListFields()} == {"stream_id", "first_sequence", "count", "values", "value_lengths"}


@pytest.mark.parametrize(
    "items",
    [
        [Message(1)],
        [Message(b"", message_id=b"bytes")],
        [Message(b"", headers=[("a",)])],
        [Message(b"", headers=[(b"a", b"b")])],
        [Message(b"", event_time="now")],
        [Message(b"", event_time=datetime(2013, 1, 1))],  # noqa: DTZ001 - that is the point
        [Message(b"", event_time=2**63)],
        [Message(b"", event_time=MAX_TIME + 1)],
        [Message(b"", event_time=datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))))],
        [Batch([b"a", b"b"], event_times=array("q", [MIN_TIME, MIN_TIME - 1]))],
        [Batch([b"a", b"b"], event_times=[None, 1_700_000_000_000_000_000])],
        [Message(b"", sequence=-1)],
        [Message(b"", sequence="1")],
        [Batch([b"a"], sequences=[1, 2])],
        [Batch([b"a", b"b"], sequences=range(5, 1, -2))],
        [Batch([b"a", b"b"], sequences=Steps(1, array("I", [0])))],
        [Batch([b"a", b"b"], sequences=Steps(1, array("Q", [1])))],
        [Batch([b"a", b"b"], tokens=[1])],
        [Batch([b"a"], event_times=array("d", [1.0]))],
        [Batch(Packed(b"abc", array("I", [1])))],
    ],
)
def test_what_cannot_be_framed_is_refused(items):
    with pytest.raises(InvalidMessage):
        pack(items, 1, None)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(MIN_TIME - 2, MAX_TIME + 2), st.just(NULL_TIME))))
def test_no_time_outside_the_years_1_to_9999_leaves_a_source(times):
    wrong = [at for at, time in enumerate(times) if time != NULL_TIME and not MIN_TIME <= time <= MAX_TIME]
    packed = array("q", times)
    assert time_outside(packed.tobytes()) == (wrong[0] if wrong else None)
    batch = Batch([b""] * len(times), event_times=packed)
    if wrong:
        with pytest.raises(InvalidMessage, match=f"event time {times[wrong[0]]} is not within the years 1 to 9999"):
            pack([batch], 1, None)
    elif times:
        (frame,) = cut([batch])
        assert frame.event_times == packed.tobytes()


def test_nothing_makes_no_frame():
    assert pack([Batch([])], 1, None) is None
