"""A Python process that Spark starts connects before it imports what it runs, since Spark waits 10 s for it at most."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import headrace.engine

WRAPPER = Path(headrace.engine.__file__).parent / "spark" / "worker_python.sh"
DEADLINE_S = 150.0
IMPORTED_SLOWLY = """
import os, sys, time

while not os.path.exists("go"):
    time.sleep(0.01)

from pyspark.util import local_connect_and_auth

if __name__ == "__main__":
    file, connection = local_connect_and_auth(os.environ["PYTHON_WORKER_FACTORY_SOCK_PATH"], None)
    file.write(repr((sys.argv[1:], sys.path[0])).encode())
    file.close()
    connection.close()
"""


def test_a_process_connects_before_it_has_imported_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_slowly.py").write_text(IMPORTED_SLOWLY)
    with socket.socket(socket.AF_UNIX) as server:
        # The path of a socket must be short, so it is a relative one.
        monkeypatch.chdir(tmp_path)
        server.bind("spark.sock")
        server.listen()
        server.settimeout(DEADLINE_S)
        environ = {**os.environ, "HEADRACE_WORKER_PYTHON": sys.executable, "PYTHON_WORKER_FACTORY_SOCK_PATH": "spark.sock"}
        with subprocess.Popen(["/bin/sh", WRAPPER, "-m", "imported_slowly", "argument"], cwd=tmp_path, env=environ) as process:
            connection, _ = server.accept()
            (tmp_path / "go").touch()
            connection.settimeout(DEADLINE_S)
            with connection, connection.makefile("rb") as file:
                assert file.read() == repr((["argument"], str(tmp_path))).encode()
        assert process.returncode == 0
