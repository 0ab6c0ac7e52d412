"""A disk that hangs delays only itself: pipes are read, questions are answered, and a line stands for what is missing."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.deploy.test_log_pipes import DEADLINE_S, eventually, reader, text

from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes
from headrace.log_writer import Disk, LogFile, Writer
from headrace.log_writer import disk as disk_module
from headrace.log_writer import file as file_module
from headrace.log_writer.file import told_missing
from headrace.log_writer.writer import NO_ANSWER, NO_READER


class Hanging:
    """Stands in for a disk that does not answer until the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.answers.set()
        monkeypatch.setattr(file_module, "os", SimpleNamespace(**{**vars(os), "write": self._write}))
        monkeypatch.setattr(disk_module, "PATIENCE_S", 0.05)
        monkeypatch.setattr(disk_module, "HANGS_AFTER_S", 0.1)

    def _write(self, descriptor: int, data: bytes) -> int:
        assert self.answers.wait(DEADLINE_S)
        return os.write(descriptor, data)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    made = Hanging(monkeypatch)
    yield made
    made.answers.set()


def printing(writer: Writer, log: Path) -> int:
    """Returns where a process prints whose pipe a writer reads."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    os.set_blocking(writes, False)
    writer.add("source", log, reads)
    return writes


def put(writer: Writer, pipe: int, output: bytes) -> None:
    """Prints, while the writer reads."""
    while output:
        writer.step()
        try:
            output = output[os.write(pipe, output) :]
        except BlockingIOError:
            continue


def test_a_process_does_not_wait_and_no_line_is_lost(tmp_path: Path, hanging: Hanging) -> None:
    log, writer = tmp_path / "source.log", Writer(1 << 30)
    pipe = printing(writer, log)
    put(writer, pipe, b"begins\n")
    eventually(lambda: writer.step() or text(log) == "begins\n")
    hanging.answers.clear()
    # More than a pipe has room for.
    lines = b"".join(b"line %d\n" % number for number in range(100_000))
    put(writer, pipe, lines)
    eventually(lambda: writer.step() or writer.state()["faults"] == {"source": NO_ANSWER})
    assert log.read_bytes() == b"begins\n"
    hanging.answers.set()
    eventually(lambda: writer.step() or not writer.waits)
    assert writer.state() == {"faults": {}, "lost": {}}
    os.close(pipe)
    assert writer.close()
    assert log.read_bytes() == b"begins\n" + lines


@pytest.mark.parametrize("as_json", [False, True])
def test_what_has_no_room_is_told_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: Hanging, as_json: bool
) -> None:
    monkeypatch.setattr(file_module, "MAX_WAITING_BYTES", 1_000)
    log, writer = tmp_path / "source.log", Writer(1 << 30)
    pipe = printing(writer, log)
    hanging.answers.clear()
    line = '{"number": %d}\n' if as_json else "line %d\n"
    put(writer, pipe, "".join(line % number for number in range(1_000)).encode())
    writer.catch_up()
    lost = writer.state()["lost"]["source"]
    hanging.answers.set()
    eventually(lambda: writer.step() or not writer.waits)
    put(writer, pipe, (line % 1_000).encode())
    os.close(pipe)
    assert writer.close()
    lines = text(log).splitlines(keepends=True)
    (place,) = [place for place, one in enumerate(lines) if "are missing here" in one]
    assert lines[:place] == [line % number for number in range(place)]
    assert lines[place + 1 :] == [line % 1_000]
    assert lost == sum(len(line % number) for number in range(place, 1_000))
    said = json.loads(lines[place])["event"] if as_json else lines[place].partition(" WARNING: ")[2].strip()
    assert said == f"{lost:,} bytes of output are missing here, for which there was no room"


def test_the_lines_of_a_log_that_stand_for_others_have_the_fields_of_all_lines() -> None:
    assert list(json.loads(told_missing(5, as_json=True))) == ["timestamp", "level", "logger", "event"]


def test_a_disk_that_hangs_at_the_end_is_not_waited_for(tmp_path: Path, hanging: Hanging) -> None:
    writer = Writer(1 << 30)
    pipe = printing(writer, tmp_path / "source.log")
    hanging.answers.clear()
    put(writer, pipe, b"a line\n")
    os.close(pipe)
    assert not writer.close(0.1)


def test_the_supervisor_does_not_wait_where_it_does_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: Hanging
) -> None:
    """As before a log writer has started. A hand-over waits for the disk, so that lines stay in order."""
    starts = [False]
    real: Callable[[LogPipes], object] = LogPipes._start
    monkeypatch.setattr(LogPipes, "_start", lambda self: real(self) if starts[0] else None)
    monkeypatch.setattr("headrace.deploy.log_pipes.START_AGAIN_AFTER_S", 0.0)
    log, told = tmp_path / "source.log", list[str]()
    pipes = LogPipes(Comfort(told.append))
    with pipes.open("source", log) as output:
        hanging.answers.clear()
        output.write(b"line 1\n")
        eventually(lambda: pipes.look() or any(f"the log of source, {log}: {NO_ANSWER}" in line for line in told))
        starts[0] = True
        output.write(b"line 2\n")
        for _ in range(20):
            pipes.look()
        hanging.answers.set()
        reader(pipes)
        output.write(b"line 3\n")
        eventually(lambda: pipes.look() or f"the log of source, {log} is written again" in told)
    pipes.close()
    assert text(log) == "line 1\nline 2\nline 3\n"


def test_an_error_that_nobody_expects_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: LogFile) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(LogFile, "flush", fail)
    writer = Writer(1 << 30)
    pipe = printing(writer, tmp_path / "source.log")
    os.write(pipe, b"a line\n")
    with pytest.raises(KeyError, match="a mistake"):
        eventually(lambda: writer.step())
    os.close(pipe)


def test_actions_are_done_in_order_and_where_there_is_no_room_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    actions = [lambda number=number: done.append(number) for number in range(100)]  # type: ignore[misc]
    disk = Disk()
    for action in actions:
        disk.do(action)
    assert disk.close(DEADLINE_S)
    assert done == list(range(100))

    def no_room(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_room)
    disk = Disk()
    disk.do(actions[0])
    assert disk.catch_up()
    assert disk.close(DEADLINE_S)
    assert done[100:] == [0]


SUPERVISOR = """
import subprocess, sys, time
from pathlib import Path
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes
folder = Path(sys.argv[1])
pipes = LogPipes(Comfort(lambda line: print(line, flush=True)), to_stderr=True)
while pipes.writer_pid is None:
    pipes.look()
    time.sleep(0.01)
print("writer", pipes.writer_pid, flush=True)
with pipes.open("orders", folder / "orders.log") as output:
    child = subprocess.Popen(["/bin/sh", "-c", "seq 1000000; touch printed"], cwd=folder, stdout=output, stderr=output)
while child.poll() is None:
    pipes.look()
    time.sleep(0.01)
print("writer", pipes.writer_pid, flush=True)
pipes.close()
"""


def test_a_process_waits_for_a_reader_of_standard_error_who_pauses(tmp_path: Path) -> None:
    """As any process does whose output nobody reads. It is named, nothing is dropped, and the log writer is not replaced."""
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stderr is not None
        first, said = supervisor.stdout.readline(), supervisor.stdout.readline()
        assert NO_READER in said
        assert not (tmp_path / "printed").exists()
        shown = supervisor.stderr.read().splitlines()
        told = supervisor.stdout.read().splitlines()
    assert shown == [f"orders: {number}" for number in range(1, 1_000_001)]
    assert (tmp_path / "printed").exists()
    # The log writer is the same one.
    assert told[-1] == first.strip()
    assert "lines go to standard error again" in told
