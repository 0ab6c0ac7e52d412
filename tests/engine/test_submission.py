"""Settings that Spark gets from outside the program, as far as they can be read before there is a JVM to ask."""

from pathlib import Path

import pytest

from headrace.engine.spark.submission import settings_before_jvm

DEFAULTS = """
# Everybody's.
spark.master            spark://defaults:7077
spark.ui.enabled=true
  spark.eventLog.dir :  hdfs://name/logs
spark.driver.defaultJavaOptions -Dnumbers="one two" -Xss4m
! spark.hidden true
"""


@pytest.fixture(autouse=True)
def conf_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def test_nothing_is_found_where_nothing_is_said() -> None:
    assert settings_before_jvm() == {}


def test_the_defaults_are_read_as_java_reads_them(conf_dir: Path) -> None:
    (conf_dir / "spark-defaults.conf").write_text(DEFAULTS)
    assert settings_before_jvm() == {
        "spark.master": "spark://defaults:7077",
        "spark.ui.enabled": "true",
        "spark.eventLog.dir": "hdfs://name/logs",
        "spark.driver.defaultJavaOptions": '-Dnumbers="one two" -Xss4m',
    }


def test_they_lie_beside_spark_where_nothing_else_is_said(conf_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(conf_dir))
    (conf_dir / "conf").mkdir()
    (conf_dir / "conf" / "spark-defaults.conf").write_text("spark.master yarn\n")
    assert settings_before_jvm() == {"spark.master": "yarn"}


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("--master yarn pyspark-shell", {"spark.master": "yarn"}),
        (
            "--master=k8s://https://h:1 --deploy-mode client pyspark-shell",
            {"spark.master": "k8s://https://h:1", "spark.submit.deployMode": "client"},
        ),
        ("--conf spark.a=1 -c spark.b=x=y --conf=spark.c=2 pyspark-shell", {"spark.a": "1", "spark.b": "x=y", "spark.c": "2"}),
        ("--conf 'spark.a=one two' pyspark-shell", {"spark.a": "one two"}),
        ("--driver-java-options '-Xss4m -Dx=1' pyspark-shell", {"spark.driver.extraJavaOptions": "-Xss4m -Dx=1"}),
    ],
)
def test_arguments_for_spark_submit_go_before_the_defaults(
    arguments: str, settings: dict[str, str], conf_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (conf_dir / "spark-defaults.conf").write_text("spark.master spark://defaults:7077\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    assert settings_before_jvm() == {"spark.master": "spark://defaults:7077", **settings}


def test_a_file_of_properties_may_be_named_instead(conf_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf_dir / "spark-defaults.conf").write_text("spark.master yarn\n")
    (conf_dir / "mine.conf").write_text("spark.master spark://mine:7077\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {conf_dir / 'mine.conf'} pyspark-shell")
    assert settings_before_jvm() == {"spark.master": "spark://mine:7077"}


def test_the_environment_names_a_master_where_nothing_else_does(conf_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "spark://environment:7077")
    assert settings_before_jvm() == {"spark.master": "spark://environment:7077"}
    (conf_dir / "spark-defaults.conf").write_text("spark.master yarn\n")
    assert settings_before_jvm() == {"spark.master": "yarn"}
