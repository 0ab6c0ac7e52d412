"""The file source by itself: files in, batches out."""

import asyncio
import gzip
import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors import BadRecord, FileSource, Format, dead_letters
from headrace.connectors._records import split
from headrace.connectors.bad_records import BadRecords
from headrace.connectors.file import Names
from headrace.sdk import GONE, Backlog, Batch, InvalidSource, Position, PositionLost
from headrace.sdk.wire import pack

DATA = Path(__file__).parents[3] / "shared" / "data"


class Items:
    """What `read` yields, one item after the other."""

    def __init__(self, source: FileSource, partition: str, position: Position | None = None) -> None:
        self._items = source.read(partition, position)
        OPEN.append(self)
        self.last: Batch | None = None

    def __iter__(self):
        return self

    def __next__(self):
        try:
            item = LOOP.run_until_complete(asyncio.wait_for(anext(self._items), 120))
            self.last = item or self.last
            return item
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        LOOP.run_until_complete(self._items.aclose())


LOOP = asyncio.new_event_loop()
OPEN: list[Items] = []


@pytest.fixture(autouse=True)
def closed():
    """Leaves no reader behind, and so no thread."""
    yield
    while OPEN:
        OPEN.pop().close()


def listed(source: FileSource) -> list[str]:
    return list(LOOP.run_until_complete(source.partitions()))


def backlog(source: FileSource, partition: str) -> Backlog | None:
    return LOOP.run_until_complete(source.backlog(partition))


def records(batches) -> list[tuple[int, bytes]]:
    """Sequence and value of every message."""
    found = []
    for batch in batches:
        columns = pack([batch], 1, found[-1][0] if found else None)
        ends = columns.values.ends
        values = [columns.values.data[start:end] for start, end in pairwise(ends)]
        found.extend(zip(columns.sequences, values, strict=True))
    return found


def some(items: Items, count: int) -> list[tuple[int, bytes]]:
    """Reads until there are `count` messages."""
    found = []
    while len(found) < count:
        if (batch := next(items)) is not None:
            found += records([batch])
    return found


def after(items: Items, count: int) -> Position:
    """The position after `count` messages."""
    read = 0
    while read < count:
        if (batch := next(items)) is not None:
            read += len(batch)
            last = records([batch])[-1][0]
    assert read == count
    return Position(sequence=last, cursor=batch.cursor)


def read(path: Path, format_=Format.LINES, position: int | None = None) -> list[tuple[int, bytes]]:
    source = FileSource("s", [path], format_, follow=False)
    (partition,) = listed(source)
    return records(Items(source, partition, None if position is None else Position(sequence=position)))


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
    items = Items(source, "f", None)
    assert records([next(items)]) == [(4, b"one")]
    assert backlog(source, "f") == Backlog(bytes=0, latest_sequence=4)
    assert next(items) is None
    assert backlog(source, "f").bytes == 0
    with path.open("ab") as file:
        file.write(b"o\nthree\nfo")
    assert records([next(items)]) == [(8, b"two"), (14, b"three")]
    assert next(items) is None


def test_the_backlog_is_what_lies_before_the_last_whole_line(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 99 + b"\n")
    source = FileSource("s", [path])
    items = Items(source, "f", None)
    next(items)
    with path.open("ab") as file:
        file.write(b"y" * 99 + b"\nz")
    assert backlog(source, "f") == Backlog(bytes=100, latest_sequence=200)


def test_a_file_shorter_than_the_position_has_lost_it(tmp_path):
    (tmp_path / "f").write_bytes(b"one\n")
    with pytest.raises(PositionLost, match="has 4 bytes, fewer than the 9"):
        read(tmp_path / "f", position=9)


def test_a_file_that_is_cut_while_it_is_followed_has_lost_its_position(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\n")
    items = Items(FileSource("s", [path]), "f", None)
    assert records([next(items)]) == [(4, b"one"), (8, b"two")]
    os.truncate(path, 4)
    with pytest.raises(PositionLost, match="was truncated"):
        some(items, 100)


def replace(path: Path, content: bytes) -> None:
    path.with_name("new").write_bytes(content)
    path.with_name("new").replace(path)


@pytest.mark.parametrize("content", [b"one\ntow\nthree\n", b"two\nthree\n"], ids=["changed", "without its beginning"])
def test_a_file_that_is_replaced_by_one_with_the_same_records_has_lost_its_position(tmp_path, content):
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\nthree\n")
    items = Items(FileSource("s", [path], rotated_seconds=0), "f", None)
    next(items)
    replace(path, content)
    with pytest.raises(PositionLost, match="is not the file that was read, and its first line is in that one, too"):
        some(items, 100)


def test_a_file_that_is_replaced_by_a_copy_is_read_on(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    items = Items(FileSource("s", [path], rotated_seconds=0), "f", None)
    next(items)
    replace(path, b"one\ntwo\n")
    assert some(items, 1) == [(8, b"two")]


def test_a_file_that_is_replaced_by_one_with_other_records_is_read_after_it(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\n")
    items = Items(FileSource("s", [path], rotated_seconds=0), "f", None)
    next(items)
    path.unlink()
    path.write_bytes(b"")
    assert next(items) is None
    path.write_bytes(b"two\n")
    assert some(items, 1) == [(8, b"two")]


def test_a_file_that_is_gone_has_lost_its_position(tmp_path):
    (tmp_path / "f").write_bytes(b"one\n")
    source = FileSource("s", [tmp_path / "f"])
    (tmp_path / "f").unlink()
    with pytest.raises(PositionLost, match="does not exist"):
        next(Items(source, "f", Position(sequence=4)))


@pytest.mark.parametrize(
    ("content", "message"), [(prefixed(b"one") + b"\0\0", "byte 7 is incomplete"), (b"\xff" * 9, "byte 0 announces 4294967295")]
)
def test_a_file_of_another_format_is_told(tmp_path, content, message):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadRecord, match=message):
        read(tmp_path / "f", Format.LENGTH_PREFIXED)


def test_files_become_partitions_as_they_appear(tmp_path):
    source = FileSource("s", [tmp_path / "*.log", tmp_path / "not there"])
    assert listed(source) == []
    (tmp_path / "b 1.log").touch()
    (tmp_path / "a.log").touch()
    (tmp_path / "not there").touch()
    assert listed(source) == ["a.log", "b_1.log-d62da972d8c29bdf", "not_there-c4cf8ae9137c14bb"]


def test_paths_have_names_of_their_own(tmp_path):
    for folder in ("d1", "d2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.log").touch()
    (tmp_path / "d1_part.log").touch()
    names = listed(FileSource("s", [tmp_path / "**" / "*.log"]))
    assert len(set(names)) == 3
    assert sorted(name.rpartition("-")[0] or name for name in names) == ["d1_part.log", "d1_part.log", "d2_part.log"]
    assert listed(FileSource("s", [tmp_path / "**" / "*.log"])) == names
    paths = [tmp_path / folder / "part.log" for folder in ("d1", "d2")]
    with pytest.raises(InvalidSource, match=r"would both be the stream s/part\.log; use two sources, or set root to a folder"):
        FileSource("s", paths)
    assert set(listed(FileSource("s", paths, root=tmp_path))) < set(names)


def test_names_may_be_those_of_the_files_alone(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "f 1").touch()
    (tmp_path / "b" / "g").touch()
    assert listed(FileSource("s", [tmp_path / "*" / "*"], names=Names.BASE)) == ["f_1", "g"]
    (tmp_path / "b" / "f_1").touch()
    with pytest.raises(InvalidSource, match="would both be the stream s/f_1"):
        FileSource("s", [tmp_path / "*" / "*"], names=Names.BASE)


def test_a_file_that_two_patterns_match_is_one_stream(tmp_path):
    (tmp_path / "f").touch()
    assert listed(FileSource("s", [tmp_path / "f", tmp_path / "*"])) == ["f"]


# Rotation


LINES = [b"line %02d" % number for number in range(20)]


def write(path: Path, lines: list[bytes], mode: str = "wb") -> None:
    with path.open(mode) as file:
        file.write(b"".join(line + b"\n" for line in lines))


def rename(path: Path) -> None:
    path.rename(path.with_name(path.name + ".1"))


def date(path: Path) -> None:
    path.rename(path.with_name(path.name + "-20260131"))


def copy_and_cut(path: Path) -> None:
    path.with_name(path.name + ".1").write_bytes(path.read_bytes())
    os.truncate(path, 0)


def pack_away(path: Path) -> None:
    with gzip.open(path.with_name(path.name + ".1.gz"), "wb") as packed:
        packed.write(path.read_bytes())
    path.unlink()


def following(path: Path, **options) -> FileSource:
    return FileSource("s", [path], rotated_seconds=0, **options)


@pytest.mark.parametrize("rotate", [rename, date, copy_and_cut, pack_away])
def test_reading_goes_on_in_a_file_that_was_rotated_and_then_in_the_next(tmp_path, rotate):
    path = tmp_path / "app.log"
    write(path, LINES[:10])
    items = Items(following(path), "app.log")
    first = some(items, 10)
    items.close()
    write(path, LINES[10:12], "ab")
    rotate(path)
    write(path, LINES[12:], "ab")
    assert first + some(Items(following(path), "app.log", Position(sequence=80, cursor=items.last.cursor)), 10) == [
        (8 * (n + 1), line) for n, line in enumerate(LINES)
    ]


@pytest.mark.parametrize("rotate", [rename, date, copy_and_cut])
def test_rotation_while_a_file_is_followed(tmp_path, rotate):
    path = tmp_path / "app.log"
    write(path, LINES[:10])
    items = Items(following(path), "app.log")
    found = some(items, 10)
    assert next(items) is None
    write(path, LINES[10:12], "ab")
    rotate(path)
    write(path, LINES[12:], "ab")
    found += some(items, 10)
    assert found == [(8 * (n + 1), line) for n, line in enumerate(LINES)]


def test_a_followed_file_that_was_removed_is_gone(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES[:3])
    items = Items(FileSource("s", [path], rotated_seconds=0.0), "app.log")
    assert [value for _, value in some(items, 1)] == list(LINES[:3])
    path.rename(tmp_path / "app.log.1")
    assert next(items) is None, "it was rotated, and its place is empty"
    (tmp_path / "app.log.1").rename(path)
    with path.open("ab") as writer:
        with gzip.open(tmp_path / "app.log.1.gz", "wb") as packed:
            packed.write(path.read_bytes())
        path.unlink()
        assert next(items) is None, "it was packed"
        (tmp_path / "app.log.1.gz").unlink()
        writer.write(LINES[3] + b"\n")
    assert [value for _, value in records([next(items)])] == [LINES[3]], "who has it open wrote on"
    assert next(item for item in items if item is not None) is GONE
    assert list(items) == []


def test_a_followed_file_that_was_removed_is_not_gone_while_it_may_grow(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES[:3])
    items = Items(FileSource("s", [path], rotated_seconds=60.0), "app.log")
    some(items, 1)
    path.unlink()
    assert [next(items) for _ in range(2)] == [None, None]


def test_several_rotations_while_the_connector_is_away(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES[:5])
    items = Items(following(path), "app.log")
    position = after(items, 5)
    items.close()
    write(path, LINES[5:8], "ab")
    for number, lines in enumerate((LINES[8:10], [], LINES[10:15]), 1):
        for older in range(number, 1, -1):
            (tmp_path / f"app.log.{older - 1}").rename(tmp_path / f"app.log.{older}")
        rename(path)
        write(path, lines)
    with gzip.open(tmp_path / "app.log.3.gz", "wb") as packed:
        packed.write((tmp_path / "app.log.3").read_bytes())
    os.utime(tmp_path / "app.log.3.gz", ns=(0, (tmp_path / "app.log.3").stat().st_mtime_ns))
    (tmp_path / "app.log.3").unlink()
    found = some(Items(following(path), "app.log", position), 10)
    assert found == [(8 * (n + 1), line) for n, line in enumerate(LINES[:15])][5:]


def test_a_position_beyond_the_file_of_its_cursor_is_in_a_later_one(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES[:5])
    items = Items(following(path), "app.log")
    position = after(items, 5)
    items.close()
    write(path, LINES[5:8], "ab")
    rename(path)
    write(path, LINES[8:])
    found = some(Items(following(path), "app.log", Position(sequence=80, cursor=position.cursor)), 10)
    assert found == [(8 * (n + 1), line) for n, line in enumerate(LINES)][10:]


def test_a_line_without_end_in_a_rotated_file_is_a_message(tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntw")
    items = Items(following(path), "app.log")
    assert some(items, 1) == [(4, b"one")]
    rename(path)
    path.write_bytes(b"three\n")
    assert some(items, 2) == [(6, b"tw"), (12, b"three")]


def test_a_rotated_file_is_waited_for_as_long_as_it_grows(tmp_path):
    path = tmp_path / "app.log"
    with path.open("ab", buffering=0) as late:
        late.write(b"one\n")
        items = Items(FileSource("s", [path], rotated_seconds=1), "app.log")
        assert some(items, 1) == [(4, b"one")]
        rename(path)
        path.write_bytes(b"three\n")
        assert next(items) is None
        late.write(b"two\n")
    assert some(items, 2) == [(8, b"two"), (14, b"three")]


def test_another_file_of_the_same_name_is_not_taken_for_the_one_that_was_read(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES)
    items = Items(following(path), "app.log")
    position = after(items, 20)
    items.close()
    write(path, [line.upper() for line in LINES])
    with pytest.raises(PositionLost, match="is not the file that was read up to byte 160"):
        next(Items(following(path), "app.log", position))


def test_sequences_go_on_after_a_loss_that_is_accepted(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES)
    source = following(path)
    items = Items(source, "app.log")
    position = after(items, 20)
    items.close()
    write(path, [b"new"])
    with pytest.raises(PositionLost):
        next(Items(source, "app.log", position))
    assert some(Items(source, "app.log"), 1) == [(164, b"new")]


def test_rotated_files_that_match_are_read_first_and_are_no_streams_of_their_own(tmp_path):
    path = tmp_path / "app.log"
    for name, number in (("app.log.2.gz", 0), ("app.log.1", 5), ("app.log", 10), ("app.log.1.gz", 5), ("part.7", 15)):
        content = b"".join(line + b"\n" for line in LINES[number : number + 5])
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        os.utime(tmp_path / name, (number, number))
    source = FileSource("s", [tmp_path / "*"], follow=False)
    # part.7 may have been part, which a query that has read it tells.
    assert listed(source) == ["part", "app.log", "part.7"]
    assert [value for _, value in records(Items(source, "app.log"))] == LINES[:15]
    source = FileSource("s", [tmp_path / "app.log*"], follow=False, rotation=False)
    assert len(listed(source)) == 4
    assert [value for _, value in records(Items(source, "app.log"))] == LINES[10:15]
    assert path.exists()


def test_a_position_without_a_cursor_goes_on_if_a_line_ends_there(tmp_path):
    path = tmp_path / "app.log"
    write(path, LINES)
    assert some(Items(following(path), "app.log", Position(sequence=16)), 18)[0] == (24, LINES[2])
    with pytest.raises(PositionLost, match="no line ends at byte 17"):
        next(Items(following(path), "app.log", Position(sequence=17)))


# Records that cannot be taken


def test_a_line_that_is_far_too_long_may_be_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("headrace.connectors._records.MAX_RECORD_BYTES", 1_000_000)
    monkeypatch.setattr("headrace.connectors.file.splitter._LONG_LINE_BYTES", 500_000)
    (tmp_path / "f").write_bytes(b"a\n" + b"x" * 5_000_000 + b"\nb\n")
    with pytest.raises(BadRecord, match="byte 2 is larger than 1000000 bytes"):
        read(tmp_path / "f")
    options = {"follow": False, "bad_records": BadRecords.DEAD_LETTER, "dead_letters": tmp_path / "dead"}
    assert records(Items(FileSource("s", [tmp_path / "f"], **options), "f")) == [(2, b"a"), (5_000_005, b"b")]
    (letter,) = dead_letters(tmp_path / "dead")
    assert letter.message.value.startswith(b"xxx")
    assert (letter.sink, letter.stream) == ("s", "s/f")
    assert "byte 2 is larger" in letter.reason
    assert "skipped a record" in caplog.text


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
