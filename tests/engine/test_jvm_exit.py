"""A JVM that ends before it is ready: the error says why."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.spark import session
from headrace.engine.spark.session import why_exited

PROGRAM = """
from headrace.engine import build_session
build_session("ends", quiet={quiet})
"""


@pytest.mark.parametrize("quiet", [True, False])
def test_a_java_that_ends_at_once_is_an_error_with_what_it_has_printed(tmp_path: Path, quiet: bool) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    frames = "\\tat a.B.c(B.java:1)\\n" * 50
    said = f"Unrecognized VM option\\nError: Could not create the Java Virtual Machine.\\n{frames}"
    java.write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")
    java.chmod(0o755)
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM.format(quiet=quiet)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert "Spark's JVM has ended before it was ready" in last
    assert ("it has printed: Unrecognized VM option; Error: Could not create the Java Virtual Machine." in last) is quiet


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is looked for on the path alone, on any machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize("content", [None, "bin/java is no program"])
def test_a_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(content)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert why_exited([]).startswith(f"JAVA_HOME is {tmp_path}, where no bin/java can be run")


def test_exhausted_descriptors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.os, "listdir", lambda folder: ["0"] * 250)  # type: ignore[attr-defined]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    assert why_exited([]).startswith("250 of 256 descriptors of this process are in use: raise the limit")


def test_a_limit_that_is_too_low_for_the_jvm_is_named() -> None:
    """A real one, with which Java prints nothing. Java raises the soft limit by itself."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); "
        "from headrace.engine import build_session; build_session('few', 'local[1]')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "Spark's JVM may have 200 descriptors at most, and needs 512: raise the limit (ulimit -n" in done.stderr


def test_a_folder_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "is_full", lambda folder: True)
    assert "has no room left; it has printed: a; java.io.IOException: no" in why_exited(
        ["a", "java.io.IOException: no", "at b.c(d)"]
    )


def test_nothing_that_is_known_is_no_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "jvm_lacks", lambda: "")
    assert why_exited([]).startswith("it has printed nothing; run headrace doctor")
