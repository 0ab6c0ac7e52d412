"""Why a program has ended, as its last lines say."""

from pathlib import Path

import pytest

from headrace.deploy.logs import last_error_line
from headrace.machine.traces import last_words, without_progress

TRACE = [
    "org.apache.spark.SparkException: Job aborted",
    "at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)",
    "Caused by: java.io.IOException: No space left on device",
    "at java.base/java.io.FileOutputStream.writeBytes(Native Method)",
    "... 21 more",
]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (TRACE, "java.io.IOException: No space left on device"),
        (TRACE[:2], "org.apache.spark.SparkException: Job aborted"),
        ([*TRACE, "stopped"], "stopped"),
        (
            [": java.nio.file.FileSystemException: /local/a: No space left on device"],
            "java.nio.file.FileSystemException: /local/a: No space left on device",
        ),
        (["... 3 common frames omitted"], ""),
        ([], ""),
    ],
)
def test_the_last_words_of_a_program_are_no_line_of_a_trace(lines: list[str], expected: str) -> None:
    assert last_words(lines) == expected


def test_a_driver_that_ends_in_a_trace_is_not_reduced_to_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("\n\t".join(TRACE) + "\n")
    assert last_error_line(log, 0) == "java.io.IOException: No space left on device"


def gone(*printed: str) -> str:
    """The output of a plain Spark program whose JVM does not start."""
    raised = "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited."
    return "\n".join([*printed, "Traceback (most recent call last):", '  File "prices.py", line 9, in <module>', raised, ""])


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            ["Error occurred during initialization of VM", "Initial heap size set to a larger value than the maximum heap size"],
            "it has printed: Error occurred during initialization of VM; Initial heap size set to a larger value than the "
            "maximum heap size",
        ),
        (
            ["WARNING: incubating", "Unrecognized VM option 'X'", "Error: Could not create the JVM.", "Error: It will exit."],
            "it has printed: Unrecognized VM option 'X'; Error: Could not create the JVM.; Error: It will exit.",
        ),
        (
            ["Exception in thread main java.io.IOException: No space", *["\tat a.B.c(B.java:1)"] * 90],
            "it has printed: Exception in thread main java.io.IOException: No space",
        ),
        ([], "it has printed nothing; headrace doctor looks for what this machine lacks"),
    ],
)
def test_a_jvm_that_does_not_start_is_reported_with_what_it_has_printed(
    tmp_path: Path, printed: list[str], expected: str
) -> None:
    log = tmp_path / "prices.log"
    log.write_text(gone(*printed))
    assert last_error_line(log, 0) == f"Spark's JVM has ended before it was ready: {expected}"


@pytest.mark.parametrize(
    "line", ["Error occurred during initialization of VM", "ERROR:root:Exception while sending command", "Errors: 3"]
)
def test_a_line_of_another_program_that_begins_with_error_is_shown_whole(tmp_path: Path, line: str) -> None:
    log = tmp_path / "app.log"
    log.write_text(f"first\n{line}\n")
    assert last_error_line(log, 0) == line


BARS = "\r[Stage 1:>              (0 + 1) / 1]\r[Stage 1:>   (0 + 1) / 1][Stage 2:> (0 + 0) / 8]\r            \r"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (f"one\n{BARS}ValueError: no price\n\nlast", "one\nValueError: no price\n\nlast"),
        (f"{BARS}one\n{BARS}", "one\n"),
        (f"one{BARS}two", "one\ntwo"),
        ("[Stage one] and [Stage 1: no end\n", "[Stage one] and [Stage 1: no end\n"),
    ],
)
def test_progress_bars_of_spark_are_not_among_the_lines_of_a_program(tmp_path: Path, printed: str, shown: str) -> None:
    assert without_progress(printed) == shown
    log = tmp_path / "app.log"
    log.write_bytes(printed.encode())
    assert last_error_line(log, 0) == shown.rstrip().rpartition("\n")[2]


def test_an_error_before_a_progress_bar_is_why_a_program_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(f"{BARS}Error: no price\n{BARS}".encode())
    assert last_error_line(log, 0) == "no price"
