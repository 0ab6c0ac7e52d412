"""Folders of drivers in real-time mode, which are removed even if the driver is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.applications.real_time import service
from headrace.engine.applications.real_time.service import SocketFolder

DRIVER = """
import sys
from pathlib import Path
from headrace.engine.applications.real_time import service

service.PARENT = Path(sys.argv[1])
folder = service.SocketFolder()
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(service, "PARENT", tmp_path)
    return tmp_path


def test_the_folder_of_a_driver_that_was_killed_is_removed_by_the_next_one(parent: Path) -> None:
    command = [sys.executable, "-c", DRIVER, str(parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        theirs = Path(driver.stdout.readline().strip())
        mine = SocketFolder()
        assert theirs.is_dir()
        driver.kill()
        driver.wait()
        assert theirs.is_dir()
        next_one = SocketFolder()
        assert not theirs.exists()
        # Those that are in use stay.
        assert mine.path.is_dir()
        mine.remove()
        next_one.remove()
    assert list(parent.iterdir()) == []
