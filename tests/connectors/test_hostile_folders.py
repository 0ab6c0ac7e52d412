"""The file source in a folder with anything in it: each regular file is read once, and no entry stops the others."""

import asyncio
import bz2
import gzip
import lzma
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.connectors.file_reading import Reading

from headrace.connectors import FileSource, Format
from headrace.connectors.file import Names
from headrace.sdk import InvalidSource, PositionLost


def source(*patterns: Path | str, **options) -> FileSource:
    return FileSource("s", patterns, **{"rotated_seconds": 0.0, **options})


@asynccontextmanager
async def reading(*patterns: Path | str, positions=None, **options):
    """Reads, and ends all reading at the end."""
    found = Reading(source(*patterns, **options), positions)
    try:
        yield found
    finally:
        await found.stop()


def a_socket(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


ODD = {
    "a named pipe": os.mkfifo,
    "a socket": a_socket,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("kind", ODD)
async def test_what_is_no_regular_file_is_left_out_and_named(tmp_path, caplog, kind):
    kept = ODD[kind](tmp_path / "odd")
    (tmp_path / "a").write_bytes(b"a1\n")
    async with reading(tmp_path / "*") as found:
        await found.has(b"a1")
        with (tmp_path / "a").open("ab") as file:
            file.write(b"a2\n")
        (tmp_path / "b").write_bytes(b"b1\n")
        await found.has(b"a2", b"b1")
        assert sorted(found.values) == [b"a1", b"a2", b"b1"]
    named = [record.getMessage() for record in caplog.records if "/odd" in record.getMessage()]
    assert len(named) == (0 if kind == "a folder" else 1)
    del kept


async def test_a_file_that_becomes_a_pipe_stops_nothing(tmp_path):
    (tmp_path / "a").write_bytes(b"a1\n")
    (tmp_path / "b").write_bytes(b"b1\n")
    async with reading(tmp_path / "*") as found:
        await found.has(b"a1", b"b1")
        (tmp_path / "a").unlink()
        os.mkfifo(tmp_path / "a")
        with (tmp_path / "b").open("ab") as file:
            file.write(b"b2\n")
        await found.has(b"b2")


async def test_a_file_of_several_names_is_read_once(tmp_path):
    (tmp_path / "b").write_bytes(b"b1\n")
    os.link(tmp_path / "b", tmp_path / "c")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "app-2026-02-01.log").write_bytes(b"app2\n")
    (tmp_path / "app-2026-01-31.log").write_bytes(b"app1\n")
    (tmp_path / "app.log").symlink_to("app-2026-02-01.log")
    (tmp_path / "x.log").write_bytes(b"x2\n")
    (tmp_path / "x.log.1").write_bytes(b"x1\n")
    (tmp_path / "old.log").symlink_to("x.log.1")
    (tmp_path / "loop").symlink_to(tmp_path)
    async with reading(tmp_path / "**" / "*") as found:
        await found.has(b"b1", b"app1", b"app2", b"x1", b"x2")
        await found.looks()
        assert {name: values for name, values in found.found.items() if values} == {
            "b": [b"b1"],
            "app.log": [b"app1", b"app2"],
            "x.log": [b"x1", b"x2"],
        }


@pytest.mark.behaviour("file", "a link that is moved to the next file", "reads the rest of the one before, then the next")
async def test_a_link_that_moves_on_is_followed(tmp_path):
    (tmp_path / "logs").mkdir()
    for day in range(1, 4):
        (tmp_path / "logs" / f"app-2026-01-0{day}.log").write_bytes(b"%d first\n" % day)
    link = tmp_path / "app.log"
    link.symlink_to("logs/app-2026-01-02.log")
    positions = {}

    def move(day: int) -> None:
        (tmp_path / "new").symlink_to(f"logs/app-2026-01-0{day}.log")
        (tmp_path / "new").replace(link)

    async with reading(link, positions=positions) as found:
        await found.has(b"2 first")
        with (tmp_path / "logs" / "app-2026-01-02.log").open("ab") as file:
            file.write(b"2 rest\n")
        move(3)
        await found.has(b"3 first")
        assert found.values == [b"2 first", b"2 rest", b"3 first"]
    (tmp_path / "logs" / "app-2026-01-04.log").write_bytes(b"4 first\n")
    (tmp_path / "logs" / "app-2026-01-05.log").write_bytes(b"5 first\n")
    with (tmp_path / "logs" / "app-2026-01-03.log").open("ab") as file:
        file.write(b"3 rest\n")
    move(5)
    async with reading(link, positions=positions) as found:
        await found.has(b"5 first")
        assert found.values == [b"3 rest", b"4 first", b"5 first"]


@pytest.mark.parametrize("name", [b"caf\xe9.log", b"new\nline.log", b"\xff\xfe", "\u00fc".encode(), b"x" * 255])
async def test_any_name_is_read(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"a1\n")
    positions = {}
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"a1")
    path.write_bytes(b"other, and longer\n")
    with pytest.raises(PositionLost) as lost:
        async with reading(tmp_path / "*", positions=positions) as found:
            await found.has(b"other, and longer")
    str(lost.value).encode()


async def test_files_that_come_and_go_lose_no_position(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a1\n")
    async with reading(tmp_path / "*.txt") as found:
        for number in range(300):
            path = tmp_path / f"t{number % 7}.txt"
            path.write_bytes(b"%d\n" % number)
            await found.looks(2)
            path.unlink()
        with (tmp_path / "a.txt").open("ab") as file:
            file.write(b"a2\n")
        await found.has(b"a2")
        assert len(found.values) == len(set(found.values))


@pytest.mark.behaviour("file", "a file that is renamed while it is read, to no rotation of its own", "continues in its stream")
async def test_a_file_that_gets_another_name_is_not_read_again(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a1\n")
    async with reading(tmp_path / "*.txt") as found:
        await found.has(b"a1")
        (tmp_path / "a.txt").rename(tmp_path / "b.txt")
        with (tmp_path / "b.txt").open("ab") as file:
            file.write(b"a2\n")
        await found.has(b"a2")
        (tmp_path / "a.txt").write_bytes(b"a3\n")
        await found.has(b"a3")
        await found.looks()
        assert found.values == [b"a1", b"a2", b"a3"]


@pytest.mark.behaviour("file", "logs whose names are swapped while they are read", "reads each on in its stream")
async def test_logs_whose_names_are_swapped_while_they_are_read_are_read_on(tmp_path):
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_bytes(b"a1\n")
    second.write_bytes(b"b1\n")
    async with reading(tmp_path / "*") as found:
        await found.has(b"a1", b"b1")
        os.rename(first, tmp_path / ".swapped")
        os.rename(second, first)
        os.rename(tmp_path / ".swapped", second)
        for path, value in ((second, b"a2\n"), (first, b"b2\n")):
            with path.open("ab") as file:
                file.write(value)
        await found.has(b"a2", b"b2")
        await found.looks()
        assert found.found == {"a.log": [b"a1", b"a2"], "b.log": [b"b1", b"b2"]}


CAPABILITIES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()

UNREADABLE = """
import asyncio, os, sys
from pathlib import Path
from tests.connectors.file_reading import Reading
from headrace.connectors import FileSource
folder = Path(sys.argv[1])

async def main():
    reading = Reading(FileSource("s", [folder / "*.txt", folder / "*" / "x.log"]))
    await reading.has(b"a1", b"open")
    assert sorted(reading.values) == [b"a1", b"open"], reading.values
    (folder / "b.txt").chmod(0o644)
    (folder / "secret").chmod(0o755)
    await reading.has(b"b1", b"secret")
    await reading.stop()

asyncio.run(main())
"""


async def test_what_may_not_be_read_is_read_once_it_may(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a1\n")
    (tmp_path / "b.txt").write_bytes(b"b1\n")
    for name in ("open", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").write_text(f"{name}\n")
    (tmp_path / "b.txt").chmod(0)
    (tmp_path / "secret").chmod(0)
    command = [*CAPABILITIES, sys.executable, "-c", UNREADABLE, str(tmp_path)]
    run = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("b.txt: this user may not read it") == 1
    assert run.stderr.count("secret") == 1


async def test_a_file_that_fails_to_be_read_stops_no_other(tmp_path, monkeypatch, caplog):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() + b"1\n")
    fails = {os.stat(tmp_path / "a").st_ino}
    pread = os.pread

    def read(descriptor: int, *args: int) -> bytes:
        if os.fstat(descriptor).st_ino in fails:
            raise OSError(5, "Input/output error")
        return pread(descriptor, *args)

    async with reading(tmp_path / "*") as found:
        await found.has(b"a1", b"b1")
        monkeypatch.setattr(os, "pread", read)
        for name in "ab":
            with (tmp_path / name).open("ab") as file:
                file.write(name.encode() + b"2\n")
        await found.has(b"b2")
        await found.until(lambda _: "cannot read" in caplog.text)
        fails.clear()
        await found.has(b"a2")
        assert sorted(found.values) == [b"a1", b"a2", b"b1", b"b2"]
    assert caplog.text.count("cannot read") == 1


PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    ".lz4": lambda data: pa.Codec("lz4").compress(data, asbytes=True),
}


@pytest.mark.parametrize(("suffix", "pack"), PACK.items())
async def test_compressed_files_are_parts_of_the_log(tmp_path, suffix, pack):
    log, positions = tmp_path / "app.log", {}
    lines = [b"".join(b"%d line %d\n" % (part, n) for n in range(2000)) for part in range(3)]
    log.write_bytes(lines[0][:100])
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.until(lambda reading: reading.values)
        first = found.values
    log.unlink()
    (tmp_path / f"app.log.2{suffix}").write_bytes(pack(lines[0]))
    (tmp_path / f"app.log.1{suffix}").write_bytes(pack(lines[1][:5000]) + pack(lines[1][5000:]))
    log.write_bytes(lines[2])
    os.utime(tmp_path / f"app.log.2{suffix}")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.until(lambda reading: len(reading.values) >= 6000 - len(first))
        assert b"".join(value + b"\n" for value in [*first, *found.values]) == b"".join(lines)


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".zst"])
async def test_a_compressed_file_that_is_still_written_is_waited_for(tmp_path, suffix):
    pack = {".bz2": bz2.compress, ".xz": lzma.compress, ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}[
        suffix
    ]
    packed = pack(b"".join(b"%d\n" % n for n in range(10_000)))
    (tmp_path / f"app.log{suffix}").write_bytes(packed[: len(packed) // 2])
    async with reading(tmp_path / "*", rotated_seconds=3600.0) as found:
        await found.until(lambda reading: reading.yielded)
        with (tmp_path / f"app.log{suffix}").open("ab") as file:
            file.write(packed[len(packed) // 2 :])
        await found.until(lambda reading: len(reading.values) >= 10_000)
        assert found.values == [b"%d" % n for n in range(10_000)]


async def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    async with reading(tmp_path / "*") as found:
        await found.has(b"one")
        assert found.values == [b"one", b"\xef\xbb\xbftwo"]


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.behaviour(
    "file",
    "`copytruncate` under a writer that does not append, which leaves zeros at the beginning",
    "reads the rest from the copy, skips the zeros, and warns",
)
async def test_a_hole_of_zeros_is_skipped(tmp_path, away, caplog):
    log, positions = tmp_path / "app.log", {}
    with log.open("wb", buffering=0) as writer:
        writer.write(b"".join(b"first %d\n" % n for n in range(1000)))
        async with reading(log, positions=positions) as found:
            await found.has(b"first 999")
            first = found.values
            if away:
                await found.stop()
            writer.write(b"rest\n")
            (tmp_path / "app.log.1").write_bytes(log.read_bytes())
            os.truncate(log, 0)
            writer.write(b"second\n")
            assert log.read_bytes().startswith(b"\0")
            if not away:
                await found.has(b"second")
        if away:
            async with reading(log, positions=positions) as later:
                await later.has(b"second")
                assert [*first, *later.values][1000:] == [b"rest", b"second"]
        else:
            assert found.values[1000:] == [b"rest", b"second"]
    assert "zero bytes at the beginning" in caplog.text


@pytest.mark.behaviour("file", "a file that is overwritten in place, with the same first kilobyte", "loses the position")
async def test_a_file_that_is_overwritten_with_the_same_beginning_has_lost_its_position(tmp_path):
    head = b"#" * 2000 + b"\n"
    log = tmp_path / "app.log"
    log.write_bytes(head + b"one\ntwo\n")
    async with reading(log) as found:
        await found.has(b"two")
        with log.open("r+b", buffering=0) as file:
            file.write(head + b"uno\ndue\ntre\n")
        with pytest.raises(PositionLost, match="or overwritten"):
            await found.has(b"tre")


@pytest.mark.behaviour("file", "two new files, either of which may be next", "loses the position, and names both")
async def test_an_order_that_cannot_be_told_is_a_lost_position(tmp_path):
    log, positions = tmp_path / "app.log", {}
    log.write_bytes(b"one\n")
    async with reading(log, positions=positions) as found:
        await found.has(b"one")
    log.rename(tmp_path / "app.log.2")
    (tmp_path / "app.log.1").write_bytes(b"newer\n")
    (tmp_path / "app.log.3").write_bytes(b"or this\n")
    log.write_bytes(b"last\n")
    async with reading(log, positions=positions) as found:
        with pytest.raises(PositionLost, match=r"is unknown.*app\.log\.3, app\.log\.2, app\.log\.1"):
            await found.has(b"last")


async def test_numbers_that_count_up_are_known_by_what_was_read(tmp_path):
    log, positions, expected = tmp_path / "app.log", {}, []
    for number in range(1, 12):
        log.write_bytes(b"%d a\n" % number)
        if number % 3:
            async with reading(log, positions=positions) as found:
                await found.has(b"%d a" % number)
                expected += found.values
        with log.open("ab") as file:
            file.write(b"%d b\n" % number)
        log.rename(tmp_path / f"app-{number}.log")
    log.write_bytes(b"end\n")
    async with reading(log, positions=positions) as found:
        await found.has(b"end")
        expected += found.values
    assert expected == [b"%d %s" % (number, part) for number in range(1, 12) for part in (b"a", b"b")] + [b"end"]


@pytest.mark.parametrize("counts_up", [False, True])
async def test_where_nothing_was_read_times_may_tell_that_numbers_count_up(tmp_path, counts_up):
    for number in range(1, 4):
        path = tmp_path / f"app-{number}.log"
        path.write_bytes(b"%d\n" % number)
        os.utime(path, (number, number) if counts_up else (10 - number, 10 - number))
    (tmp_path / "app.log").write_bytes(b"end\n")
    async with reading(tmp_path / "*") as found:
        await found.has(b"end", b"1", b"2", b"3")
        assert found.values == [*([b"1", b"2", b"3"] if counts_up else [b"3", b"2", b"1"]), b"end"]


async def test_a_name_that_is_taken_while_it_runs_is_left_out(tmp_path, caplog):
    for folder in "ab":
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "x").write_bytes(b"a1\n")
    async with reading(tmp_path / "*" / "x", names=Names.BASE) as found:
        await found.has(b"a1")
        (tmp_path / "b" / "x").write_bytes(b"b1\n")
        await found.until(lambda _: "would both be the stream s/x" in caplog.text)
        assert found.values == [b"a1"]


def test_a_file_that_may_not_be_read_is_named_where_there_is_no_other(tmp_path):
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(InvalidSource, match=r"no such file: .*/a: it is a link to nothing"):
        FileSource("s", [tmp_path / "a"], follow=False)


async def test_length_prefixed_records_may_begin_with_zeros(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\0\0\0\0\0\x02ab")
    async with reading(tmp_path / "a", format=Format.LENGTH_PREFIXED) as found:
        await found.has(b"ab")
        assert found.values == [b"", b"ab"]
