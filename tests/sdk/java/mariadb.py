"""A server of MariaDB for the tests of the bridge."""

import getpass
import shutil
import subprocess
import time
from pathlib import Path

from tests.absent import absent
from tests.connectors.programs import free_port

USER = "bridge"
PASSWORD = "secret"
_DEADLINE_S = 120.0
_GRANT = f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO {USER}@'%';"


class Server:
    """A MariaDB of its own in a folder, on 127.0.0.1, with a user who may do everything."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("mariadbd") is None:
            absent("mariadbd is not installed; install mariadb-server to test the bridge with MariaDB")
        self._folder = folder
        self.port = free_port()
        self._user = f"--user={getpass.getuser()}"
        install = ["mariadb-install-db", "--no-defaults", self._user, f"--datadir={folder}/data"]
        subprocess.run([*install, "--auth-root-authentication-method=normal", "--skip-test-db"], check=True, capture_output=True)
        self.start()
        self.run(_GRANT)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = [f"--datadir={self._folder}/data", f"--port={self.port}", "--bind-address=127.0.0.1"]
        options += [f"--socket={self._folder}/socket", f"--pid-file={self._folder}/pid", "--server-id=1"]
        options += ["--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", f"--log-error={self._folder}/log"]
        self._process = subprocess.Popen(["mariadbd", "--no-defaults", self._user, *options])
        deadline = time.monotonic() + _DEADLINE_S
        while self._client("SELECT 1").returncode != 0:
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """Kills it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def run(self, statements: str) -> list[list[str]]:
        """Runs statements, and returns the rows of the last one."""
        done = self._client(statements)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _client(self, statements: str) -> subprocess.CompletedProcess[str]:
        command = ["mariadb", "--no-defaults", "--batch", "--skip-column-names", "--user=root", f"--socket={self._folder}/socket"]
        return subprocess.run(command, input=statements, capture_output=True, text=True, check=False)
