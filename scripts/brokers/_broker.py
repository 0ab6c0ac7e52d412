"""The base class of brokers: folder, ports and processes; starting, stopping and killing."""

import fcntl
import json
import random
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from scripts.brokers._processes import Command, Process, start

LOOPBACK = "127.0.0.1"
# Below the ephemeral range of any system: an outgoing connection could take the port while its broker is down.
_CHOICE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(preferred: int | None, taken: Iterable[int]) -> int:
    """Returns the preferred port if it is free, else a random free one."""
    if preferred is not None and is_free(preferred):
        return preferred
    candidates = random.sample(_CHOICE, 200)
    return next(port for port in candidates if port not in taken and is_free(port))


def exchange(port: int, request: bytes, size: int) -> bytes:
    """Sends a request, and returns at most `size` bytes of the response; empty if there is none within two seconds."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as connection:
            connection.sendall(request)
            return connection.recv(size)
    except OSError:
        return b""


_DEADLINE_S = 240.0
_PORT_S = 2.0
_STATE = "state.json"
PROXY = "proxy"
"""The purpose of a port on which not the broker listens, but a proxy in front of it."""


class BrokerFailed(Exception):
    """A broker does not start, or cannot be installed. The message has the cause and the remedy."""


class NotInstalled(BrokerFailed):
    """A broker is not installed on this machine; `make brokers` installs it."""


class Broker(ABC):
    """A broker that listens on 127.0.0.1, keeps everything in one folder, and outlives this process.

    Ports are chosen once, and stored in the folder with the process ids, so that any process can open the folder later.
    """

    name: ClassVar[str]
    """Its name on the command line."""
    default_ports: ClassVar[Mapping[str, int | None]]
    """Its ports by purpose, with the usual numbers, None for any; the first one is `port`."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal that stops it cleanly."""

    host = LOOPBACK
    user = "headrace"
    password = "headrace"

    def __init__(self, folder: Path, *, usual_ports: bool = False) -> None:
        """Opens a folder, which need not exist.

        Args:
            folder: The folder for configuration, data and logs; an absolute path.
            usual_ports: Whether to use the usual ports if they are free.
        """
        self.folder = folder
        self._usual_ports = usual_ports

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Whether it is installed on this machine."""

    @classmethod
    @abstractmethod
    def install(cls) -> None:
        """Installs it, unless it is installed already.

        Raises:
            BrokerFailed: It cannot be installed by this script; the message says how to install it.
        """

    @abstractmethod
    def _prepare(self) -> None:
        """Writes the configuration, and creates the data folder if it does not exist."""

    @abstractmethod
    def _commands(self) -> Sequence[Command]:
        """Returns its processes, in the order in which they start."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves requests."""

    @abstractmethod
    def url_at(self, port: int) -> str:
        """Returns its address and credentials as a client's URL, by way of another port of this machine."""

    @property
    def url(self) -> str:
        """Its address and credentials as a client's URL."""
        return self.url_at(self.port)

    @property
    def port(self) -> int:
        """The port that its clients connect to."""
        return self.ports[next(iter(self.default_ports))]

    @property
    def proxied(self) -> tuple[int, int | None]:
        """The port that a proxy connects to, and the port that it must listen on; None for any."""
        return self.port, None

    @property
    def ports(self) -> dict[str, int]:
        """Its ports by purpose; empty before the first start."""
        ports: dict[str, int] = self._state().get("ports", {})
        return ports

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / "log"

    @property
    def started(self) -> bool:
        """Whether it was started and not stopped since; it may have been killed, or have crashed."""
        return bool(self._processes())

    @property
    def running(self) -> bool:
        """Whether all its processes are running."""
        processes = self._processes()
        return bool(processes) and all(process.alive for process in processes)

    def take_ports(self, taken: Sequence[int]) -> None:
        """Chooses its ports, except the `taken` ones, for programs that need them before it starts."""
        with self._locked():
            if not self.ports:
                self._write(ports=self._choose_ports(taken))

    def start(self) -> None:
        """Starts it, unless it is running, in which case it is thawed, and waits until it is ready.

        Raises:
            BrokerFailed: It is not installed, its port is in use, or it does not become ready.
        """
        with self._locked():
            if self.running:
                self._signal(signal.SIGCONT)
            else:
                self._end(signal.SIGKILL)
                self._start()

    def stop(self) -> None:
        """Stops it cleanly."""
        with self._locked():
            self._end(self.stop_signal)
            self._write(processes=[])

    def kill(self) -> None:
        """Kills its processes and their children; `start` restarts it with the same ports and data."""
        with self._locked():
            self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Has all its processes stand still: it keeps its connections, and its kernel accepts new ones; nobody answers."""
        with self._locked():
            self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Ends what `freeze` has begun."""
        with self._locked():
            self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stops it cleanly, and restarts it with the same ports and data."""
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
        """Waits until its ports are free: the ports of a killed process close a moment after it has ended."""
        deadline = time.monotonic() + _PORT_S
        for purpose, port in ports.items():
            # A proxy that reaches it may be there before it.
            while purpose != PROXY and not is_free(port):
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{self.name}: another program listens on port {port}; end it, or remove {self.folder}")
                time.sleep(0.02)

    def _wait(self) -> None:
        """Waits until it is ready."""
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                last = self.log.read_text(errors="replace").splitlines()[-20:]
                raise BrokerFailed("\n".join([f"{self.name} does not start; the end of {self.log}:", *last]))
            time.sleep(0.05)

    def _end(self, number: signal.Signals) -> None:
        for process in reversed(self._processes()):
            process.kill() if number is signal.SIGKILL else process.stop(number)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            process.signal(number)

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
        """Locks it against other threads and processes that start or stop it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def kill_all(folder: Path) -> None:
    """Kills every broker whose folder is in `folder`."""
    for state in folder.glob(f"*/{_STATE}"):
        for process in json.loads(state.read_text()).get("processes", []):
            Process(**process).kill()
