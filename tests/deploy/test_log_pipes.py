"""What processes print arrives in their logs, whoever is killed and whatever happens to the files."""

import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.absent import absent
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop
from tests.docs.pages import blocks

from headrace.deploy import Kind, Status
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes

DEADLINE_S = 150.0
COUNTS = "i=0; while :; do i=$((i + 1)); echo line $i; sleep 0.01; done"


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def text(*paths: Path) -> str:
    return "".join(path.read_text() for path in paths if path.exists())


def test_a_full_disk_is_named_delays_no_process_and_clears(tmp_path: Path) -> None:
    """/dev/full is a disk without room."""
    log = tmp_path / "run" / "source.log"
    log.parent.mkdir()
    log.symlink_to("/dev/full")
    # More than a pipe and the memory of the log writer have room for.
    prints = "yes 0123456789 | head -c 8000000; touch printed; while :; do echo later; sleep 0.01; done"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, prints)))

    def told(line: str) -> bool:
        return any(line in one for one in watched.told)

    watched.when(
        lambda _: (tmp_path / "printed").exists() and told(f"the log of source, {log}: cannot write it: No space left on device"),
        lambda _: log.unlink(),
    )
    watched.when(lambda _: told(f"the log of source, {log} is written again, without") and "later" in text(log), stop)
    assert watched.run().exit_code == 0
    assert process_of(watched.statuses[-1], "source").restarts == 0


def test_a_deployment_starts_where_its_logs_have_no_room(tmp_path: Path) -> None:
    planned = plan(tmp_path, source=(Kind.SOURCE, f"echo begins; {COUNTS}"), sink=(Kind.SINK, f"echo begins; {COUNTS}"))
    planned.folder.mkdir()
    for name in ("gateway", "source", "sink"):
        (planned.folder / f"{name}.log").symlink_to("/dev/full")
    watched = Watched(planned)

    def named(name: str) -> bool:
        return any(f"the log of {name}, " in line and "cannot write it" in line for line in watched.told)

    watched.when(lambda status: runs("source", "sink")(status) and named("source") and named("sink"), stop)
    assert watched.run().exit_code == 0
    assert not any("is written again" in line for line in watched.told)


@pytest.fixture
def pipes() -> Iterator[LogPipes]:
    told: list[str] = []
    made = LogPipes(Comfort(told.append))
    yield made
    made.close()


def started(pipes: LogPipes, log: Path, script: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Starts a script in a folder, whose output goes to a log; it may read from a FIFO named `go`."""
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "go")
    with pipes.open("source", log) as output:
        return subprocess.Popen(["/bin/sh", "-c", script], cwd=folder, stdout=output, stderr=output)


def test_a_log_writer_that_is_killed_is_started_again(tmp_path: Path, pipes: LogPipes) -> None:
    """Lines that are printed before the next one runs wait in the pipe."""
    log = tmp_path / "source.log"
    process = started(pipes, log, "for i in 1 2 3; do echo line $i; echo $i >printed; [ $i = 3 ] || read go; done <>go", tmp_path)
    for number in range(1, 4):
        eventually(lambda number=number: text(tmp_path / "printed") == f"{number}\n")
        killed = reader(pipes)
        if number < 3:
            eventually(lambda number=number: has_caught_up(pipes, number, log))
            # It reads nothing of the next line.
            os.kill(killed, signal.SIGSTOP)
            with (tmp_path / "go").open("w") as go:
                go.write("\n")
            eventually(lambda number=number: text(tmp_path / "printed") == f"{number + 1}\n")
            os.kill(killed, signal.SIGKILL)
            eventually(lambda killed=killed: another_reads(pipes, killed))
    process.wait(DEADLINE_S)
    eventually(lambda: has_caught_up(pipes, 3, log))


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_log_writer_that_is_stopped_is_named_and_replaced_and_no_line_is_lost(tmp_path: Path) -> None:
    """The time passes as the test says; processes and signals are real."""
    log, now, told = tmp_path / "source.log", 0.0, list[str]()
    pipes = LogPipes(Comfort(told.append), now=lambda: now)
    try:
        stopped = reader(pipes)
        pipes.catch_up()
        os.kill(stopped, signal.SIGSTOP)
        eventually(lambda: is_stopped(stopped))
        # More than a pipe has room for.
        process = started(pipes, log, "for i in $(seq 200000); do echo line $i; done", tmp_path / "folder")
        deadline = time.monotonic() + DEADLINE_S
        while pipes.writer_pid == stopped and time.monotonic() < deadline:
            now += 0.5
            pipes.look()
        # The time of the next one, which has to start, does not pass.
        eventually(lambda: another_reads(pipes, stopped))
        process.wait(DEADLINE_S)
        eventually(lambda: has_caught_up(pipes, 200_000, log))
    finally:
        pipes.close()
    assert any(f"the log writer, process {stopped}, has not answered for" in line and "it is stopped" in line for line in told)


def test_a_system_without_descriptors_delays_a_start_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, real = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS))), os.dup

    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def exhaust(status: Status) -> None:
        monkeypatch.setattr(os, "dup", none_left)
        kill("sink")(status)

    def fails(status: Status) -> bool:
        return "Too many open files" in (process_of(status, "sink").reason or "")

    watched.when(runs("source", "sink"), exhaust)
    watched.when(fails, lambda _: monkeypatch.setattr(os, "dup", real))
    watched.when(runs("source", "sink"), stop)
    assert watched.run().exit_code == 0
    assert process_of(watched.statuses[-1], "source").restarts == 0


def reader(pipes: LogPipes) -> int:
    """The process id of the log writer, once it runs."""
    eventually(lambda: pipes.look() or pipes.writer_pid is not None)
    assert pipes.writer_pid is not None
    return pipes.writer_pid


def another_reads(pipes: LogPipes, killed: int) -> bool:
    pipes.look()
    return pipes.writer_pid not in (None, killed)


def has_caught_up(pipes: LogPipes, last: int, *logs: Path) -> bool:
    """Whether logs have the lines up to a last one, each once."""
    pipes.look()
    pipes.catch_up()
    return text(*logs).splitlines() == [f"line {number}" for number in range(1, last + 1)]


def test_renamed_logs_lose_no_line(tmp_path: Path, pipes: LogPipes) -> None:
    log = tmp_path / "source.log"
    process = started(pipes, log, "for i in $(seq 400); do echo line $i; sleep 0.002; done", tmp_path)
    rotated = []
    while process.poll() is None:
        pipes.look()
        if log.exists() and log.stat().st_size:
            rotated.append(tmp_path / f"source.log.{len(rotated)}")
            log.rename(rotated[-1])
    eventually(lambda: has_caught_up(pipes, 400, *rotated, log))


@pytest.mark.parametrize("mode", ["create", "nocreate", "copytruncate"])
def test_logrotate_itself(tmp_path: Path, pipes: LogPipes, mode: str) -> None:
    """It needs no postrotate. With copytruncate, it may lose what is printed between its copy and its truncation."""
    logrotate = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if logrotate is None:
        absent("logrotate is not installed")
    log = tmp_path / "logs" / "source.log"
    (tmp_path / "rules").write_text(f"{log} {{\n  rotate 1000\n  {mode}\n  su {os.getuid()} {os.getgid()}\n}}\n")
    (tmp_path / "rules").chmod(0o600)
    command = [logrotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rules")]
    process = started(
        pipes, log, "i=0; while [ ! -e ../stop ]; do i=$((i + 1)); echo line $i; sleep 0.001; done", tmp_path / "logs"
    )
    for _ in range(5):
        eventually(lambda: pipes.look() or bool(text(log)))
        subprocess.run(command, check=True, capture_output=True, text=True)
    eventually(lambda: pipes.look() or bool(text(log)))
    (tmp_path / "stop").touch()
    process.wait(DEADLINE_S)
    pipes.catch_up()
    logs = [*(log.with_name(f"source.log.{number}") for number in range(5, 0, -1)), log]
    assert all(text(one) for one in logs)
    numbers = [int(line.split()[1]) for line in text(*logs).splitlines()]
    if mode == "copytruncate":
        assert numbers == sorted(set(numbers))
    else:
        assert numbers == list(range(1, len(numbers) + 1))


def test_logrotate_as_the_page_configures_it(tmp_path: Path) -> None:
    """With a postrotate that sends SIGHUP to the supervisor, which is this process."""
    logrotate = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if logrotate is None:
        absent("logrotate is not installed")
    planned = plan(tmp_path, source=(Kind.SOURCE, COUNTS))
    (configuration,) = (block.text for block in blocks("docs/reference/logs.md", "text"))
    rules = configuration.replace("/srv/orders/deploy.run", str(planned.folder))
    rules = rules.replace("su orders orders", f"su {os.getuid()} {os.getgid()}")
    (tmp_path / "rules").write_text(rules)
    (tmp_path / "rules").chmod(0o600)
    watched = Watched(planned, replan=lambda _: planned)
    logs = [planned.folder / f"{name}.log" for name in ("source", "supervisor")]

    def rotate(_: Status) -> None:
        command = [logrotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rules")]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def has_read_again(number: int) -> bool:
        return sum(line.startswith(("reloaded", "reload refused")) for line in watched.told) == number

    for number in range(1, 3):
        watched.when(lambda status: runs("source")(status) and all(map(text, logs)), rotate)
        # Both are written anew: the supervisor tells that it has read its file again.
        watched.when(lambda _, number=number: has_read_again(number) and all(map(text, logs)), lambda _: None)
    watched.when(lambda _: True, stop)
    assert watched.run().exit_code == 0
    assert "reloaded: nothing has changed" in watched.told
    for log in logs:
        # Compressed by the second rotation.
        assert sorted(path.name for path in log.parent.glob(f"{log.name}*")) == [log.name, f"{log.name}.1", f"{log.name}.2.gz"]
    with gzip.open(f"{logs[0]}.2.gz", "rt") as first:
        lines = [*first, *text(planned.folder / "source.log.1", logs[0]).splitlines(keepends=True)]
    assert lines == [f"line {number}\n" for number in range(1, len(lines) + 1)]
    assert process_of(watched.statuses[-1], "source").restarts == 0


SUPERVISOR = """
import signal, subprocess, sys, time
from pathlib import Path
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes
pipes = LogPipes(Comfort(print), to_stderr=len(sys.argv) > 2)
with pipes.open("orders", Path(sys.argv[1])) as output:
    child = subprocess.Popen(["/bin/sh", "-c", 'echo begins; echo "{\\\\"level\\\\": 1}"; read line; echo last words'],
        stdin=subprocess.PIPE, stdout=output, stderr=output)
while pipes.writer_pid is None:
    pipes.look()
    time.sleep(0.01)
pipes.catch_up()
print("ready", pipes.writer_pid, flush=True)
if len(sys.argv) > 2:
    pipes.close()
else:
    signal.pause()
"""


def test_a_supervisor_that_is_killed_loses_no_last_words(tmp_path: Path) -> None:
    log = tmp_path / "orders.log"
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(log)], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    with supervisor.stdout:
        writer = int(supervisor.stdout.readline().split()[1])
    supervisor.kill()
    supervisor.wait()
    eventually(lambda: text(log).endswith("last words\n"))
    eventually(lambda: not Path(f"/proc/{writer}").exists() or "Z (zombie)" in Path(f"/proc/{writer}/status").read_text())


def test_lines_go_to_standard_error_with_the_names_of_their_processes(tmp_path: Path) -> None:
    log = tmp_path / "orders.log"
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISOR, str(log), "stderr"], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    first, second, *_ = done.stderr.splitlines()
    assert first == "orders: begins"
    assert json.loads(second) == {"process": "orders", "level": 1}
    assert text(log).startswith("begins\n")
