"""PostgreSQL, from the Debian package, in a separate cluster."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled
from scripts.brokers._debian import install_package
from scripts.brokers._processes import Command, as_user

# The server refuses to run as root; Debian's package creates this user.
_UNPRIVILEGED = "postgres"


class PostgreSQL(Broker):
    """A PostgreSQL server that allows prepared transactions."""

    name = "postgresql"
    default_ports = {"client": 5432}  # noqa: RUF012
    stop_signal = signal.SIGINT
    database = "postgres"

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it is installed, in Debian's folder or in PATH."""
        return _programs() is not None

    @classmethod
    def install(cls) -> None:
        """Installs Debian's package."""
        if not cls.is_installed():
            install_package("postgresql")

    def url_at(self, port: int) -> str:
        """Returns a libpq URL."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{port}/{self.database}"

    def _prepare(self) -> None:
        # A killed server leaves this file, and its process looks alive until its exit code is read.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        if (self._data / "PG_VERSION").exists():
            return
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        password = self.folder / "password"
        password.write_text(self.password)
        user = _user()
        if user:
            shutil.chown(self._data, user)
        arguments = [
            "--auth=scram-sha-256",
            f"--username={self.user}",
            f"--pwfile={password}",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        command: list[str | Path] = [*as_user(user), _program("initdb"), f"--pgdata={self._data}", "--no-sync", *arguments]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            reach = f"; can the user {user} reach it? chmod o+x every folder above it" if user else ""
            raise BrokerFailed(f"postgresql: {self._data} cannot be made{reach}:\n{done.stdout}")

    def _commands(self) -> Sequence[Command]:
        settings = {
            "listen_addresses": self.host,
            "port": self.port,
            "unix_socket_directories": "",
            "max_prepared_transactions": 64,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [Command([_program("postgres"), "-D", self._data, *options], user=_user())]

    def _answers(self) -> bool:
        probe: list[str | Path] = [_program("pg_isready"), "--quiet", f"--host={self.host}", f"--port={self.port}"]
        return subprocess.run(probe, check=False).returncode == 0

    @property
    def _data(self) -> Path:
        return self.folder / "data"


def _user() -> str | None:
    return _UNPRIVILEGED if os.geteuid() == 0 else None


def _program(name: str) -> Path:
    programs = _programs()
    if programs is None:
        raise NotInstalled("postgresql is not installed; run: make brokers")
    return programs / name


def _programs() -> Path | None:
    """Returns the folder of the programs of the newest version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    in_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    return Path(in_path).resolve().parent if in_path else None
