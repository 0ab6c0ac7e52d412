"""Workers whose connection Spark closes, as it does after a quiet minute, take the next one; what they hold lives on."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from headrace.engine.spark.daemon import IDLE_S

SECRET = "secret"
DEADLINE_S = 150.0


class Daemon:
    """The daemon, as Spark starts it, and connections as Spark makes them."""

    def __init__(self, folder: Path, domain: bool, **environ: str) -> None:
        environ |= {"PYTHON_WORKER_FACTORY_SECRET": SECRET, "SPARK_REUSE_WORKER": "1"}
        if domain:
            environ |= {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder)}
        command = [sys.executable, "-m", "headrace.engine.spark.daemon", "pyspark.worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environ)
        assert self.process.stdout is not None
        self._domain = domain
        (number,) = struct.unpack("!i", self._read(self.process.stdout, 4))
        self._address = self._read(self.process.stdout, number).decode() if domain else ("127.0.0.1", number)

    def connect(self) -> tuple[socket.socket, int]:
        """A connection to a worker, and its process id."""
        connection = socket.socket(socket.AF_UNIX if self._domain else socket.AF_INET)
        connection.settimeout(DEADLINE_S)
        connection.connect(self._address)
        with connection.makefile("rb") as answers:
            (pid,) = struct.unpack("!i", answers.read(4))
            if not self._domain:
                connection.sendall(struct.pack("!i", len(SECRET)) + SECRET.encode())
                assert answers.read(6) == struct.pack("!i", 2) + b"ok"
        return connection, pid

    def end(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(DEADLINE_S)

    def _read(self, stream: IO[bytes], size: int) -> bytes:
        return b"".join(iter(lambda: stream.read(1), None).__next__() for _ in range(size))


@pytest.fixture(params=[True, False], ids=["unix", "tcp"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    started = Daemon(tmp_path, request.param)
    yield started
    started.end()


def again(daemon: Daemon, wanted: set[int]) -> tuple[socket.socket, int]:
    """A connection to one of these workers, which may need a moment to see that Spark has closed theirs."""
    until = time.monotonic() + DEADLINE_S
    others = []
    while time.monotonic() < until:
        connection, pid = daemon.connect()
        if pid in wanted:
            return connection, pid
        others.append(connection)
    raise AssertionError("the workers are gone")


def ends(pid: int) -> None:
    """Waits until a process is gone."""
    until = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} continues"
        time.sleep(0.01)


def test_a_worker_takes_the_next_connection(daemon: Daemon) -> None:
    (one, first), (other, second) = daemon.connect(), daemon.connect()
    assert first != second, "both are at work"
    one.close()
    other.close()
    (one, third), (other, fourth) = again(daemon, {first, second}), again(daemon, {first, second})
    assert {third, fourth} == {first, second}
    one.close()
    assert again(daemon, {third})[1] == third


def test_a_worker_that_was_killed_while_it_waited_is_not_waited_for(daemon: Daemon) -> None:
    connection, pid = daemon.connect()
    connection.close()
    connection, pid = again(daemon, {pid})
    connection.close()
    os.kill(pid, signal.SIGKILL)
    ends(pid)
    assert daemon.connect()[1] != pid


def test_workers_that_wait_end_with_the_daemon(daemon: Daemon) -> None:
    connection, pid = daemon.connect()
    connection.close()
    connection, pid = again(daemon, {pid})
    connection.close()
    daemon.process.kill()
    ends(pid)


def test_a_worker_does_not_wait_for_longer_than_it_is_told(tmp_path: Path) -> None:
    for seconds in ("0", "0.1"):
        daemon = Daemon(tmp_path, True, **{IDLE_S: seconds})
        connection, pid = daemon.connect()
        connection.close()
        ends(pid)
        assert daemon.connect()[1] != pid
        daemon.end()


_STAYS = """
import os, signal, sys, threading
from headrace.engine.spark.worker_ends import end_in_order, kill_who_stays

os.setpgid(0, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
kill_who_stays(float(sys.argv[1]))
begun, begins = os.pipe()
worker = os.fork()
if not worker:
    end_in_order()
    if sys.argv[2] == "native":  # As long as such a call lasts, Python handles no signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    os.write(begins, b"1")
    threading.Event().wait()
os.read(begun, 1)
print(worker, flush=True)
os.kill(0, signal.SIGHUP)
sys.exit(3)
"""


@pytest.mark.parametrize(("longest_s", "where", "code"), [("0.1", "native", -signal.SIGKILL), ("600", "python", 3)])
def test_a_worker_ends_with_its_daemon_also_if_it_is_in_native_code(longest_s: str, where: str, code: int) -> None:
    daemon = subprocess.run([sys.executable, "-c", _STAYS, longest_s, where], capture_output=True, text=True, timeout=DEADLINE_S)
    assert daemon.returncode == code, daemon.stderr
    ends(int(daemon.stdout))


def test_it_imports_nothing_that_starts_threads() -> None:
    program = "import sys, headrace.engine.spark.daemon; print(*({'grpc', 'pyarrow', 'numpy', 'pandas'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split() == []


IMPORTS = """
import os, sys
from headrace.engine.spark.daemon import import_needed

import_needed()
print(len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules, "grpc" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize(
    ("environ", "told"), [({"OMP_NUM_THREADS": "1"}, "1 True True"), ({"OMP_NUM_THREADS": "4"}, "1 False False")]
)
def test_a_daemon_imports_what_its_workers_need_only_if_no_thread_starts(environ: dict[str, str], told: str) -> None:
    known = {name: value for name, value in os.environ.items() if name not in ("JE_ARROW_MALLOC_CONF", "OMP_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", IMPORTS], env=known | environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == told.split()
