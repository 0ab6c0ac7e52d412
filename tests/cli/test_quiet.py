"""What `headrace run` prints: its own lines, and Spark's with --verbose only."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, headrace, process_group
from headrace.protocol.v1.admin_pb2 import GetStatusRequest
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

APPLICATION = """
from headrace.pipelines import Pipeline


def count(word, state):
    if word == "boom":
        raise ValueError("a word that cannot be counted")
    state["n"] = state.get("n", 0) + 1
    return f"{word} {state['n']}"


app = Pipeline("words")
app.source("words/*", decode=bytes.decode).key_by(str.lower).stateful(count, dict, name="counts").sink("totals")
"""
PROGRESS = re.compile(r"\d\d:\d\d:\d\d  micro-batch \d+, \d+ ms  .*")


class Application:
    """An application with a gateway, a source that reads lines of a file, and a sink."""

    def __init__(self, folder: Path, parts: dict[str, OwnedProcess], address: str) -> None:
        self.words = folder / "words.txt"
        self.words.write_text("some words\n" * 1000)
        self._folder = folder
        (folder / "app.py").write_text(APPLICATION)
        reads = ["--path", str(self.words), "--source", "words"]
        writes = ["--path", str(folder / "out"), "--sink", "totals", "--format", "lines"]
        parts["gateway"].command = headrace("gateway", "--listen", address)
        parts["source"].command = headrace("connector", "run", "file", *reads, "--gateway", address)
        parts["sink"].command = headrace("connector", "run", "file-sink", *writes, "--gateway", address)
        for part in parts.values():
            part.start()
        self._address = address
        self._command = headrace("run", str(folder / "app.py"), "--gateway", address)

    def start(self, *options: str, **environ: str) -> "subprocess.Popen[str]":
        """Runs the application, once its stream is there."""
        _eventually(self._has_stream)
        env = {**os.environ, **environ}
        return subprocess.Popen(
            [*self._command, *options], cwd=self._folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _has_stream(self) -> bool:
        with grpc.insecure_channel(self._address) as channel:
            try:
                status = AdminServiceStub(channel).GetStatus(GetStatusRequest(), timeout=300)
            except grpc.RpcError:
                return False
        return any(stream.stream.startswith("words/") for stream in status.streams)

    @property
    def results(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in (self._folder / "out").glob("*.lines"))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    with process_group({name: [] for name in ("gateway", "source", "sink")}, tmp_path) as parts:
        yield Application(tmp_path, parts, free_address())


def _eventually(condition: Callable[[], object], run: "subprocess.Popen[str] | None" = None) -> None:
    """Waits for something, which a run that has ended does not bring about."""
    deadline = time.monotonic() + 100
    while not condition():
        if run is not None and (run.poll() is not None or time.monotonic() > deadline):
            run.terminate()
            pytest.fail("".join(run.communicate(timeout=300)))
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _foreign(errors: str) -> list[str]:
    """The lines that are not Headrace's own."""
    return [line for line in errors.splitlines() if not PROGRESS.fullmatch(line)]


def test_an_application_that_is_stopped_prints_its_own_lines_only(application: Application) -> None:
    with application.start() as run:
        _eventually(lambda: application.results == 1000, run)
        # It is stopped amid a micro-batch.
        with application.words.open("a") as words:
            words.write("more words\n" * 100_000)
        _eventually(lambda: application.results > 1000, run)
        run.send_signal(signal.SIGTERM)
        out, errors = run.communicate(timeout=300)
    assert (run.returncode, out, _foreign(errors)) == (0, "", [])


def test_an_application_that_ends_by_itself_prints_its_own_lines_only(application: Application) -> None:
    with application.start("--available-now", HEADRACE_VERBOSE="0") as run:
        out, errors = run.communicate(timeout=300)
    assert (run.returncode, out, _foreign(errors)) == (0, "", [])
    assert application.results == 1000


def test_verbose_shows_what_spark_logs(application: Application) -> None:
    with application.start("--available-now", "--verbose") as run:
        _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    assert any(" WARN " in line for line in _foreign(errors))


def test_an_error_of_the_application_is_shown_once_with_its_traceback(application: Application) -> None:
    with application.words.open("a") as words:
        words.write("boom\n")
    with application.start() as run:
        _, errors = run.communicate(timeout=300)
    assert run.returncode == 1, errors
    lines = _foreign(errors)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines.count(lines[0]) == 1
    assert any(line.strip().startswith(f'File "{application.words.parent}/app.py", line 7, in count') for line in lines)
    assert lines[-2] == "ValueError: a word that cannot be counted"
    assert lines[-1].startswith("Error: ")
    assert "pipeline words, step counts, key 'boom'" in lines[-1]


def test_log4j_settings_of_a_user_stay_in_force(tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.own.ref = own\nappender.own.type = Console\nappender.own.name = own\n"
        "appender.own.target = SYSTEM_ERR\nappender.own.layout.type = PatternLayout\nappender.own.layout.pattern = MINE %m%n\n"
    )
    program = "from headrace.engine import build_session; build_session('logs', quiet=True).stop()"
    environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=200, check=True)
    # A warning that each session of PySpark begins with: a shell of Spark shows no less than warnings.
    assert any(line.startswith("MINE Unable to load native-hadoop") for line in done.stderr.splitlines()), done.stderr
