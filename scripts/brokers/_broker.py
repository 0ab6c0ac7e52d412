"""What all brokers have in common: a folder, ports, processes, and how they are started, stopped and killed."""

import fcntl
import json
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from scripts.brokers._ports import LOOPBACK, choose, is_free
from scripts.brokers._processes import Command, Process, start

_DEADLINE_SECONDS = 90.0
_PORT_SECONDS = 2.0
_STATE = "state.json"


class BrokerFailed(Exception):
    """A broker does not start, or cannot be installed. The message says where to look, and what to do."""


class NotInstalled(BrokerFailed):
    """A broker's program is not on this machine; `make brokers` installs it."""


class Broker(ABC):
    """A broker that listens on 127.0.0.1, keeps everything in one folder, and outlives this process.

    Ports are chosen once, and kept in the folder with the ids of the processes: whoever opens the folder finds the broker again.
    """

    name: ClassVar[str]
    """What it is called on the command line."""
    default_ports: ClassVar[Mapping[str, int | None]]
    """Its ports by what they are for, with the number that everybody expects; the first one is `port`."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """What it stops in good order on."""

    host = LOOPBACK
    user = "headrace"
    password = "headrace"

    def __init__(self, folder: Path, *, usual_ports: bool = False) -> None:
        """Opens a folder, which need not exist.

        Args:
            folder: Where configuration, data and logs are; absolute.
            usual_ports: Whether to take the ports that everybody expects, where they are free.
        """
        self.folder = folder
        self._usual_ports = usual_ports

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Whether its program is on this machine."""

    @classmethod
    @abstractmethod
    def install(cls) -> None:
        """Installs its program; nothing where it is there.

        Raises:
            BrokerFailed: It cannot be installed by this script; the message says how else.
        """

    @abstractmethod
    def _prepare(self) -> None:
        """Writes the configuration; makes the data folder where there is none."""

    @abstractmethod
    def _commands(self) -> Sequence[Command]:
        """Its processes, in the order in which they are started."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves requests."""

    @abstractmethod
    def url_at(self, port: int) -> str:
        """Its address and credentials as its clients take them, by way of another port of this machine."""

    @property
    def url(self) -> str:
        """Its address and credentials as its clients take them."""
        return self.url_at(self.port)

    @property
    def port(self) -> int:
        """Where its clients connect."""
        return self.ports[next(iter(self.default_ports))]

    @property
    def proxied(self) -> tuple[int, int | None]:
        """Where a proxy in front of it connects to, and where that has to listen; None for any port."""
        return self.port, None

    @property
    def ports(self) -> dict[str, int]:
        """Its ports by what they are for; none before the first start."""
        ports: dict[str, int] = self._state().get("ports", {})
        return ports

    @property
    def log(self) -> Path:
        """What it has printed."""
        return self.folder / "log"

    @property
    def started(self) -> bool:
        """Whether it was started, and not stopped since: it may have been killed, or have crashed."""
        return bool(self._processes())

    @property
    def running(self) -> bool:
        """Whether all its processes run."""
        processes = self._processes()
        return bool(processes) and all(process.alive for process in processes)

    def take_ports(self, taken: Sequence[int]) -> None:
        """Chooses its ports, if it has none, but none of these: for others that have to know them before it starts."""
        with self._locked():
            if not self.ports:
                self._write(ports=self._choose_ports(taken))

    def start(self) -> None:
        """Starts it, and waits until it serves; nothing where it runs.

        Raises:
            BrokerFailed: It is not installed, its port is taken, or it does not come up.
        """
        with self._locked():
            if not self.running:
                self._end(signal.SIGKILL)
                self._start()

    def stop(self) -> None:
        """Stops it in good order."""
        with self._locked():
            self._end(self.stop_signal)
            self._write(processes=[])

    def kill(self) -> None:
        """Kills its processes and their children with SIGKILL; `start` brings it back with the same ports and data."""
        with self._locked():
            self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops it in good order, and starts it again with the same ports and data."""
        self.stop()
        self.start()

    def _start(self) -> None:
        if not self.is_installed():
            raise NotInstalled(f"{self.name} is not installed; run: make brokers")
        ports = self.ports or self._choose_ports()
        self._wait_for_ports(ports)
        self._write(ports=ports, processes=[])
        self._prepare()
        processes: list[Process] = []
        for command in self._commands():
            processes.append(start(command, self.log))
            self._write(processes=[asdict(process) for process in processes])
        self._wait()

    def _wait_for_ports(self, ports: Mapping[str, int]) -> None:
        """Waits until nobody listens on its ports: those of a process that was killed close a moment after it has ended."""
        deadline = time.monotonic() + _PORT_SECONDS
        for port in ports.values():
            while not is_free(port):
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{self.name}: another program listens on port {port}; end it, or remove {self.folder}")
                time.sleep(0.02)

    def _wait(self) -> None:
        """Waits until it serves."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                last = self.log.read_text(errors="replace").splitlines()[-20:]
                raise BrokerFailed("\n".join([f"{self.name} does not start; the end of {self.log}:", *last]))
            time.sleep(0.05)

    def _end(self, number: signal.Signals) -> None:
        for process in reversed(self._processes()):
            process.kill() if number is signal.SIGKILL else process.stop(number)

    def _choose_ports(self, taken: Sequence[int] = ()) -> dict[str, int]:
        ports: dict[str, int] = {}
        for purpose, usual in self.default_ports.items():
            ports[purpose] = choose(usual if self._usual_ports else None, [*taken, *ports.values()])
        return ports

    def _processes(self) -> list[Process]:
        return [Process(**process) for process in self._state().get("processes", [])]

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.folder / _STATE).read_text())
        except FileNotFoundError:
            return {}
        return state

    def _write(self, **changes: Any) -> None:
        new = self.folder / f"{_STATE}.new"
        new.write_text(json.dumps({**self._state(), **changes}))
        new.replace(self.folder / _STATE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps others, in this process or not, from starting or stopping it meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def kill_all(folder: Path) -> None:
    """Kills every broker whose folder is in this one."""
    for state in folder.glob(f"*/{_STATE}"):
        for process in json.loads(state.read_text()).get("processes", []):
            Process(**process).kill()
