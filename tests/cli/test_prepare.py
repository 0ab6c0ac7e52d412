import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)

SESSION = """
from headrace.engine import build_session

build_session("looks", conf={"spark.driver.extraJavaOptions": "-Xlog:class+load:file=loaded.txt"}).stop()
"""


def headrace(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=380)


def test_sessions_start_from_the_archive_that_is_made(tmp_path: Path) -> None:
    done = headrace("prepare", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)["result"]
    assert Path(result["archive"]).stat().st_size == result["bytes"] > 2**20
    subprocess.run([sys.executable, "-c", SESSION], cwd=tmp_path, check=True, timeout=120)
    loaded = (tmp_path / "loaded.txt").read_text()
    from_archive = loaded.count("source: shared objects file")
    from_jars = loaded.count("source: file:") + loaded.count("source: jar:")
    assert from_archive > 10 * from_jars


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    done = headrace("prepare", JAVA_HOME=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.startswith("Error: Spark needs Java 17 or newer, found none in JAVA_HOME")
