"""The file source by itself: files in, batches out."""

import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors import BadRecord, FileSource, Format
from headrace.connectors._records import split
from headrace.sdk import Backlog, InvalidSource, Position, PositionLost
from headrace.sdk._pack import pack

DATA = Path(__file__).parents[3] / "shared" / "data"


def records(batches) -> list[tuple[int, bytes]]:
    """Sequence and value of every message."""
    found = []
    for batch in batches:
        columns = pack([batch], 1, found[-1][0] if found else None)
        ends = columns.values.ends
        values = [columns.values.data[start:end] for start, end in pairwise(ends)]
        found.extend(zip(columns.sequences, values, strict=True))
        assert batch.cursor == b"%d" % found[-1][0]
    return found


def read(path: Path, format_=Format.LINES, position: int | None = None) -> list[tuple[int, bytes]]:
    source = FileSource("s", [path], format_, follow=False)
    (partition,) = source.partitions()
    return records(source.read(partition, None if position is None else Position(position)))


def prefixed(*values: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(value)) + value for value in values)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [(1, b"")]),
        (b"one\ntwo\n", [(4, b"one"), (8, b"two")]),
        (b"one\n\ntwo", [(4, b"one"), (5, b""), (8, b"two")]),
        (b"one\r\n", [(5, b"one\r")]),
    ],
)
def test_lines(tmp_path, content, expected):
    (tmp_path / "f").write_bytes(content)
    assert read(tmp_path / "f") == expected


def test_length_prefixed_records(tmp_path):
    (tmp_path / "f").write_bytes(prefixed(b"one", b"", b"t\no"))
    assert read(tmp_path / "f", Format.LENGTH_PREFIXED) == [(7, b"one"), (11, b""), (18, b"t\no")]


@pytest.mark.parametrize("format_", Format)
@given(values=st.lists(st.binary(max_size=20).filter(lambda v: b"\n" not in v)), cut=st.integers(0, 200))
def test_data_split_anywhere_gives_the_same_records(values, cut, format_):
    whole = b"".join(v + b"\n" for v in values) if format_ is Format.LINES else prefixed(*values)
    head, offset, found = whole[:cut], 0, []
    for data in (head, None):
        data = whole[offset:] if data is None else data
        part = split(data, offset, format_)
        if part is not None:
            found.append(part)
            offset = part.end
    lengths = [length for part in found for length in part.values.lengths]
    assert b"".join(part.values.data for part in found) == b"".join(values)
    assert lengths == [len(v) for v in values]
    assert offset == len(whole)


def test_a_file_of_many_chunks(tmp_path):
    lines = [b"%d" % n * (n % 50) for n in range(40_000)]
    (tmp_path / "f").write_bytes(b"".join(line + b"\n" for line in lines))
    assert [value for _, value in read(tmp_path / "f")] == lines


def test_a_line_of_many_chunks(tmp_path):
    long = b"x" * 3_000_000
    (tmp_path / "f").write_bytes(b"a\n" + long + b"\nb\n")
    assert [value for _, value in read(tmp_path / "f")] == [b"a", long, b"b"]


def test_reading_goes_on_after_a_position(tmp_path):
    (tmp_path / "f").write_bytes(b"one\ntwo\nthree\n")
    assert read(tmp_path / "f", position=4) == [(8, b"two"), (14, b"three")]
    assert read(tmp_path / "f", position=14) == []


def test_a_growing_file_is_followed_and_a_partial_line_waits(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\ntw")
    source = FileSource("s", [path])
    items = source.read("f", None)
    assert records([next(items)]) == [(4, b"one")]
    assert source.backlog("f") == Backlog(bytes=0, latest_sequence=4)
    assert next(items) is None
    assert source.backlog("f").bytes == 0
    with path.open("ab") as file:
        file.write(b"o\nthree\nfo")
    assert records([next(items)]) == [(8, b"two"), (14, b"three")]
    assert next(items) is None


def test_the_backlog_is_what_lies_before_the_last_whole_line(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 99 + b"\n")
    source = FileSource("s", [path])
    items = source.read("f", None)
    next(items)
    with path.open("ab") as file:
        file.write(b"y" * 99 + b"\nz")
    assert source.backlog("f") == Backlog(bytes=100, latest_sequence=200)


def test_a_file_shorter_than_the_position_has_lost_it(tmp_path):
    (tmp_path / "f").write_bytes(b"one\n")
    with pytest.raises(PositionLost, match="has 4 bytes, fewer than the 9"):
        read(tmp_path / "f", position=9)


def test_a_file_that_is_cut_while_it_is_followed_has_lost_its_position(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\n")
    items = FileSource("s", [path]).read("f", None)
    assert records([next(items)]) == [(4, b"one"), (8, b"two")]
    os.truncate(path, 4)
    with pytest.raises(PositionLost, match="was cut"):
        next(items)


def test_a_file_that_is_replaced_while_it_is_followed_has_lost_its_position(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    items = FileSource("s", [path]).read("f", None)
    next(items)
    (tmp_path / "g").write_bytes(b"other\n")
    (tmp_path / "g").replace(path)
    with pytest.raises(PositionLost, match="another file"):
        next(items)


def test_a_file_that_is_gone_has_lost_its_position(tmp_path):
    (tmp_path / "f").write_bytes(b"one\n")
    source = FileSource("s", [tmp_path / "f"])
    (tmp_path / "f").unlink()
    with pytest.raises(PositionLost, match="is gone"):
        next(source.read("f", Position(4)))


@pytest.mark.parametrize(
    ("content", "complaint"), [(prefixed(b"one") + b"\0\0", "byte 7 is incomplete"), (b"\xff" * 9, "byte 0 claims 4294967295")]
)
def test_a_file_of_another_format_is_told(tmp_path, content, complaint):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadRecord, match=complaint):
        read(tmp_path / "f", Format.LENGTH_PREFIXED)


def test_files_become_partitions_as_they_appear(tmp_path):
    source = FileSource("s", [tmp_path / "*.log", tmp_path / "not there"])
    assert source.partitions() == []
    (tmp_path / "b 1.log").touch()
    (tmp_path / "a.log").touch()
    (tmp_path / "not there").touch()
    assert source.partitions() == ["a.log", "b_1.log", "not_there"]


def test_two_files_cannot_be_one_stream(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").touch()
    with pytest.raises(InvalidSource, match="would both be the stream s/f"):
        FileSource("s", [tmp_path / "*" / "f"])
    assert FileSource("s", [tmp_path / "a" / "f", tmp_path / "a" / "*"]).partitions() == ["f"]


def test_no_file_and_none_to_come_is_refused(tmp_path):
    with pytest.raises(InvalidSource, match="no such file"):
        FileSource("s", [tmp_path / "*.log"], follow=False)


@pytest.mark.parametrize(("name", "count"), [("350-symbols", 350), ("3k-symbols", 2926)])
def test_market_spread(name, count):
    path = DATA / f"market-spread-{name}-initial-nbbo.msg"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    quotes = read(path, Format.LENGTH_PREFIXED)
    assert len(quotes) == count
    assert {len(value) for _, value in quotes} == {42}
    assert quotes[-1][0] == path.stat().st_size
