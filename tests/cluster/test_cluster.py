"""The cluster that the tests of this folder, the demo and the benchmark run on: it is what it says, and nothing of it stays."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.cluster.hosts import OtherHost

from headrace.laboratory.cluster import ClusterError, SparkCluster

DEADLINE_S = 120.0
WHO_WORKS = """
    import json, os, sys
    from pyspark.sql import SparkSession

    def where(_):
        return os.getppid(), sys.prefix

    spark = SparkSession.builder.getOrCreate()
    found = spark.sparkContext.parallelize(range(2), 2).map(where).collect()
    print(json.dumps({"master": spark.sparkContext.master, "prefixes": sorted({prefix for _, prefix in found})}))
"""
OWNER = """
    import sys, time
    from pathlib import Path
    from headrace.laboratory.cluster import SparkCluster

    with SparkCluster(Path(sys.argv[1]), workers=1) as cluster:
        print(*(worker.pid for worker in cluster.workers), flush=True)
        time.sleep(600)
"""


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.05)


def run(cluster: SparkCluster, program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [*cluster.submit, str(file)], env=cluster.environ, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr + done.stdout
    # Lines of the program's standard error come on the same way.
    return next(line for line in done.stdout.splitlines() if line.startswith("{"))


def test_executors_are_of_the_workers_and_have_a_python_of_their_own(
    cluster: SparkCluster, executor_python: Path, tmp_path: Path
) -> None:
    said = json.loads(run(cluster, WHO_WORKS, tmp_path))
    assert said == {"master": cluster.master, "prefixes": [str(executor_python.parents[1])]}
    assert str(executor_python.parents[1]) != sys.prefix
    assert any((worker.folder / "work").glob("app-*/*/stderr") for worker in cluster.workers)


def test_a_worker_is_killed_and_another_one_added(cluster: SparkCluster) -> None:
    lost, kept = (worker for worker in cluster.workers if worker.runs)
    cluster.kill_worker(lost.pid)
    assert cluster.state().workers == {kept.address}
    with pytest.raises(ClusterError, match=f"no worker of this cluster has the process id {lost.pid}"):
        cluster.kill_worker(lost.pid)
    added = cluster.add_worker(cores=2)
    assert cluster.state().workers == {kept.address, added.address}


def test_a_worker_may_be_on_another_host(other_host: OtherHost, tmp_path: Path) -> None:
    with SparkCluster(tmp_path, workers=0, host=other_host.here) as cluster:
        there = cluster.add_worker(host=other_host.address, enter=other_host.enter)
        assert there.address.startswith(other_host.address)
        assert cluster.state().workers == {there.address}


def test_a_worker_that_cannot_start_is_reported_with_the_end_of_its_log(cluster: SparkCluster) -> None:
    with pytest.raises(ClusterError, match="ended with") as failed:
        cluster.add_worker(memory="none")
    assert cluster.workers[-1].process.tail()[-1] in str(failed.value)
    assert "=== master (runs)" in str(failed.value)


def test_nothing_is_left_behind_by_a_program_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path / "cluster")]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = psutil.Process(int(owner.stdout.readline()))
    os.kill(owner.pid, signal.SIGKILL)
    assert owner.wait(DEADLINE_S) == -signal.SIGKILL
    owner.stdout.close()
    folder = str(tmp_path / "cluster")
    wait_for("the worker to end", lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    wait_for("nothing to run in the cluster's folder", lambda: not any(folder in words for words in _command_lines()))


def _command_lines() -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
