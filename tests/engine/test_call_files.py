"""A function that ends its process, crashes it or does not return: the driver names the step, the stream and the message."""

import errno
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.deploy.faulty_files import Files
from tests.disks import disk, fill

from headrace.engine.applications.stages import call_files
from headrace.engine.applications.stages.call_files import Call, CallFiles, function_runs
from headrace.pipelines.runtime import call_record

DEADLINE_S = 150.0
PROCESS = """
import ctypes, os, sys, threading, time
from headrace.engine.applications.stages.call_files import CallFiles, record_calls
from headrace.pipelines import Message, OnError, Pipeline, Trial

def wait():
    print("waits", flush=True)
    while True:
        pass

def end(value):
    if value == 7:
        WAYS[sys.argv[2]]()
    return value

WAYS = {"exit": lambda: os._exit(3), "abort": os.abort, "segfault": lambda: ctypes.string_at(0), "loop": wait}
folder = sys.argv[1]
if folder == "of its own":
    files = CallFiles(watches_driver=True)
    folder = files.path
    print(folder, flush=True)
record_calls(None if folder == "of Spark" else folder)
app = Pipeline("exits")
app.source("n/*", decode=int).map(end, name="step").sink("out", encode=str.encode)
Trial(app).send(*[Message(b"%d" % n, stream="n/0") for n in (5, 6, 7)])
"""
WHERE = "pipeline exits, step step, stream n/0, sequence 3"


def started(folder: str, way: str, **environ: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROCESS, folder, way]
    return subprocess.Popen(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallFiles]:
    monkeypatch.setattr(call_files, "LOOKS_EVERY_S", 0.05)
    files = CallFiles(watches_driver=False)
    yield files
    files.close()


@pytest.mark.parametrize("way", ["exit", "abort", "segfault"])
def test_a_process_that_dies_is_named_with_what_it_processed(
    way: str, files: CallFiles, caplog: pytest.LogCaptureFixture
) -> None:
    process = started(files.path, way)
    process.communicate(timeout=DEADLINE_S)
    files.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"a Python process of the application has died while it processed {WHERE}"
    ]
    assert not Path(files.path).exists()


def test_the_file_of_a_dead_process_stays_until_spark_has_read_it(
    files: CallFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_files, "KEPT_S", float("inf"))
    process = started(files.path, "exit")
    process.communicate(timeout=DEADLINE_S)
    wait_for(lambda: caplog.records)
    (file,) = Path(files.path).glob("[0-9]*")
    assert file.read_bytes().startswith(WHERE.encode())
    monkeypatch.setattr(call_files, "KEPT_S", 0.0)
    wait_for(lambda: not file.exists())
    assert len(caplog.records) == 1


def test_a_function_that_does_not_return_is_named_while_it_runs(
    files: CallFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_files, "LONG_S", 0.2)
    process = started(files.path, "loop")
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    try:
        wait_for(lambda: len(caplog.records) >= 2)
        # Its death is logged, too.
        logged = caplog.records[:]
        (call,) = files.running()
        fault = function_runs([Call(1, "of another step", 0.2), call])
    finally:
        process.kill()
        process.communicate()
    assert (call.pid, call.text) == (process.pid, WHERE)
    assert call.seconds >= 0.2
    assert fault is not None
    assert fault.message.startswith("a function has been running for ")
    assert fault.message.endswith(f" s: {WHERE}")
    assert fault.age_ms >= 200
    assert all("a function has been running for" in record.getMessage() for record in logged)
    assert all(record.getMessage().endswith(WHERE) and record.levelno == logging.WARNING for record in logged)


def test_a_call_that_has_not_run_for_long_hinders_nothing() -> None:
    assert function_runs([]) is None
    assert function_runs([Call(1, WHERE, call_files.LONG_S - 1)]) is None


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES])
def test_every_operation_on_these_files_may_fail_once(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They explain what a function does: without them, an application runs as well, and its log says why."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    layer, before = Files(monkeypatch, tmp_path, error), -1
    layer.fails = True
    try:
        while len(layer.failed) > before:
            layer.left, before = 1, len(layer.failed)
            files = CallFiles(watches_driver=False)
            call_files.record_calls(files.path)
            files.close()
    finally:
        layer.fails = False
        call_record().keep_in(None)
    made = {place.rpartition(" ")[2] for place in layer.failed}
    assert made >= {"mkdir", "open", "rename", "scandir", "pwrite"}, layer.failed
    said = "\n".join(record.getMessage() for record in caplog.records)
    silent = [place for place, function in layer.failed.items() if function not in FOR_OTHERS and place not in said]
    assert {place.partition(" ")[2] for place in silent} <= SILENT, said
    assert {path.name for path in tmp_path.iterdir()} == set()


SILENT = {"record_calls stat", "_look open", "_look scandir"}
"""What nobody misses: Spark has the record instead, or the next look finds it."""
FOR_OTHERS = {"abandoned", "remove"}
"""Who removes what drivers have left: if that fails, the next driver does it."""


def test_a_process_of_an_application_is_not_killed_where_the_disk_has_no_room_for_its_record(tmp_path: Path) -> None:
    with disk(tmp_path / "full", "size=64k") as folder:
        fill(folder)
        process = started(str(folder), "exit")
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3, errors
    assert f"cannot record what functions process, to explain a crash: [Errno 28] No space left on device: '{folder}" in errors


@pytest.mark.parametrize("way", ["exit", "abort", "segfault"])
def test_a_driver_that_dies_is_named_by_another_process(way: str) -> None:
    process = started("of its own", way)
    said, errors = process.communicate(timeout=DEADLINE_S)
    assert f"the process of the application has died while it processed {WHERE}\n" in errors
    # The next driver removes what is left.
    CallFiles(watches_driver=False).close()
    assert not Path(said.strip()).exists()


def test_a_driver_that_is_killed_is_named_with_what_it_processed() -> None:
    process = started("of its own", "loop")
    assert process.stdout is not None
    assert process.stdout.readline()
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert WHERE in errors


@pytest.mark.parametrize("way", ["exit", "abort", "segfault"])
@pytest.mark.parametrize("has_driver", [True, False])
def test_spark_finds_the_record_of_a_worker_and_the_place_in_the_code(way: str, has_driver: bool, tmp_path: Path) -> None:
    spark, driver = tmp_path / "spark", tmp_path / "driver"
    spark.mkdir()
    driver.mkdir()
    process = started(str(driver) if has_driver else "of Spark", way, PYTHON_FAULTHANDLER_DIR=str(spark))
    process.communicate(timeout=DEADLINE_S)
    record, *code = (spark / str(process.pid)).read_text().splitlines()
    assert record.strip() == WHERE
    assert ("Fatal Python error" in "".join(code)) == (way != "exit")
