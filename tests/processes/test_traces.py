"""Why a program has ended, as its last lines say."""

from pathlib import Path

import pytest

from headrace.deploy.logs import last_error_line
from headrace.processes import last_words

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
