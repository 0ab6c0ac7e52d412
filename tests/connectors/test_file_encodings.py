"""Files of lines in UTF-16 and UTF-32: what is sent is the text in UTF-8, wherever the file is cut, rotated or read on."""

import os
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.file_reading import Reading, values_of

from headrace.connectors import FileSource, Format
from headrace.connectors.file import Encoding
from headrace.connectors.file.options import Options
from headrace.connectors.file.reader import Reader
from headrace.sdk import InvalidSource, Position, PositionLost
from headrace.sdk.wire import pack

WIDE = [each for each in Encoding if each.unit > 1]
LONG = 1 << 20


def source(path: Path, **options) -> FileSource:
    return FileSource("s", [path], **{"rotated_seconds": 0.0, **options})


async def read(path: Path, count: int, positions: dict[str, Position] | None = None, **options) -> list[bytes]:
    """The values of a log, once there are that many."""
    reading = Reading(source(path, **options), positions)
    try:
        await reading.until(lambda reading: len(reading.values) >= count)
        return reading.values
    finally:
        await reading.stop()


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.behaviour(
    "file", "lines in UTF-16 or UTF-32, with a byte order mark", "sends them in UTF-8; positions are bytes of the file"
)
async def test_lines_of_a_marked_file_are_sent_in_utf_8(tmp_path, encoding):
    lines, positions = ["one", "", "z\u00fcrich \u4e0a\u0a00\u0a0a", "\U0001f600\r", "\ufefflast"], {}
    text = "\ufeff" + "".join(line + "\n" for line in lines)
    (tmp_path / "a").write_bytes(text.encode(encoding.value))
    assert await read(tmp_path / "a", len(lines), positions) == [line.encode() for line in lines]
    assert positions["a"].sequence == len(text.encode(encoding.value))
    with (tmp_path / "a").open("ab") as file:
        file.write("more\n".encode(encoding.value))
    assert await read(tmp_path / "a", 1, positions) == [b"more"]


@pytest.mark.parametrize("encoding", WIDE)
async def test_a_parameter_names_the_encoding_of_files_without_a_mark(tmp_path, encoding, caplog):
    (tmp_path / "a").write_bytes("\u0100ne\ntwo\n".encode(encoding.value))
    assert await read(tmp_path / "a", 2, encoding=encoding) == ["\u0100ne".encode(), b"two"]
    other = Encoding.UTF_16_BE if encoding is Encoding.UTF_16_LE else Encoding.UTF_16_LE
    (tmp_path / "b").write_bytes("\ufeffmarked\n".encode(other.value))
    assert await read(tmp_path / "b", 1, encoding=encoding) == [b"marked"]
    (tmp_path / "c").write_bytes(b"\xef\xbb\xbfmarked\n")
    assert await read(tmp_path / "c", 1, encoding=encoding) == [b"marked"]
    assert "looks like" not in caplog.text


@pytest.mark.behaviour("file", "lines in UTF-16 without a byte order mark", "sends their bytes, and asks for `encoding`")
@pytest.mark.parametrize("encoding", [Encoding.UTF_16_LE, Encoding.UTF_16_BE])
async def test_what_looks_like_utf_16_is_named_in_the_log(tmp_path, encoding, caplog):
    (tmp_path / "a").write_bytes("first line\nsecond\n".encode(encoding.value))
    await read(tmp_path / "a", 2)
    assert f"{tmp_path}/a has no byte order mark, and looks like UTF-16: if it is, set encoding" in caplog.text


async def test_bytes_have_no_mark(tmp_path):
    for encoding in (*WIDE, Encoding.UTF_8):
        data = encoding.byte_order_mark.lstrip(b"\0") + b"a"
        (tmp_path / encoding.value).write_bytes(data + b"\nb\n")
        assert await read(tmp_path / encoding.value, 2, encoding=Encoding.BYTES) == [data, b"b"]


@pytest.mark.behaviour("file", "a line that is not valid in UTF-16 or UTF-32", "leaves it to `bad_records`")
async def test_a_line_that_is_no_text_cannot_be_sent(tmp_path):
    text = "\ufeff" + "".join(f"{n}\n" if n % 3 else f"{n} \ud800 \n" for n in range(3000))
    (tmp_path / "a").write_bytes(text.encode("utf-16-le", "surrogatepass") + b"12\x00")
    files = source(tmp_path / "a", bad_records="skip", follow=False)
    policy = files.bad_records
    policy.what = type(policy.what)("skip")
    reading = Reading(files)
    await reading.until(lambda reading: len(reading.values) == 2000)
    await reading.until(lambda _: policy.total == 1001)
    await reading.stop()
    assert reading.values == [b"%d" % n for n in range(3000) if n % 3]
    failing = Reading(source(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"/a: the line at byte 2 is not in utf-16-le: .*; repair the file, or set bad_records"):
        await failing.until(lambda _: False)
    await failing.stop()


async def test_a_long_line_is_joined_and_a_longer_one_is_left_out(tmp_path, monkeypatch):
    for module in ("_encoding", "splitter"):
        monkeypatch.setattr(f"headrace.connectors.file.{module}.MAX_RECORD_BYTES", LONG)
    with (tmp_path / "a").open("wb") as file:
        file.write("\ufeffone\n".encode("utf-16-be"))
        file.write("\u0a00\u0a0a".encode("utf-16-be") * (LONG // 8) + "\n".encode("utf-16-be"))
        file.write("xx".encode("utf-16-be") * LONG + "\nafter\n".encode("utf-16-be"))
    files = source(tmp_path / "a")
    files.bad_records.what = type(files.bad_records.what)("skip")
    reading = Reading(files)
    await reading.has(b"one", b"after")
    await reading.stop()
    assert [len(value) for value in reading.values] == [3, LONG // 8 * 6, 5]
    assert files.bad_records.total == 1


@pytest.mark.behaviour("file", "a position within a UTF-16 character, after a move", "loses the position, with the reason")
async def test_a_position_within_a_character_is_lost(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffone\ntwo\n".encode("utf-16-le"))
    with pytest.raises(PositionLost, match=r"byte 9 of .*/a lies within a character of utf-16-le"):
        await read(tmp_path / "a", 1, {"a": Position(sequence=9)})


def test_only_lines_have_an_encoding(tmp_path):
    with pytest.raises(InvalidSource, match="encoding utf-16-le has no effect: only files in lines format have an encoding"):
        FileSource("s", [tmp_path / "a"], Format.LENGTH_PREFIXED, encoding=Encoding.UTF_16_LE)


@pytest.mark.parametrize("marks", [True, False])
async def test_a_removed_file_that_may_be_read_again_is_recognised_in_any_encoding(tmp_path, marks):
    mark = "\ufeff" if marks else ""
    log = tmp_path / "a"
    log.write_bytes((mark + "one\ntwo\nthree\n").encode("utf-16-le"))
    reading = Reading(source(log, encoding=Encoding.UTF_16_LE))
    await reading.has(b"three")
    log.unlink()
    (tmp_path / "new").write_bytes((mark + "two\nthree\nfour\n").encode("utf-16-le"))
    (tmp_path / "new").rename(log)
    with pytest.raises(PositionLost, match="its first line is in that one, too"):
        await reading.has(b"four")
    await reading.stop()


# Any text, any cut


LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.sampled_from(["rename", "copy and truncate", "copy and hole"]), st.just(0)),
    ),
    max_size=30,
)


class Log:
    """A log, what was written to it, and what was read of it."""

    def __init__(self, path: Path, encoding: Encoding, lines: list[str]) -> None:
        self.path, self.encoding = path, encoding
        self.mark = "\ufeff".encode(encoding.value)
        self.left = [(line + "\n").encode(encoding.value) for line in lines]
        self.ends: list[int] = []
        self.rotations = 0
        self.written = self.before = 0
        self.cut = b""
        self.values: list[bytes] = []
        self.sequences: list[int] = []
        self.position: Position | None = None
        path.unlink(missing_ok=True)
        self.begin(self.mark)
        self.start()

    def begin(self, data: bytes, hole: int = 0) -> None:
        """Begins a file."""
        with self.path.open("ab") as file:
            file.truncate(hole)
            file.write(data)
        self.before += self.written
        self.written = hole + len(data)

    def write(self, count: int) -> None:
        """Writes the next bytes, cut anywhere."""
        while count and (self.cut or self.left):
            self.cut = self.cut or self.left.pop(0)
            data, self.cut = self.cut[:count], self.cut[count:]
            count -= len(data)
            with self.path.open("ab") as file:
                file.write(data)
            self.written += len(data)
            if not self.cut:
                self.ends.append(self.before + self.written)

    def rotate(self, how: str) -> None:
        """Begins another file; its first line is there at once, if it has no mark."""
        self.write(len(self.cut))
        self.read()
        if self.position is None:
            return  # only a position tells that a rotated file is not new
        self.rotations += 1
        to = self.path.with_name(f"{self.path.name}-{20260000 + self.rotations}")
        if how == "rename":
            self.path.rename(to)
            self.begin(self.mark)
        elif self.left:
            to.write_bytes(self.path.read_bytes())
            os.truncate(self.path, 0)
            self.begin(self.left.pop(0), 4 * self.rotations if how == "copy and hole" else 0)
            self.ends.append(self.before + self.written)

    def start(self) -> None:
        options = Options(Format.LINES, follow=True, rotation=True, rotated_seconds=0.0, bad_record=self.bad)
        self.items = Reader(self.path, [], self.position, 0, options).items()

    def bad(self, message, error) -> None:
        raise error

    def read(self) -> None:
        """Reads what there is."""
        while (batch := next(self.items)) is not None:
            self.values += values_of(batch)
            sequences = [int(each) for each in pack([batch], 1, None).sequences]
            self.sequences += sequences
            self.position = Position(sequence=sequences[-1], cursor=batch.cursor)

    def restart(self) -> None:
        self.items.close()
        self.start()


@given(st.sampled_from(WIDE), st.lists(LINE, max_size=25), STEPS)
def test_any_text_cut_anywhere_is_read_as_written(tmp_path_factory, encoding, lines, steps):
    # Zeros at the beginning of a file are a hole, and files with the same lines cannot be told apart.
    lines = [f"{line}{number}".lstrip("\0") for number, line in enumerate(lines)]
    log = Log(tmp_path_factory.mktemp("log") / "app.log", encoding, lines)
    for what, count in steps:
        match what:
            case "write":
                log.write(count)
                log.read()
            case "restart":
                log.restart()
            case _:
                log.rotate(what)
    log.write(1 << 20)
    log.read()
    log.items.close()
    assert (log.values, log.sequences) == ([line.encode() for line in lines], log.ends)


@given(st.sampled_from(WIDE), st.lists(LINE, min_size=1, max_size=25), st.data())
def test_reading_may_begin_at_any_record(tmp_path_factory, encoding, lines, data):
    path = tmp_path_factory.getbasetemp() / "any.log"
    lines[0] = lines[0].lstrip("\0")
    encoded = [(line + "\n").encode(encoding.value) for line in lines]
    path.write_bytes("\ufeff".encode(encoding.value) + b"".join(encoded))
    ends = list(accumulate(map(len, encoded), initial=encoding.unit))[1:]
    after = data.draw(st.integers(1, len(lines)))
    options = Options(Format.LINES, follow=True, rotation=True, rotated_seconds=0.0, bad_record=lambda *_: None)
    reader = Reader(path, [], Position(sequence=ends[after - 1]), 0, options)
    found: list[bytes] = []
    for batch in reader.items():
        if batch is None:
            break
        found += values_of(batch)
    reader.close()
    assert found == [line.encode() for line in lines[after:]]
