"""The files of an application's states: on a local disk, and through the service in the JVM."""

import errno
import multiprocessing
import os
import re
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from headrace.engine import HeadraceError
from headrace.engine.checkpoint import state_files as state_files_module
from headrace.engine.checkpoint.state_files import LocalFiles, ServedFiles, StateFiles, state_files

DEADLINE_S = 150.0
READ, WRITE = 1, 2
MEBIBYTE = 1 << 20


@pytest.fixture(scope="session")
def service(spark: SparkSession) -> str:
    """The socket of the service in this process's JVM."""
    jvm = spark._jvm
    assert jvm is not None
    return str(jvm.headrace.engine.CheckpointFiles.serve())


@pytest.fixture(params=["local", "served"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> StateFiles:
    """Files below the folder `states` of `tmp_path`."""
    if request.param == "local":
        return LocalFiles(tmp_path / "states")
    return ServedFiles(f"file:{tmp_path}/states", request.getfixturevalue("service"))


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


def test_a_file_has_the_parts_that_were_written(files: StateFiles) -> None:
    parts = [b"ab", b"", b"cde", *(bytes([n % 256]) * (n % 7) for n in range(5_000))]
    whole = b"".join(parts)
    files.write("bucket/1/2", parts)
    files.write("bucket/1/empty", [])
    assert files.read("bucket/1/2", 0, len(whole)) == whole
    assert files.read("bucket/1/2", 1, 3) == b"bcd"
    assert files.read("bucket/1/2", len(whole) - 10, 10) == whole[-10:]
    assert files.read("bucket/1/2", 5, 0) == b""
    assert files.read("bucket/1/empty", 0, 0) == b""


def test_a_large_file_is_read_and_written(files: StateFiles) -> None:
    parts = [os.urandom(10 * MEBIBYTE) for _ in range(5)]
    files.write("large", parts)
    assert files.read("large", 0, 50 * MEBIBYTE) == b"".join(parts)
    assert files.read("large", 10 * MEBIBYTE, 10 * MEBIBYTE) == parts[1]


def test_a_file_is_written_once(files: StateFiles, tmp_path: Path) -> None:
    files.write("once", [b"first"])
    with pytest.raises(FileExistsError, match=f"{tmp_path}/states/once"):
        files.write("once", [b"second"])
    assert files.read("once", 0, 5) == b"first"


def test_a_file_that_does_not_exist_is_named(files: StateFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/states/a/b"):
        files.read("a/b", 0, 1)


@pytest.mark.parametrize(("offset", "length"), [(0, 6), (3, 3), (5, 1), (9, 1), (0, 1 << 20)])
def test_a_file_that_is_too_short_is_named(files: StateFiles, tmp_path: Path, offset: int, length: int) -> None:
    files.write("short", [b"12345"])
    with pytest.raises(
        HeadraceError, match=f"{tmp_path}/states/short is incomplete: it has no {length} bytes from byte {offset} on"
    ):
        files.read("short", offset, length)
    assert files.read("short", 0, 5) == b"12345"


@pytest.mark.parametrize("name", ["", "/x", "..", "../x", "a/../../x", "a/..", "./x", "a//b", "a/", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(files: StateFiles, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        files.read(name, 0, 1)
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        files.write(name, [b"x"])


def test_threads_write_and_read_at_the_same_time(files: StateFiles) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda number: round_trip(files, number), range(16)))


def test_processes_write_and_read_at_the_same_time(files: StateFiles) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        assert all(processes.map(round_trip, [files] * 4, range(4)))


def round_trip(files: StateFiles, number: int) -> bool:
    content = bytes([number]) * 300_000
    files.write(f"of/{number}", [content[:1_000], content[1_000:]])
    return files.read(f"of/{number}", 0, len(content)) == content


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_local_file_whose_writer_fails_is_gone_and_one_whose_writer_dies_is_not_whole(tmp_path: Path, is_killed: bool) -> None:
    program = "\n".join(
        [
            "import resource, signal, sys, pathlib",
            "from headrace.engine.checkpoint.state_files import LocalFiles",
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({MEBIBYTE}, {resource.RLIM_INFINITY}))",
            f"signal.signal(signal.SIGXFSZ, signal.{'SIG_DFL' if is_killed else 'SIG_IGN'})",
            "try:",
            f"    LocalFiles(pathlib.Path(sys.argv[1])).write('half', [bytes({MEBIBYTE // 2})] * 4)",
            "except OSError as error:",
            "    sys.exit(error.errno)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=DEADLINE_S, check=False)
    if is_killed:
        assert done.returncode == -signal.SIGXFSZ
        with pytest.raises(HeadraceError, match=f"{tmp_path}/half is incomplete"):
            LocalFiles(tmp_path).read("half", 0, 2 * MEBIBYTE)
    else:
        assert done.returncode == errno.EFBIG
        assert not (tmp_path / "half").exists()


def test_where_files_are_decides_how_they_are_accessed(tmp_path: Path) -> None:
    (tmp_path / "a b%20").mkdir()
    (tmp_path / "a b%20" / "x").write_bytes(b"found")
    for root in (f"file:{tmp_path}/a b%20", f"file://{tmp_path}/a b%20"):
        local = state_files(root)
        assert isinstance(local, LocalFiles)
        assert local.read("x", 0, 5) == b"found"
    assert isinstance(state_files("hdfs://host:9820/checkpoints/headrace/state"), ServedFiles)
    assert isinstance(state_files("s3a://bucket/checkpoints/headrace/state", "/tmp/socket"), ServedFiles)


def test_tasks_find_the_service_of_their_executor(spark: SparkSession, service: str, tmp_path: Path) -> None:
    files = ServedFiles(f"file:{tmp_path}")
    assert spark.sparkContext.parallelize(range(4), 4).map(lambda number: round_trip(files, number)).collect() == [True] * 4
    assert ServedFiles(f"file:{tmp_path}", service).read("of/3", 299_999, 1) == b"\3"


def test_only_the_user_of_the_jvm_reaches_the_service(spark: SparkSession, service: str) -> None:
    folder = Path(service).parent.stat()
    assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o700, os.getuid())
    announcement = Path(SparkFiles.getRootDirectory(), "headrace-files")
    assert announcement.read_text() == service
    assert stat.S_IMODE(announcement.stat().st_mode) == 0o600
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.headrace.engine.CheckpointFiles.serve() == service


def request(operation: int, url: str, offset: int, length: int) -> bytes:
    return struct.pack(">BIQQ", operation, len(url.encode()), offset, length) + url.encode()


def connect(service: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(DEADLINE_S)
    connection.connect(service)
    return connection


def test_a_client_that_ends_in_the_middle_of_a_write_leaves_no_file(service: str, tmp_path: Path) -> None:
    half = tmp_path / "new" / "half"
    with closing(connect(service)) as client:
        client.sendall(request(WRITE, f"file:{half}", 0, 2 * MEBIBYTE) + bytes(MEBIBYTE))
        wait_for("the write has begun", half.exists)
    wait_for("the file is gone", lambda: not half.exists())
    ServedFiles(f"file:{tmp_path}/new", service).write("half", [b"again"])
    assert half.read_bytes() == b"again"


@pytest.mark.parametrize(
    "bad",
    [
        b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n",
        bytes(21),
        request(3, "file:/x", 0, 1),
        request(READ, "", 0, 1),
        request(READ, "file:/" + "x" * (1 << 14), 0, 1),
        request(READ, "file:/x", 0, (1 << 30) + 1),
        request(READ, "file:/x", 1 << 63, 1),
        request(WRITE, "file:/x", 0, 1 << 63),
    ],
)
def test_what_is_no_request_ends_its_own_connection_only(service: str, tmp_path: Path, bad: bytes) -> None:
    files = ServedFiles(f"file:{tmp_path}", service)
    files.write("x", [b"1"])
    with closing(connect(service)) as other, closing(connect(service)) as client:
        client.sendall(bad)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
        other.sendall(request(READ, f"file:{tmp_path}/x", 0, 1))
        assert other.recv(9, socket.MSG_WAITALL) == struct.pack(">i1si", 1, b"1", 0)
    assert files.read("x", 0, 1) == b"1"


def test_what_the_file_system_says_is_passed_on(service: str) -> None:
    with pytest.raises(OSError, match=r'No FileSystem for scheme "nowhere".*nowhere://host/states/x'):
        ServedFiles("nowhere://host/states", service).read("x", 0, 1)
    with pytest.raises(OSError, match='No FileSystem for scheme "nowhere"'):
        ServedFiles("nowhere://host/states", service).write("x", [bytes(MEBIBYTE)])


def test_more_than_a_gibibyte_at_once_is_refused(service: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=f"1073741825 bytes are more .*{tmp_path}/x"):
        ServedFiles(f"file:{tmp_path}", service).read("x", 0, (1 << 30) + 1)


class Interrupted:
    """A way to the service that closes the first connection when it answers."""

    def __init__(self, path: Path, service: str) -> None:
        self.path = str(path)
        self.connections = 0
        self._service = service
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(self.path)
        self._listening.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(DEADLINE_S)
        self._listening.close()

    def _run(self) -> None:
        with ExitStack() as open_connections:
            while True:
                try:
                    client, _ = self._listening.accept()
                except OSError:
                    return
                self.connections += 1
                open_connections.enter_context(self._connected(client, closes=self.connections == 1))

    @contextmanager
    def _connected(self, client: socket.socket, *, closes: bool) -> Iterator[None]:
        """Passes on what both sides send, until one of them closes the connection, or on leaving."""
        with client, connect(self._service) as server:
            ways = ((client, server, False), (server, client, closes))
            threads = [threading.Thread(target=self._pass_on, args=way) for way in ways]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                for side in (client, server):
                    with suppress(OSError):
                        side.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join(DEADLINE_S)

    def _pass_on(self, giver: socket.socket, taker: socket.socket, closes: bool) -> None:
        with suppress(OSError):
            while (data := giver.recv(MEBIBYTE)) and not closes:
                taker.sendall(data)
        for side in (giver, taker):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def interrupted(tmp_path: Path, service: str) -> Iterator[Interrupted]:
    with closing(Interrupted(tmp_path / "s", service)) as interrupted:
        yield interrupted


def test_a_read_is_repeated_if_the_connection_breaks(interrupted: Interrupted, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"found")
    assert ServedFiles(f"file:{tmp_path}", interrupted.path).read("x", 0, 5) == b"found"
    assert interrupted.connections == 2


def test_a_write_whose_answer_is_lost_has_been_done_once(interrupted: Interrupted, tmp_path: Path) -> None:
    files = ServedFiles(f"file:{tmp_path}", interrupted.path)
    files.write("x", [b"ab", b"c"])
    assert interrupted.connections == 2
    assert (tmp_path / "x").read_bytes() == b"abc"
    with pytest.raises(FileExistsError):
        files.write("x", [b"abc"])
    assert interrupted.connections == 2


def test_a_write_whose_answer_is_lost_is_not_taken_for_that_of_another_file(interrupted: Interrupted, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"xyz")
    with pytest.raises(FileExistsError):
        ServedFiles(f"file:{tmp_path}", interrupted.path).write("x", [b"abc"])


def test_a_task_waits_for_the_service_that_its_jvm_is_about_to_start(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of Spark are elsewhere here, so that this process's JVM has not announced its service yet."""
    asked = threading.Event()

    def folder() -> str:
        asked.set()
        return str(tmp_path)

    monkeypatch.setattr(SparkFiles, "getRootDirectory", folder)
    monkeypatch.setattr(state_files_module, "_services", {})
    (tmp_path / "x").write_bytes(b"found")
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(ServedFiles(f"file:{tmp_path}").read, "x", 0, 5)
        assert asked.wait(DEADLINE_S)
        (tmp_path / "new").write_text(service)
        (tmp_path / "new").rename(tmp_path / "headrace-files")
        assert found.result(DEADLINE_S) == b"found"


def test_a_task_whose_jvm_starts_no_service_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setattr(state_files_module, "_services", {})
    monkeypatch.setattr(state_files_module, "START_S", 0.1)
    with pytest.raises(TimeoutError, match=r"does not serve the files of the checkpoint.*headrace-files"):
        ServedFiles("hdfs://host/states").read("x", 0, 1)
