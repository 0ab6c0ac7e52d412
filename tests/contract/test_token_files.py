"""Files with tokens: what they may contain, how they are replaced, and which errors name what is wrong."""

import logging
import os
import pickle
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.vectors.files import read
from tests.virtual_clock import VirtualClock

from headrace.contract import clock, token_files
from headrace.contract.token_files import MAX_TOKEN_BYTES, TokenFile, TokenFileError, keep_descriptor, read_token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.token"
    file.write_text("first\n")
    file.chmod(0o600)
    return file


@pytest.fixture(autouse=True)
def unread_descriptors() -> Iterator[None]:
    """Numbers of descriptors are used again by later tests."""
    token_files._read_once.clear()
    yield
    token_files._read_once.clear()


def replace(file: Path, content: bytes | str) -> None:
    """Replaces a file as those do who rotate tokens: by a new one."""
    new = file.with_suffix(".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.chmod(0o600)
    new.replace(file)


def pipe(content: bytes) -> int:
    """A descriptor that can be read once."""
    reads, writes = os.pipe()
    os.write(writes, content)
    os.close(writes)
    return reads


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=64), st.sampled_from(["file", "pipe"]))
@example(b"a" * MAX_TOKEN_BYTES, "file")
@example(b"a" * (MAX_TOKEN_BYTES + 1), "pipe")
@example(b"token\r\n", "pipe")
@example(b"one\ntwo\n", "file")
def test_a_file_has_one_token_or_an_error_that_does_not_show_its_contents(file: Path, content: bytes, kind: str) -> None:
    token_files._read_once.clear()
    descriptor = None
    if kind == "pipe":
        descriptor = pipe(content)
        path = Path(f"/dev/fd/{descriptor}")
    else:
        path = file
        replace(file, content)
    text = content.strip(b" \t\r\n")
    try:
        if len(content) <= MAX_TOKEN_BYTES and text and all(0x20 <= byte <= 0x7E for byte in text):
            assert [read_token(path), read_token(path)] == [text.decode()] * 2
        else:
            with pytest.raises(TokenFileError) as refused:
                read_token(path)
            assert str(path) in str(refused.value)
            assert len(text) < 8 or text.decode("latin-1") not in str(refused.value)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    ours, theirs = socket.socketpair()
    for path, said in (
        (tmp_path / "absent", "there is no such file"),
        (tmp_path / "folder", "it is a folder, and no file"),
        (Path("/dev/zero"), "it is a device, and no file"),
        (Path(f"/dev/fd/{ours.fileno()}"), "it is a socket, and no file"),
        (Path("/dev/fd/1000000"), "this process has no such file descriptor"),
    ):
        with pytest.raises(TokenFileError, match=f"^{path}: {said}") as refused:
            read_token(path)
        assert refused.value.exit_code == 2
    ours.close()
    theirs.close()


def test_a_fifo_that_nobody_writes_to_is_waited_for_with_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_files, "PIPE_WITHIN_S", 0.0)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(TokenFileError, match="nobody has written a token to it"):
        read_token(fifo)
    monkeypatch.undo()
    writes = threading.Thread(target=fifo.write_text, args=("late\n",))
    writes.start()
    assert read_token(fifo) == "late"
    writes.join()
    assert read_token(fifo) == "late", "it is read once"


def test_a_replaced_token_is_used_from_then_on_and_one_that_cannot_be_read_is_not(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(file)
    assert tokens.token() == "first"
    for broken in (b"", b"\xff", b"one\ntwo"):
        replace(file, broken)
        assert [tokens.token(), tokens.token()] == ["first", "first"]
    file.unlink()
    assert tokens.token() == "first"
    assert len(caplog.records) == 3, "each bad file is named once"
    replace(file, "second")
    assert tokens.token() == "second"
    sent = pickle.loads(pickle.dumps(tokens))
    file.unlink()
    assert sent.token() == "second", "where the file is not, the last token is known"
    assert sent == tokens
    assert "second" not in repr(tokens)
    with pytest.raises(TokenFileError):
        TokenFile(file).token()


def test_calls_are_repeated_that_had_the_token_before(file: Path) -> None:
    with clock.use(VirtualClock()) as virtual:
        tokens = TokenFile(file)
        tokens.token()
        assert not tokens.outlives_refusal(), "it is the only token that there ever was"
        replace(file, "second")
        tokens.token()
        virtual.advance(3_600)
        assert tokens.outlives_refusal(), "however late the first one is revoked"
        virtual.advance(token_files.REPLACED_WITHIN_S - 1)
        assert tokens.outlives_refusal()
        virtual.advance(1)
        assert not tokens.outlives_refusal(), "the second one is refused, too"
        replace(file, "third")
        assert tokens.outlives_refusal()


def test_a_file_that_others_can_read_is_warned_of_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    TokenFile(file).token()
    assert caplog.records == []
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            TokenFile(file).token()
    (record,) = caplog.records
    assert record.getMessage() == f"every user of this machine can read {file} (mode 0644): chmod o= {file}"


def test_the_vectors_that_all_sdks_share(file: Path, tmp_path: Path) -> None:
    vectors = read("tokens.json")
    for case in vectors["contents"]["cases"]:
        file.write_bytes(bytes.fromhex(case["hex"]) * case.get("times", 1))
        if "token" in case:
            assert read_token(file) == case["token"] * case.get("token_times", 1), case["name"]
        else:
            with pytest.raises(TokenFileError, match=f"^{re.escape(str(file))} {re.escape(case['problem'])}$"):
                read_token(file)
    (tmp_path / "folder").mkdir()
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    for case in vectors["paths"]["cases"]:
        path = Path(case["path"]) if "path" in case else tmp_path / case["is"]
        with pytest.raises(TokenFileError, match=f"^{path}: {case['problem']}$"):
            read_token(path)


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_each_process_that_is_started_can_read_the_descriptor_that_it_inherits(file: Path, kind: str) -> None:
    descriptor = os.open(file, os.O_RDONLY) if kind == "file" else pipe(b"first\n")
    path = Path(f"/dev/fd/{descriptor}")
    program = f"from pathlib import Path; from headrace.contract.token_files import read_token; print(read_token(Path('{path}')))"
    try:
        for _ in range(2):
            assert keep_descriptor(path) == descriptor
            done = subprocess.run(
                [sys.executable, "-c", program], pass_fds=[descriptor], capture_output=True, text=True, check=False, timeout=60
            )
            assert (done.stdout, done.stderr) == ("first\n", "")
        assert not os.get_inheritable(descriptor), "nobody else inherits it"
    finally:
        os.close(descriptor)
    assert keep_descriptor(file) is None


def test_a_number_of_a_descriptor_that_is_used_again_gives_the_new_token() -> None:
    descriptor = pipe(b"first")
    path = Path(f"/dev/fd/{descriptor}")
    try:
        assert [read_token(path), read_token(path)] == ["first", "first"]
        again = pipe(b"second")
        os.dup2(again, descriptor)
        os.close(again)
        assert [read_token(path), read_token(path)] == ["second", "second"]
    finally:
        os.close(descriptor)
