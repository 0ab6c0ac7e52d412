"""Two checkouts on one machine may install packages at the same time."""

import subprocess
import sys
from pathlib import Path

# It fails as apt-get does whenever another one is at work.
_APT = """#!/bin/sh
mkdir {folder}/busy || exit 100
echo "$@" >>{folder}/calls
rmdir {folder}/busy
"""
_INSTALL = """
import sys
from pathlib import Path
from scripts.brokers import _debian

_debian._POLICY = Path(sys.argv[1]) / "policy-rc.d"
_debian.os.geteuid = lambda: 0
for package in ("rabbitmq-server", "postgresql"):
    _debian.install_package(package)
"""


def test_installations_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text(_APT.format(folder=tmp_path))
    (programs / "apt-get").chmod(0o755)
    environ = {"PATH": f"{programs}:/usr/bin:/bin"}
    command = [sys.executable, "-c", _INSTALL, str(tmp_path)]
    each = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [process.communicate(timeout=120) for process in each]
    assert [process.returncode for process in each] == [0] * 4, ended
    assert len((tmp_path / "calls").read_text().splitlines()) == 4 * 2 * 2
    assert not (tmp_path / "policy-rc.d").exists()
