"""`headrace prepare`, in a Python environment of its own: the archive of this one may be in use by other tests."""

import json
import os
import signal
import subprocess
import sysconfig
import time
import uuid
import venv
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.timeout(900)

_MARK = "TEST_OF_PREPARE"
SESSION = """
from headrace.engine import build_session

build_session("looks", conf={"spark.driver.extraJavaOptions": "-Xlog:class+load:file=loaded.txt"}).stop()
"""
IN_BACKGROUND = "from headrace.preparation import prepare_in_background; print(prepare_in_background())"


class Environment:
    """A Python environment that has what this one has, and no archive."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        self.folder = folder
        self.archive = f"headrace-spark-{version('pyspark')}"
        self.mark = uuid.uuid4().hex
        self._sessions = set[int]()

    def start(self, *arguments: str, **environ: str) -> "subprocess.Popen[str]":
        env = {**os.environ, _MARK: self.mark, **environ}
        if "CI" not in environ:
            env.pop("CI", None)
        command = [str(self.folder / "bin" / "python"), *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environ)
        out, errors = process.communicate(timeout=800)
        return process.returncode, out, errors

    def processes(self) -> list[psutil.Process]:
        """What was started here and runs: what has the mark, and whatever is in a session of its own with it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                session, marked = os.getsid(process.pid), process.environ().get(_MARK) == self.mark
                # A process has no variables for a moment while it executes another program; its session stays.
                if marked and session != os.getsid(0):
                    self._sessions.add(session)
                if (marked or session in self._sessions) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def commands(self) -> dict[int, list[str]]:
        """What runs, by process id."""
        found = {}
        for process in self.processes():
            with suppress(psutil.Error):
                found[process.pid] = process.cmdline()
        return found

    def files(self, pattern: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(pattern))


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    """Nothing that it has started may be left."""
    environment = Environment(tmp_path / "environment")
    yield environment
    left = environment.processes()
    for process in left:
        process.kill()
    assert left == []


def _eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.in_turn(2, 6)
def test_sessions_start_from_the_archive_that_one_of_two_preparations_makes(environment: Environment) -> None:
    (environment.folder / ".headrace-prepare-of-a-killed-one").mkdir()
    both = [environment.start("-m", "headrace.cli", "prepare", "--if-missing", "--json") for _ in range(2)]
    results = []
    for process in both:
        out, errors = process.communicate(timeout=800)
        assert process.returncode == 0, out + errors
        results.append(json.loads(out)["result"])
    assert sorted(result["took_s"] is None for result in results) == [False, True]
    (archive,) = {result["archive"] for result in results}
    assert Path(archive).parent == environment.folder
    assert Path(archive).stat().st_size == results[0]["bytes"] == results[1]["bytes"] > 2**20
    assert environment.files(".headrace-prepare-*") == []

    code, _, errors = environment.run("-c", SESSION)
    assert code == 0, errors
    loaded = (environment.folder / "loaded.txt").read_text()
    from_archive = loaded.count("source: shared objects file")
    from_jars = loaded.count("source: file:") + loaded.count("source: jar:")
    assert from_archive > 10 * from_jars

    assert environment.run("-c", IN_BACKGROUND)[1] == "False\n", "there is an archive"


def test_a_preparation_in_the_background_that_is_stopped_leaves_nothing(environment: Environment) -> None:
    code, out, errors = environment.run("-c", IN_BACKGROUND)
    assert (code, out) == (0, "True\n"), errors
    # Its JVM runs.
    _eventually(lambda: any(Path(command[0]).name == "java" for command in environment.commands().values() if command))
    (leader,) = [psutil.Process(pid) for pid, command in environment.commands().items() if "prepare" in command]
    # `nice -n 19` adds to the priority of this process.
    assert leader.nice() == min(19, os.nice(0) + 19)
    leader.send_signal(signal.SIGTERM)
    _eventually(lambda: environment.processes() == [])
    assert environment.files(".headrace-prepare-*") == []
    assert environment.files("*.jsa") == []


def test_a_preparation_that_is_killed_leaves_no_process(environment: Environment) -> None:
    code, out, errors = environment.run("-c", IN_BACKGROUND)
    assert (code, out) == (0, "True\n"), errors
    # The sink is the last process to start besides Spark, whose JVM is under way.
    parts = ({"gateway"}, {"connector", "file"}, {"connector", "file-sink"}, {"headrace.preparation.training"})
    _eventually(lambda: all(any(part <= set(command) for command in environment.commands().values()) for part in parts))
    (leader,) = [psutil.Process(pid) for pid, command in environment.commands().items() if "prepare" in command]
    leader.kill()
    _eventually(lambda: environment.processes() == [])


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"HEADRACE_PREPARE": "0"}], ids=lambda environ: "-".join(environ))
def test_nothing_begins_in_the_background_where_it_is_not_wanted(environment: Environment, environ: dict[str, str]) -> None:
    assert environment.run("-c", IN_BACKGROUND, **environ) == (0, "False\n", "")
    assert environment.processes() == []


def test_nothing_begins_soon_after_another_attempt_or_for_spark_elsewhere(environment: Environment) -> None:
    elsewhere = IN_BACKGROUND.replace("background()", "background('spark://elsewhere:7077')")
    assert environment.run("-c", elsewhere) == (0, "False\n", "")
    log = environment.folder / f"{environment.archive}.log"
    log.touch()
    assert environment.run("-c", IN_BACKGROUND) == (0, "False\n", "")
    assert environment.processes() == []


def test_without_java_it_says_what_to_install(environment: Environment, tmp_path: Path) -> None:
    code, _, errors = environment.run("-m", "headrace.cli", "prepare", JAVA_HOME=str(tmp_path))
    assert code == 3
    assert errors.startswith("Error: Spark needs Java 17 or newer, found none in JAVA_HOME")
