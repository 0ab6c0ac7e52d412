"""RabbitMQ 4, which Debian 12 lacks: from the packages of Debian 13, unpacked into a separate folder.

Its programs also need the C library of that release, so they run with the folder as their root directory. This requires root
and a machine with apt.
"""

import os
import platform
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import BrokerFailed
from scripts.brokers._processes import Command
from scripts.brokers._rabbitmq import RabbitMQ

_SYSTEM = Path(__file__).parents[2] / ".build" / "brokers" / "debian-13"
_STAMP = "headrace"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Essential packages are not listed as dependencies.
_PACKAGES = ["rabbitmq-server", "base-files", "dash", "bash", "coreutils", "sed", "grep", "mawk", "debianutils", "hostname"]
_DEVICES = {"null": (1, 3), "zero": (1, 5), "random": (1, 8), "urandom": (1, 9)}
_APT = """\
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
"""
_NO_HOOKS = "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n"
"""Disables the hooks of this machine's apt: in container images, they delete downloaded packages."""
_SOURCES = "deb [signed-by={keys}] {mirror} trixie main\n"


class RabbitMQ4(RabbitMQ):
    """A RabbitMQ 4 node. Its data is inside its root directory."""

    name = "rabbitmq4"
    default_ports = {"amqp": None, "distribution": None, "epmd": None}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it is unpacked, and the user may run it."""
        return os.geteuid() == 0 and (_SYSTEM / _STAMP).exists()

    @classmethod
    def install(cls) -> None:
        """Downloads about 60 MB of Debian packages, and unpacks them.

        Raises:
            BrokerFailed: The user is not root, the machine has no apt, or the download failed.
        """
        if cls.is_installed():
            return
        if os.geteuid() != 0 or shutil.which("apt-get") is None or platform.machine() != "x86_64" or not _KEYS.exists():
            raise BrokerFailed("rabbitmq4: its packages are unpacked by root, on a Debian of amd64; or use compose.yaml")
        print("brokers: fetches RabbitMQ 4 and what it needs from Debian 13, some 60 MB", flush=True)
        shutil.rmtree(_SYSTEM, ignore_errors=True)
        for package in _fetched(_SYSTEM.with_name("debian-13-apt")):
            _run("dpkg-deb", "-x", package, _SYSTEM)
        for name, (major, minor) in _DEVICES.items():
            os.mknod(_SYSTEM / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            (_SYSTEM / "dev" / name).chmod(0o666)
        shutil.copy("/etc/hosts", _SYSTEM / "etc" / "hosts")
        (_SYSTEM / _STAMP).touch()

    def _prepare(self) -> None:
        super()._prepare()
        self._outside.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.is_file():
                shutil.copy(path, self._outside)

    def _commands(self) -> Sequence[Command]:
        epmd = ["epmd", "-address", self.host, "-port", str(self.ports["epmd"])]
        return [
            Command([*_INSIDE, *epmd], self._environ()),
            Command([*_INSIDE, self._program("rabbitmq-server")], self._environ()),
        ]

    def ctl(self, *arguments: str) -> str:
        """Like `RabbitMQ.ctl`."""
        command = [*_INSIDE, self._program("rabbitmqctl"), "--quiet", *arguments]
        return _run(*command, environ={**os.environ, **self._environ()})

    def _environ(self) -> dict[str, str]:
        environ = {name: value.replace(str(self.folder), f"/{self._inside}") for name, value in super()._environ().items()}
        return {**environ, "PATH": "/usr/sbin:/usr/bin"}

    @property
    def _inside(self) -> Path:
        """Returns the path of its data, as seen from its root directory."""
        return Path("var", "headrace", str(self.port))

    @property
    def _outside(self) -> Path:
        return _SYSTEM / self._inside

    @staticmethod
    def _program(name: str) -> Path:
        (programs,) = (_SYSTEM / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-4*/sbin")
        return Path("/") / programs.relative_to(_SYSTEM) / name


_INSIDE: list[str | Path] = ["chroot", _SYSTEM]


def _fetched(folder: Path) -> list[Path]:
    """Downloads packages with all their dependencies."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(_SOURCES.format(keys=_KEYS, mirror=_mirror()))
    (folder / "apt.conf").write_text(_APT.format(folder=folder))
    (folder / "no-hooks.conf").write_text(_NO_HOOKS)
    environ = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    apt = ("apt-get", "-c", folder / "no-hooks.conf", "-qq")
    _run(*apt, "update", environ=environ)
    _run(*apt, "install", "--download-only", "-y", *_PACKAGES, environ=environ)
    # The package with the symbolic links of the file system comes first.
    return sorted(
        (folder / "cache/archives").glob("*.deb"), key=lambda path: (not path.name.startswith("base-files_"), path.name)
    )


def _mirror() -> str:
    """Returns the Debian mirror of this machine, which also has other releases."""
    wanted = ("Created-By: Packages", "Origin: Debian", "Component: main")
    found = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted).split()
    if not found:
        raise BrokerFailed("rabbitmq4: apt knows no mirror of Debian; run apt-get update")
    return found[0]


def _run(*command: str | Path, environ: dict[str, str] | None = None) -> str:
    """Runs a command, and returns its output.

    Raises:
        BrokerFailed: The command failed.
    """
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise BrokerFailed(f"rabbitmq4: {' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout
