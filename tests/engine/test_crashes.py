"""Functions that end or crash their process on Spark: the query fails, and names the step, the stream and the message."""

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine.applications.stages import call_files
from headrace.pipelines import Pipeline
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

DEADLINE_S = 150.0
WAYS: dict[str, Callable[[], object]] = {"exit": lambda: os._exit(3), "segfault": lambda: ctypes.string_at(0)}


def application(name: str, way: Callable[[], object], *, keyed: bool) -> Pipeline:
    def end(number: int, state: object = None) -> str:
        if number == 7:
            way()
        return str(number)

    app = Pipeline(name)
    numbers = app.source("n/*", decode=int)
    if keyed:
        numbers.key_by(lambda _: 0, name="all").stateful(end, list, name="end").sink("out")
    else:
        numbers.map(end, name="end").sink("out")
    return app


@pytest.mark.parametrize("keyed", [True, False], ids=["in a worker", "in the planner"])
@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_ends_its_process_is_named(
    way: str, keyed: bool, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("5\n6\n7\n8\n")
    app = application(f"crashes-{way}-{'keyed' if keyed else 'first'}", WAYS[way], keyed=keyed)
    with rig(spark, tmp_path) as running, caplog.at_level(logging.ERROR), pytest.raises(StreamingQueryException) as raised:
        running.run(app, FileSource("n", [file], follow=False))
    where = f"pipeline {app.graph.name}, step end, stream n/0, sequence 6"
    said = f"a Python process of the application has died while it processed {where}"
    # Spark tells of the end of a query later, from another thread.
    deadline = time.monotonic() + DEADLINE_S
    while said not in [record.getMessage() for record in caplog.records]:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.05)
    if keyed:
        assert where in str(raised.value)


@pytest.mark.parametrize("real_time", [False, True], ids=["micro-batches", "real-time mode"])
def test_the_status_shows_a_function_that_runs_and_for_how_long(
    real_time: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_files, "LONG_S", 1.0)
    runs, may = tmp_path / "runs", tmp_path / "may"

    def wait(number: int, state: list[int]) -> str:
        while number == 7 and not may.exists():
            runs.touch()
            time.sleep(0.01)
        return str(number)

    app = Pipeline(f"runs-{'in-the-driver' if real_time else 'in-a-worker'}")
    app.source("n/*", decode=int).key_by(lambda _: 0, name="all").stateful(wait, list, name="wait").sink("out")
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("5\n6\n7\n")
    faults: list[tuple[str, int]] = []
    over = threading.Event()

    def look(address: str) -> None:
        # The deadline begins with the function: before it, Spark takes its time.
        while not runs.exists() and not over.wait(0.05):
            pass
        deadline = time.monotonic() + DEADLINE_S
        with grpc.insecure_channel(address) as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            while not faults and time.monotonic() < deadline and not over.is_set():
                status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S)
                faults.extend((each.fault.message, each.fault.age_ms) for each in status.pipelines if each.fault.message)
                time.sleep(0.05)
        may.touch()

    with rig(spark, tmp_path) as running:
        looking = threading.Thread(target=look, args=(running._address,))
        looking.start()
        words = {"real_time": True, "trigger_interval": "200ms"} if real_time else {}
        try:
            running.run(app, FileSource("n", [file], follow=False), **words)
        finally:
            over.set()
            looking.join()
    ((message, age_ms),) = faults
    assert message.startswith("a function has been running for ")
    assert message.endswith(f" s: pipeline {app.graph.name}, step wait, stream n/0, sequence 6")
    assert age_ms >= 1000
