"""A program: tasks write and read files of states in a folder, through the service of their executors, and the driver reads them.

`python -m tests.cluster.served_files MASTER FOLDER`. Prints what the tasks found, and where the services' sockets are.
"""

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import SparkFiles

from headrace.engine import build_session
from headrace.engine.checkpoint.state_files import StateFiles, state_files
from headrace.engine.spark.served_files import driver_files, served

TASKS = 4
CONTENT = [b"some ", bytes(300_000), b" of them"]
LENGTH = sum(len(part) for part in CONTENT)
HALF = 16 << 20
DEADLINE_S = 150.0


def failure(call: Callable[[], Any]) -> str:
    """What kind of error a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "none"


def report(files: StateFiles, name: str) -> dict[str, Any]:
    """A task's view of its file, and of others."""
    absent = failure(lambda: files.read(name, 0, 1))
    files.write(name, CONTENT)
    return {
        "before": absent,
        "whole": files.read(name, 0, LENGTH) == b"".join(CONTENT),
        "part": files.read(name, LENGTH - 4, 4).decode(),
        "second": failure(lambda: files.write(name, [b"other"])),
        "short": failure(lambda: files.read(name, 8, LENGTH)),
        "after": failure(lambda: files.read(name, LENGTH + 1, 1)),
    }


def leave_half_a_file(service: str, files: StateFiles, root: str) -> str:
    """The readable part of a file, once its writer has ended in the middle."""
    name = f"{root}/half".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(service)
        client.sendall(struct.pack(">BIQQ", 2, len(name), 0, 2 * HALF) + name + bytes(HALF))
    # The service deletes it, and then it can be written.
    deadline = time.monotonic() + DEADLINE_S
    while (refused := failure(lambda: files.write("half", [b"again"]))) != "none" and time.monotonic() < deadline:
        time.sleep(0.1)
    return refused if refused != "none" else files.read("half", 0, 5).decode()


def main(master: str, root: str) -> None:
    """Runs the tasks, and prints the reports."""
    spark = build_session("served files", master, quick_start=True)
    files = driver_files(spark, root)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            told = [
                report(state_files(root), f"{number}/new/file")
                | {"service": Path(SparkFiles.getRootDirectory(), "headrace-files").read_text(), "folder": os.getcwd()}
                for number in batch["bucket"].to_pylist()
            ]
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(each) for each in told]})

    rows = spark.range(0, TASKS, 1, TASKS).selectExpr("CAST(id AS INT) AS bucket")
    reports = served(rows, root).mapInArrow(task, "report string").collect()
    service = str(cast(Any, spark._jvm).headrace.engine.CheckpointFiles.serve())
    driver = {
        "found": [files.read(f"{number}/new/file", 0, LENGTH) == b"".join(CONTENT) for number in range(TASKS)],
        "half": leave_half_a_file(service, files, root),
        "service": service,
    }
    spark.stop()
    print(json.dumps({"tasks": [json.loads(each[0]) for each in reports], "driver": driver}))


if __name__ == "__main__":
    main(*sys.argv[1:])
