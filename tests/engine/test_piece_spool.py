"""Pieces of states before their file is written: as in a dict, with little in memory."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.applications.states import piece_spool
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.piece_spool import PieceSpool
from headrace.engine.checkpoint.state_files import LocalFiles

MEBIBYTE = 2**20


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_spool, "MEMORY_BYTES", 5)


@pytest.mark.usefixtures("little_memory")
@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.binary(max_size=4))))
def test_pieces_are_what_was_put(turns: list[tuple[int, bytes | None]]) -> None:
    spool, model = PieceSpool(), dict[int, bytes]()
    for number, piece in turns:
        if piece is None:
            spool.drop(number)
        else:
            spool.put(number, piece)
        model.pop(number, None)
        if piece is not None:
            model[number] = piece
        assert {each: spool.get(each) for each in spool} == model
        assert [number in spool for number in range(5)] == [number in model for number in range(5)]


@pytest.mark.usefixtures("little_memory")
def test_a_file_of_a_bucket_is_the_same_with_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(tmp_path)
    entries = []
    for memory in (5, 10**9):
        monkeypatch.setattr(piece_spool, "MEMORY_BYTES", memory)
        store = BucketFiles(files, (1, memory), None)
        for number in range(20):
            store.segments.write(number, b"%d" % number * number)
            store.changes.write(number, b"change")
        store.segments.write(3, b"again")
        store.changes.drop([4, 5])
        store.write_head(b"head")
        assert store.segments.read(19) == b"19" * 19
        entries.append(store.finish(0))
    small, large = ((tmp_path / entry.file).read_bytes()[: entry.offset] for entry in entries)
    assert small == large
    again = BucketFiles(files, (1, 5), entries[0])
    assert (again.segments.read(3), again.segments.read(19), again.changes.read(7)) == (b"again", b"19" * 19, b"change")


def test_a_snapshot_of_any_size_takes_a_fixed_amount_of_memory(tmp_path: Path) -> None:
    store = BucketFiles(LocalFiles(tmp_path), (1, 0), None)
    tracemalloc.start()
    try:
        for number in range(64):
            store.segments.write(number, bytes([number]) * MEBIBYTE)
        store.write_head(b"head")
        entry = store.finish(0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < piece_spool.MEMORY_BYTES + 6 * MEBIBYTE
    assert (tmp_path / entry.file).stat().st_size > 64 * MEBIBYTE
    assert BucketFiles(LocalFiles(tmp_path), (1, 0), entry).segments.read(63) == b"\x3f" * MEBIBYTE
