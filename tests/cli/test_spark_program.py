"""A plain Spark program of a deployment that ends with an error: its last line says why, which the supervisor shows."""

import signal
import subprocess
import sys
from pathlib import Path

from headrace.machine.traces import JVM_ENDED, last_words

TIMEOUT_S = 300
PROGRAM = """
import resource

from pyspark.sql import SparkSession

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
SparkSession.builder.getOrCreate()
"""


def test_a_program_whose_jvm_ends_for_want_of_descriptors_names_them(tmp_path: Path) -> None:
    done = _run(tmp_path, PROGRAM)
    assert done.returncode == 1
    assert "JAVA_GATEWAY_EXITED" in done.stderr
    last = last_words(done.stderr.splitlines())
    assert last.startswith(f"{JVM_ENDED}: Spark's JVM may have 128 descriptors at most, and needs 512")


def test_a_program_that_fails_for_another_reason_ends_with_its_own_error(tmp_path: Path) -> None:
    done = _run(tmp_path, "raise ValueError('no price')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: no price"


QUERY_FAILS = """
raise RuntimeError('''[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure
java.nio.file.NoSuchFileException: /local/blockmgr-1/35
\\tat java.base/sun.nio.fs.UnixException.translateToIOException(UnixException.java:92)
=== Streaming Query ===
Logical Plan:
+- ~StreamingDataSourceV2ScanRelation[key#0, value#1] headrace
''')
"""


def test_a_program_whose_query_fails_ends_with_the_cause_and_not_with_the_plan_of_the_query(tmp_path: Path) -> None:
    done = _run(tmp_path, QUERY_FAILS)
    assert done.returncode == 1
    assert last_words(done.stderr.splitlines()) == "java.nio.file.NoSuchFileException: /local/blockmgr-1/35"


STOPS_ITS_SESSION = """
import os, signal, sys, threading, types

from headrace.pipelines import PerProcess

looked, stopped = threading.Semaphore(0), threading.Semaphore(0)


class Streams:
    @property
    def active(self):
        stopped.release()
        return []


class SparkSession:
    _instantiatedSession = types.SimpleNamespace(streams=Streams())

    @staticmethod
    def getActiveSession():
        looked.release()


sys.modules["pyspark.sql"] = types.SimpleNamespace(SparkSession=SparkSession)
PerProcess(list, teardown=lambda made: print("torn down", flush=True))()
if sys.argv[1:]:
    SparkSession._instantiatedSession = None
os.kill(os.getpid(), signal.SIGTERM)
looked.acquire()
stopped.acquire()
SparkSession._instantiatedSession = None
looked.acquire()
looked.acquire()
print("ended", flush=True)
"""


def test_a_program_that_is_stopped_runs_to_its_end_also_after_it_has_stopped_its_session(tmp_path: Path) -> None:
    done = _run(tmp_path, STOPS_ITS_SESSION)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["ended", "torn down"]), done.stderr


def test_a_program_without_a_session_is_ended_and_what_it_has_made_is_torn_down(tmp_path: Path) -> None:
    done = _run(tmp_path, STOPS_ITS_SESSION, "none")
    assert (done.returncode, done.stdout.splitlines()) == (128 + signal.SIGTERM, ["torn down"]), done.stderr


def _run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "headrace.cli.spark_program", "--gateway", "127.0.0.1:1", str(program), *arguments]
    pipe = subprocess.PIPE
    # Its standard input is a pipe, as a supervisor gives it one.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder) as process:
        out, err = (stream.read() for stream in (process.stdout, process.stderr) if stream is not None)
        return subprocess.CompletedProcess(command, process.wait(TIMEOUT_S), out, err)
