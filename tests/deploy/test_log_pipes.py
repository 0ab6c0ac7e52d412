"""What processes print arrives in their logs, whoever is killed and whatever happens to the files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.deploy.supervisors import Watched, plan, process_of, runs, stop

from headrace.deploy import Kind
from headrace.deploy.comfort import Comfort
from headrace.deploy.log_pipes import LogPipes

DEADLINE_S = 60.0
COUNTS = "i=0; while :; do i=$((i + 1)); echo line $i; sleep 0.01; done"


def eventually(condition: Callable[[], bool]) -> None:
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
    prints = "yes 0123456789 | head -c 3000000; touch printed; while :; do echo later; sleep 0.01; done"
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
def pipes():
    told: list[str] = []
    made = LogPipes(Comfort(told.append))
    yield made
    made.close()


def started(pipes: LogPipes, log: Path, script: str) -> "subprocess.Popen[bytes]":
    with pipes.open("source", log) as output:
        return subprocess.Popen(["/bin/sh", "-c", script], stdout=output, stderr=output)


def test_a_log_writer_that_is_killed_is_started_again(tmp_path: Path, pipes: LogPipes) -> None:
    """What it had read and not written may be lost; what is printed meanwhile waits in the pipe."""
    log = tmp_path / "source.log"
    process = started(pipes, log, f"{COUNTS}")
    killed: list[int | None] = [None]

    def has_another_writer() -> bool:
        pipes.look()
        return pipes.writer_pid not in killed and "line" in text(log)

    for _ in range(2):
        eventually(has_another_writer)
        killed.append(pipes.writer_pid)
        assert killed[-1] is not None
        os.kill(killed[-1], signal.SIGKILL)
    eventually(has_another_writer)
    process.send_signal(signal.SIGTERM)
    process.wait(DEADLINE_S)
    pipes.catch_up()
    numbers = [int(line.split()[1]) for line in text(log).splitlines()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= numbers[-1] - 20


def test_logrotate_needs_no_postrotate(tmp_path: Path, pipes: LogPipes) -> None:
    log = tmp_path / "source.log"
    process = started(pipes, log, "for i in $(seq 400); do echo line $i; sleep 0.002; done")
    rotated = []
    while process.poll() is None:
        pipes.look()
        if log.exists() and log.stat().st_size:
            rotated.append(tmp_path / f"source.log.{len(rotated)}")
            log.rename(rotated[-1])
    pipes.catch_up()
    assert text(*rotated, log).splitlines() == [f"line {number}" for number in range(1, 401)]


SUPERVISOR = """
import subprocess, sys, time
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
    time.sleep(600)
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
