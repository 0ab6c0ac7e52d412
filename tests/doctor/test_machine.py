"""`headrace doctor` on machines that lack something: each is provoked, and named with its fix."""

import os
import sys
from pathlib import Path

import pytest
from tests.doctor.examining import VERSION, check

from headrace.doctor import Finding, Level
from headrace.doctor.machine import left_of_limits, memory_finding
from headrace.terminal import EXIT_ENVIRONMENT


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user: Spark sessions of other tests have left theirs."""
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "HEADRACE_WORKER_PYTHON", "SPARK_HOME", "SPARK_LOCAL_DIRS"):
        monkeypatch.delenv(variable, raising=False)


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def is_lacking(finding: Finding, found: str, fix: str) -> None:
    assert (finding.level, finding.exit_code) == (Level.FAILED, EXIT_ENVIRONMENT)
    assert found in finding.text
    assert fix in finding.fix


def distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    """The metadata of an installed distribution, which comes before what is really installed."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {need}" for need in requires)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


def test_a_machine_that_runs_these_tests_has_what_it_needs() -> None:
    for name in ("python", "java", "versions", "spark"):
        finding = check(name)
        assert finding.level is Level.OK, finding
        assert not finding.fix
    assert check("python").text.startswith("Python 3.")
    assert "pyspark 4." in check("versions").text


def test_a_wrong_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    is_lacking(check("java"), "Spark needs Java 17 or newer, found none in JAVA_HOME (/nowhere)", "unset it")


def test_no_java_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    is_lacking(check("java"), "Spark needs Java 17 or newer, found none in PATH", "install OpenJDK 17")


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_392", "8")])
def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: str) -> None:
    program(tmp_path / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    is_lacking(check("java"), f"found {major} in JAVA_HOME ({tmp_path})", "point JAVA_HOME to such a Java")


def test_a_java_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "echo 'cannot allocate memory' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    is_lacking(check("java"), "does not start: cannot allocate memory", "unset it")


@pytest.mark.parametrize("variable", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_workers_that_run_another_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str) -> None:
    other = program(tmp_path / "python3.9", "echo 3.9")
    monkeypatch.setenv(variable, str(other))
    is_lacking(check("python"), f"{variable} = {other} is Python 3.9, but this is Python 3.", f"unset {variable}, or set it to")
    monkeypatch.setenv(variable, "/nowhere/python")
    is_lacking(check("python"), "/nowhere/python does not start", f"set it to {sys.executable}")
    monkeypatch.setenv(variable, sys.executable)
    assert check("python").level is Level.OK


def test_a_package_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution(tmp_path, "pyarrow", "15.0.2")
    monkeypatch.syspath_prepend(str(tmp_path))
    is_lacking(check("versions"), "pyarrow 15.0.2, but headrace-", "pip install 'pyarrow>=26'")


def test_a_package_that_is_too_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution(tmp_path, "pyspark", "4.4.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    is_lacking(check("versions"), "pyspark 4.4.0, but headrace-engine requires", "pip install 'pyspark")


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution(tmp_path, "headrace-base", VERSION, "grpcio>=1", "not-there-at-all>=2", 'of-an-extra; extra == "x"')
    monkeypatch.syspath_prepend(str(tmp_path))
    is_lacking(check("versions"), "not-there-at-all is missing", "pip install 'not-there-at-all>=2'")
    assert "of-an-extra" not in check("versions").text


def test_distributions_of_two_releases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution(tmp_path, "headrace-sdk", "0.0.9")
    monkeypatch.syspath_prepend(str(tmp_path))
    is_lacking(check("versions"), "headrace-sdk 0.0.9", f"pip install 'headrace-sdk=={VERSION}'")


def test_a_client_library_that_is_too_old_or_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution(tmp_path, "nats-py", "1.0.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    is_lacking(check("nats"), "nats-py 1.0.0, but", "pip install 'headrace-connectors[nats]'")
    distribution(tmp_path / "b", "headrace-connectors", VERSION, 'not-there-at-all>=2; extra == "kafka"')
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    finding = check("kafka")
    assert (finding.level, finding.fix) == (Level.SKIPPED, "pip install 'headrace-connectors[kafka]'")
    assert finding.text == "the client library is not installed (not-there-at-all)"


def test_a_folder_for_temporary_files_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{file}")
    is_lacking(check("disk"), f"cannot write to {file}: ", "set SPARK_LOCAL_DIRS to a writable folder")


def test_a_spark_home_without_a_spark_and_with_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    is_lacking(check("spark"), f"SPARK_HOME = {tmp_path} has no Spark", "unset SPARK_HOME")
    program(tmp_path / "bin" / "spark-submit", "exit 0")
    finding = check("spark")
    assert (finding.level, finding.exit_code) == (Level.WARNING, EXIT_ENVIRONMENT)
    assert finding.fix == "unset SPARK_HOME, unless that Spark has the same version"


@pytest.mark.parametrize(
    ("available", "level"),
    [(500 << 20, Level.FAILED), (1 << 30, Level.WARNING), (2 << 30, Level.OK), (64 << 30, Level.OK)],
)
def test_memory_is_judged_by_what_is_available(available: int, level: Level) -> None:
    finding = memory_finding(available)
    assert finding.level is level
    assert bool(finding.fix) == (level is not Level.OK)


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    assert min(left_of_limits(tmp_path)) == sys.maxsize
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1\n")
    assert min(left_of_limits(tmp_path)) == sys.maxsize
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert min(left_of_limits(tmp_path)) == 600
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("500\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("700\n")
    assert min(left_of_limits(tmp_path)) == 0


def test_spark_is_started_on_request_only() -> None:
    finding = check("session")
    assert (finding.level, finding.text) == (Level.SKIPPED, "Spark was not started")
    assert "headrace doctor --spark" in finding.fix


def test_spark_starts_and_runs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.doctor.spark._START_S", 900.0)
    finding = check("session", start_spark=True)
    assert finding.level is Level.OK, finding
    assert "started and ran Python in" in finding.text


def test_a_spark_that_does_not_start_is_told_by_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    finding = check("session", start_spark=True)
    assert (finding.level, finding.exit_code) == (Level.FAILED, 1)
    assert "JAVA_HOME is /nowhere" in finding.text
    assert "pyspark" in finding.fix
    assert os.environ["JAVA_HOME"] == "/nowhere"
