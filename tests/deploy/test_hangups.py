"""SIGHUP ends no process of a deployment, from its first moment to its last: it arrives all the time, from the start on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.connectors.manifests import add
from tests.deploy.test_log_pipes import eventually
from tests.deploy.test_processes import DEADLINE_S

from headrace.deploy.command_output import output_of
from headrace.deploy.writer_process import WriterProcess
from headrace.processes import OwnedProcess, under_supervisor


@dataclass
class Case:
    """A process of a deployment.

    Attributes:
        command: Its command line.
        begins: Whether it has begun to work, given its log.
        exit_code: How it ends after SIGTERM.
    """

    command: list[str]
    begins: Callable[[str], bool]
    exit_code: int = 0


def gateway(folder: Path) -> Case:
    ready = folder / "address"
    return Case(under_supervisor("gateway", "--listen", "127.0.0.1:0", "--ready-file", str(ready)), lambda _: ready.exists())


def connector(folder: Path) -> Case:
    # Nobody listens there: it waits.
    words = ("--path", str(folder / "*.txt"), "--source", "lines", "--gateway", "127.0.0.1:9", "--verbose")
    return Case(under_supervisor("connector", "run", "file", *words), lambda log: "SIGHUP: reading certificates again" in log)


def foreign_connector(folder: Path) -> Case:
    """The behaviour of a program that has no handler; a program in Go has one soon, and begins with SIGHUP ignored."""
    begun = folder / "begun"
    add(folder / "connectors", "lines", MANIFEST, run=f"#!/bin/sh\ntouch '{begun}'\nexec sleep 600\n")
    words = ("connector", "run", "lines", "--source", "lines", "--gateway", "127.0.0.1:9")
    return Case(under_supervisor(*words), lambda _: begun.exists(), -signal.SIGTERM)


def application(folder: Path) -> Case:
    """While it is imported, which is before Spark starts."""
    begun = folder / "begun"
    (folder / "app.py").write_text(f"import time, headrace.pipelines\nopen({str(begun)!r}, 'w')\ntime.sleep(600)\n")
    return Case(under_supervisor("run", str(folder / "app.py")), lambda _: begun.exists(), -signal.SIGTERM)


def spark_program(folder: Path) -> Case:
    """Programs that it starts, such as a JVM, begin with SIGHUP ignored."""
    begun = folder / "begun"
    child = "kill -HUP $$; touch {begun}; exec sleep 600"
    program = f"import subprocess\nsubprocess.run(['/bin/sh', '-c', {child.format(begun=begun)!r}])\n"
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "headrace.cli.spark_program", "--gateway", "127.0.0.1:9", str(folder / "program.py")]
    return Case(command, lambda _: begun.exists(), 128 + signal.SIGTERM)


MANIFEST = """
manifest_version = 1
name = "{name}"
kind = "source"
replayable = true
summary = "lines"
version = "1.0.0"
language = "shell"
command = ["./run"]

[parameters.source]
type = "text"
required = true
description = "The stream is named SOURCE/0."
examples = ["lines"]
"""


def hang_up_until(pid: int, condition: Callable[[], bool]) -> None:
    """Sends SIGHUP again and again until a condition is true. The process is not waited for before that."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        os.kill(pid, signal.SIGHUP)
        time.sleep(0.005)


@pytest.fixture
def mask() -> Iterator[None]:
    """The signals of this process stay as they are."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    yield
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == before


@pytest.mark.usefixtures("mask")
@pytest.mark.parametrize("make", [gateway, connector, foreign_connector, application, spark_program])
def test_no_process_ends_by_a_hangup_at_any_time(make: Callable[[Path], Case], tmp_path: Path) -> None:
    case = make(tmp_path)
    environ = {**os.environ, "HEADRACE_CONNECTORS": str(tmp_path / "connectors")}
    process = OwnedProcess("process", case.command, tmp_path, environ, ends_with_parent=True, begins_apart=True)
    process.start()
    try:
        said = lambda: process.log.read_text(errors="replace")  # noqa: E731
        hang_up_until(process.pid, lambda: process.exit_code() is not None or case.begins(said()))
        assert process.runs, said()
        process.ask_to_stop()
        codes: list[int | None] = []
        hang_up_until(process.pid, lambda: codes.append(process.exit_code()) or codes[-1] is not None)
        assert codes[-1] == case.exit_code, said()
    finally:
        process.kill()


def test_a_supervisor_that_nohup_starts_does_not_end_by_a_hangup_at_any_time(tmp_path: Path) -> None:
    """As the unit of systemd starts it: the signal is ignored until Python has a handler."""
    (tmp_path / "in").mkdir()
    connector = '[connectors.lines]\nconnector = "file"\npath = "in/*.txt"\nsource = "lines"\n'
    (tmp_path / "deploy.toml").write_text(f'[gateway]\nlisten = "127.0.0.1:0"\n{connector}')
    command = ["nohup", sys.executable, "-m", "headrace.cli", "run", "deploy.toml"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        eventually(lambda: b"headrace.cli" in cmdline(process.pid) and b"nohup" not in cmdline(process.pid))
        hang_up_until(process.pid, lambda: process.poll() is not None or "lines runs" in log.read_text())
        assert process.poll() is None, log.read_text()
        process.terminate()
        assert process.wait(DEADLINE_S) == 0, log.read_text()
    finally:
        process.kill()


def cmdline(pid: int) -> bytes:
    """The command line of a process; empty where the system does not tell."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.usefixtures("mask")
def test_the_log_writer_does_not_end_by_a_hangup() -> None:
    writer = WriterProcess(1 << 20, to_stderr=False)
    try:
        hang_up_until(writer.pid, lambda: bool(writer.look()) or writer.is_ready or writer.exit_code() is not None)
        assert writer.exit_code() is None
        assert writer.end()
    finally:
        writer.close()


@pytest.mark.usefixtures("mask")
def test_an_import_does_not_end_by_a_hangup(tmp_path: Path) -> None:
    """The process that imports an application begins like any other."""
    script = "kill -HUP $$; echo runs on"
    done = output_of(["/bin/sh", "-c", script], tmp_path, os.environ, within_s=DEADLINE_S, is_stopped=lambda: False)
    assert (done.exit_code, done.printed) == (0, "runs on")
