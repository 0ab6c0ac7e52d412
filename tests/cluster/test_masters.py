"""Who works, and with which settings, is what the user has told Spark: by spark-submit, or by spark-defaults.conf."""

import json
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from headrace.laboratory.cluster import SparkCluster
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, headrace

DEADLINE_S = 150.0
SUBMITTED = """
    import json, sys
    from headrace.engine import build_session

    spark = build_session("submitted")
    names = ["spark.ui.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.python.daemon.module"]
    workers = spark.sparkContext.parallelize(range(2), 2).map(lambda _: __import__("sys").prefix).collect()
    said = {name: spark.conf.get(name) for name in names}
    print(json.dumps({"master": spark.sparkContext.master, "id": spark.sparkContext.applicationId, "workers": workers, **said}))
"""
APPLICATION = """
    import json
    import sys
    from headrace.pipelines import Pipeline

    def count(word, state):
        state["seen"] = state.get("seen", 0) + 1
        return json.dumps([word, state["seen"], sys.prefix])

    app = Pipeline("words")
    app.source("words/*", decode=bytes.decode).key_by(str).stateful(count, dict, name="counts").sink("counts")
"""
SETTINGS = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Europe/Vienna", "spark.sql.shuffle.partitions": "5"}


def executors_of(cluster: SparkCluster, application: str) -> list[Path]:
    """The folders that executors of an application had at the cluster's workers."""
    return [folder for worker in cluster.workers for folder in (worker.folder / "work" / application).glob("*")]


def run(command: list[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr + done.stdout
    # Lines of the program's standard error come on the same way.
    return next(line for line in done.stdout.splitlines() if line.startswith("{"))


@pytest.mark.in_turn(2, 2)
def test_a_submitted_program_runs_where_and_as_spark_submit_says(
    cluster: SparkCluster, executor_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(SUBMITTED))
    conf = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    said = json.loads(run([*cluster.submit, *conf, "program.py"], tmp_path, cluster.environ))
    assert said["master"] == cluster.master
    assert executors_of(cluster, str(said["id"]))
    assert said["workers"] == [str(executor_python.parents[1])] * 2
    assert {name: said[name] for name in SETTINGS} == SETTINGS
    assert said["spark.python.daemon.module"] == "headrace.engine.spark.daemon"


@pytest.mark.in_turn(1, 2)
def test_headrace_run_needs_a_shared_checkpoint_and_has_the_executors_work(
    cluster: SparkCluster, executor_python: Path, tmp_path: Path
) -> None:
    """Nothing but spark-defaults.conf names the master, the executors' Python and the number of partitions."""
    (tmp_path / "application.py").write_text(textwrap.dedent(APPLICATION))
    (tmp_path / "words.txt").write_text("to be or not to be\n".replace(" ", "\n"))
    lines = {"spark.master": cluster.master, "spark.pyspark.python": str(executor_python), **SETTINGS}
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name}   {value}\n" for name, value in lines.items()))
    environ = {name: value for name, value in cluster.environ.items() if name != "PYSPARK_PYTHON"}
    environ["SPARK_CONF_DIR"] = str(tmp_path)
    address = free_address()
    application = ["run", "application.py", "--gateway", address, "--available-now", "--json"]
    commands = {
        "gateway": headrace("gateway", "--listen", address),
        "source": headrace("connector", "run", "file", "--path", "words.txt", "--source", "words", "--gateway", address),
        "sink": headrace(
            "connector", "run", "file-sink", "--path", "out", "--sink", "counts", "--format", "lines", "--gateway", address
        ),
        "refused": headrace(*application),
        "taken": headrace(*application, "--shared-checkpoint"),
    }
    processes = {name: OwnedProcess(name, command, tmp_path, environ) for name, command in commands.items()}
    try:
        assert ended(processes["refused"]) == 2
        assert "is on a local disk, and each machine of spark://" in "\n".join(processes["refused"].tail())
        assert not (tmp_path / "checkpoints").exists()
        for name in ("gateway", "source", "sink"):
            processes[name].start()
        assert ended(processes["taken"]) == 0, "\n".join(processes["taken"].tail())
        counted = results(tmp_path / "out", 6)
    finally:
        for process in processes.values():
            process.kill()
    assert sorted((word, count) for word, count, _ in counted) == [
        ("be", 1),
        ("be", 2),
        ("not", 1),
        ("or", 1),
        ("to", 1),
        ("to", 2),
    ]
    assert {prefix for _, _, prefix in counted} == {str(executor_python.parents[1])}
    offsets = (tmp_path / "checkpoints" / "words" / "offsets" / "0").read_text()
    assert '"spark.sql.shuffle.partitions":"5"' in offsets


def results(folder: Path, count: int) -> list[tuple[str, int, str]]:
    """The visible content of the sink, once it is long enough."""
    deadline = time.monotonic() + DEADLINE_S
    while len(lines := [line for file in folder.glob("*.lines") for line in file.read_text().splitlines()]) < count:
        assert time.monotonic() < deadline, f"the sink shows {lines}"
        time.sleep(0.05)
    return [tuple(json.loads(line)) for line in lines]


def ended(process: OwnedProcess) -> int:
    """Runs a process to its end."""
    process.start()
    deadline = time.monotonic() + DEADLINE_S
    while (code := process.exit_code()) is None:
        assert time.monotonic() < deadline, "\n".join(process.tail())
        time.sleep(0.05)
    return code
