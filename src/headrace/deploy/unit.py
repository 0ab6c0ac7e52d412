"""The unit of systemd that runs a deployment.

The rules of quoting stand in systemd.service(5), "Command lines", and systemd.unit(5), "Specifiers".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.contract.errors import HeadraceError
from headrace.deploy.configuration import Deployment

_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
_HOMES = ("/home", "/root", "/run/user")
_PRIVATE = ("/tmp", "/var/tmp")


class UnitError(HeadraceError):
    """A path that a unit cannot name, or that its processes cannot reach."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A service of systemd.

    Attributes:
        name: Its name, without `.service`; also of its folders below `/var/lib` and `/var/log`.
        program: The path of the program `headrace`.
        config: The path of the deployment.
        arguments: Further arguments of `headrace run`.
        user: The user that it runs as.
        group: The user's group.
        env_file: A file of variables for the environment; None without one.
        writable: Folders that its processes write to, beside those below `/var/lib` and `/var/log`.
        reads: Files outside of the system's folders that its processes need, such as the interpreter of Python.
    """

    name: str
    program: Path
    config: Path
    arguments: Sequence[str] = ()
    user: str
    group: str
    env_file: Path | None = None
    writable: Sequence[Path] = ()
    reads: Sequence[Path] = ()

    def opened(self) -> list[Path]:
        """Returns the folders that systemd opens for writing, and does not create: they must exist when the service starts."""
        own = (Path("/var/lib", self.name), Path("/var/log", self.name))
        return [path for path in _distinct(self.writable) if not any(path.is_relative_to(folder) for folder in own)]

    def text(self) -> str:
        """Returns the unit as systemd reads it.

        Raises:
            UnitError: A path cannot be written into a unit, or the service would not see what it leads to.
        """
        run = [str(self.program), "run", str(self.config), *self.arguments]
        check = " ".join(map(_argument, (*run, "--dry-run")))
        # A reload right after the start finds no handler of SIGHUP yet, which would end the supervisor.
        start = " ".join(map(_argument, ("/usr/bin/nohup", *run)))
        writable = self.opened()
        seen = [self.program, self.config, *writable, *([self.env_file] if self.env_file else []), *self.reads]
        for path in seen:
            if any(path.is_relative_to(folder) for folder in _PRIVATE):
                raise UnitError(f"{path}: a service has a /tmp of its own; move it to another folder")
        at_home = any(path.is_relative_to(home) for path in seen for home in _HOMES)
        lines = [
            "[Unit]",
            f"Description=Headrace, {_path(self.config)}",
            "Wants=network-online.target",
            "After=network-online.target",
            "",
            "[Service]",
            f"User={self.user}",
            f"Group={self.group}",
            f"WorkingDirectory={_path(self.config.parent)}",
            "Environment=HEADRACE_LOG_FORMAT=json",
            *([f"EnvironmentFile={_no_pattern(self.env_file)}"] if self.env_file else []),
            f"ExecStartPre={check}",
            f"ExecStart={start}",
            "ExecReload=/bin/kill -HUP $MAINPID",
            "Restart=on-failure",
            "RestartSec=5",
            "RestartPreventExitStatus=2 3",
            "KillMode=mixed",
            "TimeoutStopSec=150",
            "LimitNOFILE=65536",
            f"StateDirectory={self.name}",
            "StateDirectoryMode=0700",
            f"LogsDirectory={self.name}",
            "LogsDirectoryMode=0750",
            *([f"ReadWritePaths={' '.join(_quoted(_path(path)) for path in writable)}"] if writable else []),
            "NoNewPrivileges=true",
            "PrivateTmp=true",
            "ProtectSystem=strict",
            f"ProtectHome={'read-only' if at_home else 'true'}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
        return "\n".join(lines) + "\n"


def written_by(deployment: Deployment) -> list[Path]:
    """The local folders that a deployment itself writes to: its logs and checkpoints. Sinks are not among them."""
    checkpoints = [options.checkpoint or "checkpoints" for options in deployment.applications.values()]
    local = [Path(path) for text in checkpoints if "://" not in (path := text.removeprefix("file://"))]
    return [deployment.folder, *(deployment.path.parent / path for path in local)]


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """Returns the paths that lie below no other of them."""
    found = sorted({Path(path) for path in paths})
    return [path for path in found if not any(path != other and path.is_relative_to(other) for other in found)]


def _path(path: Path | str) -> str:
    """Returns a path as the value of a setting, where `%` begins a specifier."""
    if _FORBIDDEN.search(str(path)):
        raise UnitError(f"{str(path)!r}: a unit cannot name a path with a control character or a backslash; rename it")
    return str(path).replace("%", "%%")


def _no_pattern(path: Path) -> str:
    if set("*?[") & set(str(path)):
        raise UnitError(f"{path}: systemd takes it for a pattern of several files; rename it")
    return _path(path)


def _argument(text: str) -> str:
    """Returns an argument of a command line, where `$` begins a variable."""
    return _quoted(_path(text).replace("$", "$$"))


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', r"\"") + '"'
