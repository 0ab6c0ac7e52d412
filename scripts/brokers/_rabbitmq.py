"""RabbitMQ, from the Debian package. Everything that nodes usually share is in the broker's own folder."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker, BrokerFailed, NotInstalled, exchange
from scripts.brokers._debian import install_package
from scripts.brokers._processes import Command

_CTL_S = 60.0


class RabbitMQ(Broker):
    """A RabbitMQ node with its own port mapper (epmd)."""

    name = "rabbitmq"
    default_ports = {"amqp": 5672, "distribution": None, "epmd": None}  # noqa: RUF012
    user = "guest"
    password = "guest"

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it is installed, in PATH or in Debian's folder."""
        return _programs() is not None

    @classmethod
    def install(cls) -> None:
        """Installs Debian's package."""
        if not cls.is_installed():
            install_package("rabbitmq-server")

    def url_at(self, port: int) -> str:
        """Returns an AMQP URL of the default virtual host."""
        return f"amqp://{self.user}:{self.password}@{self.host}:{port}/%2F"

    def ctl(self, *arguments: str) -> str:
        """Runs `rabbitmqctl`, which takes a second or two, and returns its output.

        Raises:
            BrokerFailed: The command failed.
        """
        command: list[str | Path] = [self._program("rabbitmqctl"), "--quiet", *arguments]
        environ = {**os.environ, **self._environ()}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_CTL_S, check=False)
        if done.returncode:
            raise BrokerFailed(f"rabbitmqctl {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def _prepare(self) -> None:
        (self.folder / "rabbitmq.conf").write_text(
            f"""\
listeners.tcp.1 = {self.host}:{self.port}
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
"""
        )
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "environment").touch()

    def _commands(self) -> Sequence[Command]:
        epmd = shutil.which("epmd") or "epmd"
        return [
            Command([epmd, "-address", self.host, "-port", str(self.ports["epmd"])]),
            Command([self._program("rabbitmq-server")], self._environ()),
        ]

    def _answers(self) -> bool:
        # It answers the protocol header with a method frame, which is of type 1.
        return exchange(self.port, b"AMQP\x00\x00\x09\x01", 1) == b"\x01"

    def _environ(self) -> dict[str, str]:
        loopback = self.host.replace(".", ",")
        return {
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": self.host,
            "ERL_EPMD_PORT": str(self.ports["epmd"]),
            "RABBITMQ_NODENAME": f"headrace-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.ports["distribution"]),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "environment"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{{loopback}}}",
            # Idle schedulers that busy-wait would take processor time from what is measured or tested.
            "RABBITMQ_SERVER_ERL_ARGS": "+P 1048576 +t 5000000 +stbt db +zdbbl 128000 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    @staticmethod
    def _program(name: str) -> Path:
        programs = _programs()
        if programs is None:
            raise NotInstalled("rabbitmq is not installed; run: make brokers")
        return programs / name


def _programs() -> Path | None:
    """Returns the folder of the actual programs: Debian's wrappers in PATH change the user."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    in_path = shutil.which("rabbitmq-server")
    if found:
        return found[-1].parent
    return Path(in_path).resolve().parent if in_path else None
