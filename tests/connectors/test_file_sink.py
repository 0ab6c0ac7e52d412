"""The file sink by itself: parts in, files out."""

import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_gateway.sinks import frame_of

from headrace.connectors import FileSink, FileSource, Format, Rotation, SinkFormat
from headrace.connectors.file._format import encode
from headrace.sdk import WRITTEN, InvalidSink, Message, Part, Recovered, Refused, Rows, Transaction

FIRST, SECOND = Transaction("p", 0), Transaction("p", 1)


@pytest.fixture
def make(tmp_path):
    """Makes sinks that write to one folder, one after the other."""
    made: list[FileSink] = []

    def sink(format_: SinkFormat = SinkFormat.LINES, **options: object) -> FileSink:
        while made:
            made.pop().close()
        made.append(FileSink("s", tmp_path / "out", format_, **options))
        made[0].recover()
        return made[0]

    yield sink
    for each in made:
        each.close()


def write(sink: FileSink, transaction: Transaction, *parts: list[bytes]) -> None:
    """Writes a transaction of some parts."""
    staged = [Part(transaction, n, "a") for n in range(len(parts))]
    for part, values in zip(staged, parts, strict=True):
        assert sink.stage(part, iter([Rows(frame_of(values))] if values else [])) is None
    sink.prepare(transaction, staged)
    sink.commit(transaction)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


# Formats


def test_json_lines_hold_everything():
    frame = frame_of(
        [b"plain", None, b"\xff\x00", "é\n".encode()],
        keys=[b"k", None, b"\xfe", None],
        event_times=[1_700_000_000_123_456, None, 0, 0],
        message_ids=["one", None, None, None],
        headers=[[("h", b"1"), ("h", b"\xff"), ("n", None)], None, None, None],
    )
    # A source cannot send this time, and a query may still compute it.
    frame.event_times = frame.event_times[:-8] + struct.pack("<q", 2**62)
    lines = encode(Rows(frame), SinkFormat.JSON).data.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "key": "k",
            "value": "plain",
            "event_time": "2023-11-14T22:13:20.123456Z",
            "message_id": "one",
            "headers": [{"name": "h", "value": "1"}, {"name": "h", "value_base64": "/w=="}, {"name": "n", "value": None}],
        },
        {"value": None},
        {"key_base64": "/g==", "value_base64": "/wA=", "event_time": "1970-01-01T00:00:00Z"},
        {"value": "é\n", "event_time": 2**62},
    ]


TEXTS = st.text(max_size=5).map(str.encode)
MESSAGES = st.builds(
    Message,
    value=st.none() | TEXTS,
    key=st.none() | TEXTS,
    event_time=st.none() | st.integers(-(10**15), 10**15),
    message_id=st.none() | st.text(max_size=3),
    headers=st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | TEXTS), max_size=2),
)


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_json_lines_can_be_read(messages):
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode()

    lines = encode(Rows.of(*messages), SinkFormat.JSON).data.decode().removesuffix("\n").split("\n")
    for message, line in zip(messages, lines, strict=True):
        read = json.loads(line)
        assert (read["value"], read.get("key")) == (text(message.value), text(message.key))
        assert read.get("message_id") == message.message_id
        assert [(h["name"], h["value"]) for h in read.get("headers", [])] == [(n, text(v)) for n, v in message.headers or []]
        if message.event_time is None:
            assert "event_time" not in read
        else:
            time = datetime.fromisoformat(read["event_time"]) - datetime(1970, 1, 1, tzinfo=UTC)
            assert time // timedelta(microseconds=1) == message.event_time


VALUES = st.lists(st.none() | st.binary(max_size=8).map(lambda value: value.replace(b"\x00", b"\n")), min_size=1)


@given(VALUES, st.integers(0, 100))
def test_lines_hold_what_a_line_can(values, first):
    encoded = encode(Rows(frame_of(values, first)), SinkFormat.LINES)
    fitting = [value is not None and b"\n" not in value for value in values]
    assert encoded.data == b"".join(value + b"\n" for value, fits in zip(values, fitting, strict=True) if fits)
    assert sorted(encoded.refused) == [place for place, fits in enumerate(fitting, first) if not fits]


@given(VALUES)
def test_length_prefixed_records_hold_every_value(values):
    encoded = encode(Rows(frame_of(values)), SinkFormat.LENGTH_PREFIXED)
    assert encoded.data == b"".join(struct.pack(">I", len(value)) + value for value in values if value is not None)
    assert sorted(encoded.refused) == [place for place, value in enumerate(values) if value is None]


@pytest.mark.parametrize("format_", [SinkFormat.LINES, SinkFormat.LENGTH_PREFIXED])
def test_what_is_written_can_be_read(make, tmp_path, format_):
    sink = make(format_)
    values = [b"%d" % n * (n % 7) for n in range(1000)]
    write(sink, FIRST, values[:400], values[400:])
    source = FileSource("r", [tmp_path / "out" / "s-*"], Format(format_.value), follow=False)

    async def batches():
        (partition,) = await source.partitions()
        return [batch async for batch in source.read(partition, None)]

    read = [batch.values for batch in asyncio.run(batches())]
    assert b"".join(packed.data for packed in read) == b"".join(values)
    assert sum(len(packed.lengths) for packed in read) == 1000


def test_what_is_refused_is_told_by_place(make, tmp_path):
    sink = make()
    part = Part(FIRST, 0, "a")
    outcomes = sink.stage(part, iter([Rows(frame_of([b"a", b"b\nc"])), Rows(frame_of([None, b"d"], first=2))]))
    assert outcomes[0] == outcomes[3] == WRITTEN
    assert isinstance(outcomes[1], Refused)
    assert "line feed" in outcomes[1].reason
    assert "no value" in outcomes[2].reason
    sink.prepare(FIRST, [part])
    sink.commit(FIRST)
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\nd\n"}


# Transactions


def test_nothing_is_visible_before_commit(make, tmp_path):
    sink = make()
    part = Part(FIRST, 0, "a")
    sink.stage(part, iter([Rows(frame_of([b"a"]))]))
    sink.prepare(FIRST, [part])
    assert files(tmp_path / "out") == {}
    assert make().recover() == Recovered([part], [FIRST], [])
    make().commit(FIRST)
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\n"}
    sink = make()
    sink.commit(FIRST)
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\n"}
    assert sink.recover() == Recovered([], [], [FIRST])


def test_parts_become_visible_in_the_order_of_their_partitions(make, tmp_path):
    sink = make()
    write(sink, FIRST, [b"a"], [], [b"b"])
    write(sink, Transaction("q", 7), [b"c"])
    write(sink, SECOND, [b"d"])
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\nb\nc\nd\n"}
    assert sorted(make().recover().committed) == [SECOND, Transaction("q", 7)]


def test_losers_and_aborted_and_dropped_parts_leave_nothing(make, tmp_path):
    sink = make()
    parts = [Part(FIRST, 0, attempt) for attempt in "abc"]
    for part in parts:
        sink.stage(part, iter([Rows(frame_of([part.attempt.encode()]))]))
    sink.drop(parts[0])
    assert sink.recover().staged == parts[1:]
    sink.prepare(FIRST, [parts[2]])
    assert sink.recover().staged == parts[2:]
    sink.abort(FIRST)
    sink.abort(FIRST)
    assert make().recover() == Recovered([], [], [])
    with pytest.raises(LookupError, match="batch 0 of pipeline p was never prepared"):
        sink.commit(FIRST)
    assert list((tmp_path / "out" / ".headrace" / "s" / "staged").iterdir()) == []


def test_a_part_that_is_not_there_cannot_be_prepared(make):
    with pytest.raises(FileNotFoundError, match="is not staged"):
        make().prepare(FIRST, [Part(FIRST, 0, "a")])


def test_a_part_whose_rows_break_off_is_not_staged(make):
    def breaking_off():
        yield Rows(frame_of([b"a"]))
        raise ConnectionError

    sink = make()
    with pytest.raises(ConnectionError):
        sink.stage(Part(FIRST, 0, "a"), breaking_off())
    assert sink.recover().staged == []


def test_a_batch_that_is_run_again_from_an_older_checkpoint_is_written_again(make, tmp_path):
    sink = make()
    write(sink, FIRST, [b"a"])
    part = Part(FIRST, 0, "b")
    sink.stage(part, iter([Rows(frame_of([b"again"]))]))
    sink.prepare(FIRST, [part])
    sink.commit(FIRST)
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\nagain\n"}


@pytest.mark.parametrize(("pipeline", "attempt"), [("../p,1.vote", "a/b,c.part"), ("/" * 255, "a"), ("p", "." * 255)])
def test_names_may_hold_anything(make, tmp_path, pipeline, attempt):
    sink = make()
    transaction = Transaction(pipeline, 3)
    part = Part(transaction, 0, attempt)
    sink.stage(part, iter([Rows(frame_of([b"a"]))]))
    assert make().recover().staged == [part]
    sink = make()
    sink.prepare(transaction, [part])
    assert make().recover().prepared == [transaction]
    make().commit(transaction)
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\n"}
    assert list((tmp_path / "out" / ".headrace" / "s" / "staged").iterdir()) == []


# Files


def test_a_new_file_begins_when_one_is_large_enough(make, tmp_path):
    sink = make(rotation=Rotation(bytes=4))
    write(sink, FIRST, [b"a"], [b"b"], [b"c"])
    write(sink, SECOND, [b"d"])
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\nb\n", "s-000002.lines": b"c\nd\n"}


def test_a_new_file_begins_when_one_is_old_enough(make, tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    write(make(rotation=Rotation(seconds=60)), FIRST, [b"a"])
    now += 59
    write(make(rotation=Rotation(seconds=60)), SECOND, [b"b"])
    now += 1
    write(make(rotation=Rotation(seconds=60)), Transaction("p", 2), [b"c"])
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\nb\n", "s-000002.lines": b"c\n"}


def test_a_file_is_complete_once_it_is_old_enough_though_nothing_comes(make, tmp_path):
    sink = make(rotation=Rotation(seconds=0.05))
    write(sink, FIRST, [b"a"])
    deadline = time.monotonic() + 120
    while files(tmp_path / "out") != {"s-000001.lines": b"a\n", "s-000002.lines": b""}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    sink.rotate()
    write(sink, SECOND, [b"b"])
    assert files(tmp_path / "out")["s-000002.lines"] == b"b\n"
    write(make(rotation=Rotation(seconds=60)), Transaction("p", 2), [b"c"])
    assert b"".join(files(tmp_path / "out").values()) == b"a\nb\nc\n"


@pytest.mark.behaviour(
    "file",
    "a last output file that somebody else moved or changed",
    "leaves it, and creates a new one",
)
@pytest.mark.parametrize(
    "change", [Path.unlink, lambda path: path.write_bytes(b"other"), lambda path: path.rename(path.parent / "x")]
)
def test_a_file_that_somebody_took_or_changed_is_left_alone(make, tmp_path, change):
    sink = make()
    write(sink, FIRST, [b"a"])
    change(tmp_path / "out" / "s-000001.lines")
    before = files(tmp_path / "out")
    write(sink, SECOND, [b"b"])
    assert files(tmp_path / "out") == {**before, "s-000002.lines": b"b\n"}


def test_another_format_begins_another_file(make, tmp_path):
    write(make(), FIRST, [b"a"])
    write(make(SinkFormat.JSON), SECOND, [b"b"])
    assert files(tmp_path / "out") == {"s-000001.lines": b"a\n", "s-000002.jsonl": b'{"value":"b"}\n'}


def test_a_file_that_was_there_before_is_not_replaced(make, tmp_path):
    sink = make()
    (tmp_path / "out" / "s-000001.lines").write_bytes(b"not ours")
    write(sink, FIRST, [b"a"])
    assert files(tmp_path / "out") == {"s-000001.lines": b"not ours", "s-000002.lines": b"a\n"}


def test_two_sinks_of_one_name_cannot_share_a_folder(make, tmp_path):
    make()
    with pytest.raises(InvalidSink, match=r"another process writes the sink s to .*out"):
        FileSink("s", tmp_path / "out")
    FileSink("other", tmp_path / "out").close()


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_name_that_is_no_folder(tmp_path, name):
    with pytest.raises(InvalidSink, match="is not a valid folder name"):
        FileSink(name, tmp_path)


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSink, match="cannot write to"):
        FileSink("s", tmp_path / "file")


def test_a_commit_that_failed_may_be_asked_for_again(make, tmp_path):
    sink = make()
    write(sink, FIRST, [b"a"])
    part = Part(SECOND, 0, "a")
    sink.stage(part, iter([Rows(frame_of([b"b"]))]))
    sink.prepare(SECOND, [part])
    file = tmp_path / "out" / "s-000001.lines"
    hidden = tmp_path / "out" / ".headrace" / "s"
    os.rename(hidden / "staged", hidden / "away")
    (hidden / "staged").mkdir()
    for vote in (hidden / "away").glob("*.vote"):
        (hidden / "staged" / vote.name).write_bytes(vote.read_bytes())
    with pytest.raises(FileNotFoundError):
        sink.commit(SECOND)
    for staged in (hidden / "away").glob("*.part"):
        os.rename(staged, hidden / "staged" / staged.name)
    sink.commit(SECOND)
    assert file.read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("format_", ["lines", "length-prefixed"])
def test_writing_values_imports_no_pandas(format_: str) -> None:
    # Arrow imports it, if it is installed, for each constant that it makes of a Python value.
    assert find_spec("pandas") is not None
    program = f"""
import sys
from headrace.connectors import SinkFormat
from headrace.connectors.file._format import encode
from headrace.sdk import Message, Rows

assert b"b" in encode(Rows.of(Message(b"a"), Message(b"b")), SinkFormat("{format_}")).data
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Runs


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", ["p", "p" * 200])
@pytest.mark.parametrize("counts", ["r1", "r2"])
def test_what_two_runs_have_prepared_of_a_batch_is_kept_until_one_of_them_counts(make, tmp_path, counts, name, restarted):
    sink = make()
    runs = {run: Transaction(name, 0, run) for run in ("r1", "r2")}
    parts = {run: Part(transaction, 0, f"{run}/a") for run, transaction in runs.items()}
    for run, part in parts.items():
        assert sink.stage(part, iter([Rows(frame_of([run.encode()]))])) is None
        sink.prepare(runs[run], [part])
    stale = Part(runs["r1"], 1, "r1/late")
    assert sink.stage(stale, iter([Rows(frame_of([b"late"]))])) is None
    if restarted:
        sink = make()
    found = sink.recover()
    assert (sorted(found.staged), sorted(found.prepared)) == (sorted(parts.values()), sorted(runs.values()))
    other = runs["r1" if counts == "r2" else "r2"]
    sink.abort(other)
    sink.commit(runs[counts])
    sink.commit(runs[counts])
    sink.abort(runs["r1"])
    sink.abort(runs["r2"])
    assert list(files(tmp_path / "out").values()) == [counts.encode() + b"\n"]
    assert sink.recover() == Recovered([], [], [Transaction(name, 0)])
