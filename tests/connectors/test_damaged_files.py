"""What is damaged in a file is one record that cannot be taken: what is before and after it arrives once."""

import asyncio
import gzip
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connectors.rabbitmq.rig import Query, serving, values
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors import FileSource, Format, dead_letters
from headrace.connectors.file import FILE, FileParameters
from headrace.connectors.file.gzip import Gzip
from headrace.connectors.file.unpacked import Damaged
from headrace.sdk import SourceFailed, serve


def lines(*bounds: int) -> list[bytes]:
    return [b"line %03d" % number for number in range(*bounds)]


def text(some: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in some)


def packed(readable: bytes, rest: bytes) -> bytes:
    """A member of which a part can be unpacked, and not what follows: a block begins there that is of no type."""
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(readable) + packer.flush(zlib.Z_FULL_FLUSH)
    following = packer.compress(rest) + packer.flush()
    return data + b"\x07" + following[1:]


def rotated(folder: Path) -> Path:
    """A log that was rotated twice. Of the file in the middle the lines 20 to 29 can be read, and some of the next one."""
    path = folder / "app.log"
    contents = {
        "app.log.2.gz": gzip.compress(text(lines(0, 20))),
        "app.log.1.gz": packed(text(lines(20, 30)) + b"line 0", text(lines(31, 2000))),
        "app.log": text(lines(2000, 2020)),
    }
    for age, (name, content) in enumerate(contents.items()):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1_000_000 + age, 1_000_000 + age))
    return path


def source(path: Path, policy: str, tmp_path: Path, format_: Format = Format.LINES) -> FileSource:
    """Reads a file, and keeps what cannot be taken in the folder `dead`."""
    folder = tmp_path / "dead" if policy == "dead-letter" else None
    options = {"bad_records": policy, "dead_letters": folder, "rotated_seconds": 0.1, "format": format_}
    return FILE.build(FileParameters(source="s", path=(f"{path}*",), **options))


@pytest.fixture
async def address():
    async with gateway_serving() as (_, address):
        yield address


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_a_damaged_packed_file_is_read_up_to_there_and_then_the_next_one(tmp_path, address, policy, caplog):
    (tmp_path / "logs").mkdir()
    path = rotated(tmp_path / "logs")
    expected = [*lines(0, 30), *lines(2000, 2020)]
    reader = Query(address)
    reading = source(path, policy, tmp_path)
    async with serving(reading, address, "s"):
        assert values(await reader.read(len(expected))) == expected
        assert reading.bad_records.total == 1
    where = f"{path}.1.gz is damaged after decompressed byte 96"
    assert "skipped a record (1 since the last such line, 1 in total" in caplog.text
    assert where in caplog.text
    if policy == "dead-letter":
        (letter,) = dead_letters(tmp_path / "dead")
        assert (letter.message.value, letter.stream, letter.sequence) == (b"line 0", "s/app.log", 180 + 96)
        assert dict(letter.message.headers) == {"file-path": os.fsencode(f"{path}.1.gz"), "file-offset": b"90"}
        assert where in letter.reason
    # It lies before the position, so that who begins anew does not meet it again.
    with path.open("ab") as file:
        file.write(text(lines(2020, 2025)))
    again = source(path, policy, tmp_path)
    async with serving(again, address, "s"):
        assert values(await reader.read(len(expected) + 5)) == [*expected, *lines(2020, 2025)]
        assert again.bad_records.total == 0
    await reader.close()


async def test_a_damaged_packed_file_ends_the_connector_where_nothing_else_is_said(tmp_path, address):
    (tmp_path / "logs").mkdir()
    path = rotated(tmp_path / "logs")
    reader = Query(address)
    task = asyncio.create_task(serve(source(path, "fail", tmp_path), gateway=address))
    assert values(await reader.read(30)) == lines(0, 30)
    what = r"app\.log\.1\.gz is damaged after decompressed byte 96 .* from byte 90 on .*; repair the file, or set bad_records"
    with pytest.raises(SourceFailed, match=what):
        await asyncio.wait_for(task, 120)
    await reader.close()


async def test_a_packed_file_that_is_still_written_is_not_damaged(tmp_path, address):
    """Whether it is, is known once it has not grown for `rotated_seconds`."""
    whole = gzip.compress(text(lines(0, 500)))
    path = tmp_path / "a.gz"
    path.write_bytes(whole[:300])
    reader = Query(address)
    reading = FileSource("s", [path], rotated_seconds=3600.0)
    async with serving(reading, address, "s"):
        found = await reader.read(1)
        assert len(found) < 500
        with path.open("ab") as file:
            file.write(whole[300:])
        assert values(await reader.read(500)) == lines(0, 500)
        assert reading.bad_records.total == 0
    await reader.close()


async def test_a_packed_file_that_ends_too_early_is_damaged(tmp_path, address):
    packer = zlib.compressobj(wbits=31)
    begun = packer.compress(text(lines(0, 10))) + packer.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "app.log.1.gz").write_bytes(begun)
    os.utime(tmp_path / "app.log.1.gz", (1_000_000, 1_000_000))
    (tmp_path / "app.log").write_bytes(text(lines(10, 20)))
    reader = Query(address)
    reading = source(tmp_path / "app.log", "skip", tmp_path)
    async with serving(reading, address, "s"):
        assert values(await reader.read(20)) == lines(0, 20)
        assert reading.bad_records.total == 1
    await reader.close()


def prefixed(*some: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(value)) + value for value in some)


HUGE = (64 << 20) + 5


def with_huge(path: Path) -> None:
    """A file with a record that claims more bytes than are taken, and contains them, between others."""
    path.write_bytes(prefixed(b"one", b"two") + struct.pack(">I", HUGE))
    os.truncate(path, 14 + 4 + HUGE)
    with path.open("ab") as file:
        file.write(prefixed(b"three", b"four"))


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
async def test_a_record_that_claims_too_much_is_left_out_as_far_as_it_claims(tmp_path, address, policy, caplog):
    path = tmp_path / "f"
    with_huge(path)
    reader = Query(address)
    reading = source(path, policy, tmp_path, Format.LENGTH_PREFIXED)
    async with serving(reading, address, "s"):
        messages = await reader.read(4)
        assert values(messages) == [b"one", b"two", b"three", b"four"]
        end = 14 + 4 + HUGE
        assert [message.sequence for message in messages] == [7, 14, end + 9, end + 17]
        assert reading.bad_records.total == 1
    what = f"{path}: the record at byte 14 announces {HUGE} bytes, more than {64 << 20}; it ends at byte {end}"
    assert what in caplog.text
    if policy == "dead-letter":
        (letter,) = dead_letters(tmp_path / "dead")
        assert letter.message.value.startswith(struct.pack(">I", HUGE))
        assert what in letter.reason
    with path.open("ab") as file:
        file.write(prefixed(b"five"))
    again = source(path, policy, tmp_path, Format.LENGTH_PREFIXED)
    async with serving(again, address, "s"):
        assert values(await reader.read(5))[4:] == [b"five"]
        assert again.bad_records.total == 0
    await reader.close()


async def test_a_record_that_claims_too_much_ends_the_connector_where_nothing_else_is_said(tmp_path, address):
    with_huge(tmp_path / "f")
    reader = Query(address)
    task = asyncio.create_task(serve(source(tmp_path / "f", "fail", tmp_path, Format.LENGTH_PREFIXED), gateway=address))
    assert values(await reader.read(2)) == [b"one", b"two"]
    with pytest.raises(
        SourceFailed, match=rf"/f: the record at byte 14 announces {HUGE} bytes.*; repair the file, or set bad_records"
    ):
        await asyncio.wait_for(task, 120)
    await reader.close()


# What unpacks


CONTENTS = st.lists(st.binary(max_size=2000).map(lambda part: part * 20), max_size=4)


def unpacked(path: Path, size: int) -> tuple[bytes, Damaged | None]:
    """What can be read, so much at a time, and what ends it."""
    found = []
    with Gzip(open(path, "rb", buffering=0)) as file:
        try:
            while piece := file.read(size):
                found.append(piece)
        except Damaged as damage:
            return b"".join(found), damage
    return b"".join(found), None


@given(CONTENTS, st.integers(1, 5000), st.integers(0, 3))
def test_a_sound_file_is_unpacked_as_by_gzip(tmp_path_factory, contents, size, padding):
    path = tmp_path_factory.getbasetemp() / "sound.gz"
    path.write_bytes(b"".join(gzip.compress(part) for part in contents) + b"\0" * (padding if contents else 0))
    whole = b"".join(contents)
    assert unpacked(path, size) == (whole, None)
    with Gzip(open(path, "rb", buffering=0)) as file:
        for at in (len(whole) // 2, 0, len(whole)):
            assert file.seek(at) == file.tell() == at
            assert file.read() == whole[at:]


@given(CONTENTS.filter(any), st.data())
def test_of_a_file_that_ends_too_early_what_is_there_is_unpacked(tmp_path_factory, contents, data):
    path = tmp_path_factory.getbasetemp() / "short.gz"
    whole = b"".join(gzip.compress(part) for part in contents)
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    found, damage = unpacked(path, 1000)
    assert b"".join(contents).startswith(found)
    assert damage is None or damage.cut_short
    assert unpacked(path, 77)[0] == found


@given(CONTENTS.filter(any), st.data())
def test_any_byte_that_is_another_is_noticed(tmp_path_factory, contents, data):
    path = tmp_path_factory.getbasetemp() / "damaged.gz"
    whole = bytearray(b"".join(gzip.compress(part) for part in contents))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    found, damage = unpacked(path, 1000)
    assert damage is not None or found == b"".join(contents)
    assert unpacked(path, 77)[0] == found
