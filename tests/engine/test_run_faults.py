"""Where an error of a query began, and what its driver reports of it."""

from pathlib import Path

import pytest

from headrace.engine.spark import causes
from headrace.engine.spark.causes import cause_of
from headrace.engine.spark.run_faults import failed
from headrace.protocol.v1 import metrics_pb2 as pb

OF_A_FUNCTION = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/headrace/pipelines/steps/step.py", line 61, in call
    return function(value)
  File "/home/me/orders.py", line 12, in price
    return prices[name]
KeyError: 'tea'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/headrace/pipelines/steps/step.py", line 64, in call
    raise StepFailed(f"step price: {error!r}") from error
headrace.pipelines.StepFailed: step price: KeyError('tea')

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)
\t... 21 more
"""
OF_PYTHON = (
    '  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode\n    raise JSONDecodeError("Expecting value")\n'
)
NO_THREAD = "RuntimeError: can't start new thread (orders.py, line 12, in price)"
OF_A_DISK = """org.apache.spark.SparkException: [STREAM_FAILED] Query [id = 1] terminated
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 21 more
"""
OF_THE_JVM = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/headrace/engine/applications/batches/commits.py", line 9, in commit
    write()
  File "/venv/lib/python3.12/site-packages/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o52.write.
: java.io.FileNotFoundException: /data/checkpoint/states/7 (Read-only file system)
\tat java.base/java.io.FileOutputStream.open0(Native Method)
\t... 21 more
"""
OF_A_SINK = """org.apache.spark.SparkException: Writing job aborted
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/headrace/engine/sink/delivery.py", line 140, in finish
    raise meaning from None
headrace.engine.SinkFailed: sink totals-out cannot write batch 7: instance w: No space left on device; restart the query
\t... 21 more
"""


@pytest.mark.parametrize(
    ("error", "text", "origin", "about"),
    [
        (OF_A_FUNCTION, "KeyError: 'tea' (orders.py, line 12, in price)", pb.RUN_FAULT_ORIGIN_FUNCTION, ""),
        (OF_A_DISK, "java.io.IOException: No space left on device", pb.RUN_FAULT_ORIGIN_STORAGE, ""),
        (
            OF_THE_JVM,
            "java.io.FileNotFoundException: /data/checkpoint/states/7 (Read-only file system)",
            pb.RUN_FAULT_ORIGIN_STORAGE,
            "/data/checkpoint/states/7",
        ),
        (
            OF_A_SINK,
            "headrace.engine.SinkFailed: sink totals-out cannot write batch 7: instance w: No space left on device; "
            "restart the query",
            pb.RUN_FAULT_ORIGIN_SINK,
            "totals-out",
        ),
        (
            "a.B: x\nCaused by: java.io.FileNotFoundException: /data/checkpoint/offsets/.7.tmp (Permission denied)\n",
            "java.io.FileNotFoundException: /data/checkpoint/offsets/.7.tmp (Permission denied)",
            pb.RUN_FAULT_ORIGIN_STORAGE,
            "/data/checkpoint/offsets/.7.tmp",
        ),
        (
            OF_A_FUNCTION.replace("KeyError: 'tea'", "PermissionError: [Errno 13] Permission denied: '/etc/secret'"),
            "PermissionError: [Errno 13] Permission denied: '/etc/secret' (orders.py, line 12, in price)",
            pb.RUN_FAULT_ORIGIN_FUNCTION,
            "",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat a.b\n\t... 3 more", None, pb.RUN_FAULT_ORIGIN_SPARK, ""),
        (
            OF_A_FUNCTION.replace("KeyError: 'tea'", "RuntimeError: can't start new thread"),
            NO_THREAD,
            pb.RUN_FAULT_ORIGIN_SPARK,
            "",
        ),
        (
            OF_A_FUNCTION.replace("KeyError: 'tea'", f"{OF_PYTHON}json.decoder.JSONDecodeError: Expecting value"),
            "json.decoder.JSONDecodeError: Expecting value (orders.py, line 12, in price)",
            pb.RUN_FAULT_ORIGIN_FUNCTION,
            "",
        ),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", None, pb.RUN_FAULT_ORIGIN_SPARK, ""),
        ("[USER_RAISED_EXCEPTION] no price SQLSTATE: P0001\n\tat a.b", None, pb.RUN_FAULT_ORIGIN_FUNCTION, ""),
        (
            "Caused by: java.lang.RuntimeException: headrace.engine._errors.Replaced: another driver has started this query",
            "java.lang.RuntimeException: headrace.engine._errors.Replaced: another driver has started this query",
            pb.RUN_FAULT_ORIGIN_OTHER_RUN,
            "",
        ),
        ("java.io.IOException: another driver has continued this query", None, pb.RUN_FAULT_ORIGIN_OTHER_RUN, ""),
        ("headrace.engine.Replaced: run 4 has started", None, pb.RUN_FAULT_ORIGIN_OTHER_RUN, ""),
        (
            "headrace.engine.SourceSilent: stream orders/0 sends nothing; start its connector",
            None,
            pb.RUN_FAULT_ORIGIN_SOURCE,
            "orders/0",
        ),
        ("something else\n\t... 21 more", "something else", pb.RUN_FAULT_ORIGIN_UNSPECIFIED, ""),
    ],
)
def test_an_error_is_reduced_to_its_first_cause(error: str, text: str | None, origin: int, about: str) -> None:
    cause = cause_of(error)
    assert cause.text == (text or error.partition("\n")[0])
    assert (cause.origin, cause.about) == (origin, about)


def test_a_full_disk_is_named_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, temporary = tmp_path / "checkpoint", tmp_path / "spark"
    monkeypatch.setattr(causes, "is_full", lambda folder: folder == str(checkpoint))
    fault = failed(7, OF_A_DISK, f"file://{checkpoint}", [str(temporary)])
    assert fault.message == f"java.io.IOException: No space left on device: {checkpoint} has no room left"
    assert (fault.about, fault.batch) == (str(checkpoint), 7)


def test_a_disk_that_has_room_again_is_named_among_others(tmp_path: Path) -> None:
    fault = failed(0, OF_A_DISK, str(tmp_path), ["/nowhere"])
    assert fault.message.endswith(f"it writes to {tmp_path} and /nowhere")


def test_a_disk_without_inodes_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        f_bavail, f_frsize, f_files, f_favail = 10**6, 4096, 64, 0

    assert not causes.is_full(str(tmp_path / "gone"))
    monkeypatch.setattr(causes.os, "statvfs", lambda folder: Found)  # type: ignore[attr-defined]
    assert causes.is_full(str(tmp_path))
