"""The steps of a driver's start, as a benchmark sees them from outside."""

import os
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.laboratory.bench.steps import Seen, Watch, committed_since, lines, steps

DEADLINE_S = 120.0
ROLES = ("headrace.cli", "JVM", "pyspark.worker", "pyspark.sql.streaming.python_streaming_source_runner")
MODULE = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "pyspark.worker"])
while time.process_time() < 0.1:
    pass
time.sleep(600)
"""


@given(st.lists(st.tuples(st.sampled_from(ROLES), st.floats(0, 1e3))), st.floats(0, 1e3), st.floats(0, 1e3))
def test_the_steps_are_never_negative_and_end_with_the_last_event(
    begins: list[tuple[str, float]], committed_s: float, result_s: float
) -> None:
    seen = sorted((Seen(at_s, role, 0.0) for role, at_s in begins), key=lambda each: each.began_s)
    found = steps(seen, committed_s, result_s)
    assert [each.name for each in found] == ["imports", "jvm_and_session", "query", "first_micro_batch", "result"]
    assert all(each.seconds >= 0 for each in found)
    assert sum(each.seconds for each in found) >= max(committed_s, result_s) * (1 - 1e-9)


def test_each_step_ends_with_the_first_event_of_its_kind() -> None:
    at = {"headrace.cli": 0.0, "JVM": 1.0, "pyspark.worker": 3.0, ROLES[3]: 6.0}
    seen = [Seen(at_s, role, 0.5) for role, at_s in at.items()]
    assert [each.seconds for each in steps([*seen, Seen(8.0, "pyspark.worker", 0.5)], 10.0, 15.0)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert lines(seen[:2], [("a micro-batch is committed", 0.25)]) == [
        "      0.00 s  headrace.cli begins; processor time 0.50 s",
        "      0.25 s  a micro-batch is committed",
        "      1.00 s  JVM begins; processor time 0.50 s",
    ]


def test_the_processes_of_a_driver_are_seen_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "headrace_driver.py").write_text(MODULE)
    command = [sys.executable, "-m", "headrace_driver", "headrace.cli"]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True) as driver:
        try:
            with Watch(driver.pid) as watch:
                until = time.monotonic() + DEADLINE_S
                while [each.role for each in watch.seen] != ["headrace.cli", "pyspark.worker"] or not watch.cpu_s:
                    assert time.monotonic() < until, watch.seen
                    time.sleep(0.02)
            assert watch.seen[0].began_s == 0.0
        finally:
            os.killpg(driver.pid, 9)


def test_the_first_commit_after_a_moment_counts(tmp_path: Path) -> None:
    assert committed_since(tmp_path, 0.0) is None
    (tmp_path / "commits").mkdir()
    for name, at in (("0", 10.0), ("1", 20.0), ("2", 30.0), (".3.tmp", 15.0)):
        (tmp_path / "commits" / name).touch()
        os.utime(tmp_path / "commits" / name, (at, at))
    assert committed_since(tmp_path, 10.0) == 20.0
    assert committed_since(tmp_path, 30.0) is None
