"""Who works, and with which settings, is what the user has told Spark: by spark-submit, or by spark-defaults.conf."""

import json
import subprocess
import textwrap
from pathlib import Path

from headrace.cluster import SparkCluster

DEADLINE_S = 120.0
SUBMITTED = """
    import json, sys
    from headrace.engine import build_session

    spark = build_session("submitted")
    names = ["spark.ui.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.python.daemon.module"]
    workers = spark.sparkContext.parallelize(range(2), 2).map(lambda _: __import__("sys").prefix).collect()
    said = {name: spark.conf.get(name) for name in names}
    print(json.dumps({"master": spark.sparkContext.master, "id": spark.sparkContext.applicationId, "workers": workers, **said}))
"""
SETTINGS = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Europe/Vienna", "spark.sql.shuffle.partitions": "5"}


def executors_of(cluster: SparkCluster, application: str) -> list[Path]:
    """The folders that executors of an application had at the cluster's workers."""
    return [folder for worker in cluster.workers for folder in (worker.folder / "work" / application).glob("*")]


def run(command: list[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(said: dict[str, object], cluster: SparkCluster, executor_python: Path) -> None:
    assert said["master"] == cluster.master
    assert executors_of(cluster, str(said["id"]))
    assert said["workers"] == [str(executor_python.parents[1])] * 2
    assert {name: said[name] for name in SETTINGS} == SETTINGS
    assert said["spark.python.daemon.module"] == "headrace.engine._daemon"


def test_a_submitted_program_runs_where_and_as_spark_submit_says(
    cluster: SparkCluster, executor_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(SUBMITTED))
    conf = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    said = json.loads(run([*cluster.submit, *conf, "program.py"], tmp_path, cluster.environ))
    check(said, cluster, executor_python)


def test_a_program_of_its_own_runs_where_and_as_the_defaults_say(
    cluster: SparkCluster, executor_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(SUBMITTED))
    lines = {"spark.master": cluster.master, "spark.pyspark.python": str(executor_python), **SETTINGS}
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name}   {value}\n" for name, value in lines.items()))
    environ = {name: value for name, value in cluster.environ.items() if name != "PYSPARK_PYTHON"}
    said = json.loads(
        run([environ["PYSPARK_DRIVER_PYTHON"], "program.py"], tmp_path, environ | {"SPARK_CONF_DIR": str(tmp_path)})
    )
    check(said, cluster, executor_python)
