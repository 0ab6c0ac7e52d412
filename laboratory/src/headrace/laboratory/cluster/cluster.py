"""A standalone cluster that the program owns: it starts, inspects and kills workers, and leaves no process behind."""

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark

from headrace.engine.spark.class_archive import class_archive, use
from headrace.laboratory.cluster.daemon import Worker, daemon, master_command, worker_command
from headrace.laboratory.errors import ClusterError
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, Scratch, spark_environ

_ANSWERS_WITHIN_S = 5.0
_ALIVE = "ALIVE"
# A proxy cannot reach this machine's own addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
DEADLINE_S = 120.0
"""How long a JVM may take to start on a busy machine, in seconds."""
_LOOKS_EVERY_S = 0.1
_DAEMON_MEMORY = "512m"
_INHERITED_SETTINGS = ("SPARK_", "PYSPARK_")
"""Prefixes of variables that are not inherited, since they concern other clusters."""


@dataclass(frozen=True)
class MasterPage:
    """A master's view of its workers and applications at one moment.

    Attributes:
        workers: The addresses of the workers that it considers alive.
        applications: The names of the registered applications that have not ended.
        executor_cores: The number of cores that executors use on each of these workers, by the worker's address.
    """

    workers: frozenset[str]
    applications: tuple[str, ...]
    executor_cores: dict[str, int]


def read_page(address: str) -> MasterPage | None:
    """Reads the page of a master; returns None if it does not answer yet, or another server answers without JSON."""
    try:
        with _opener.open(f"http://{address}/json/", timeout=_ANSWERS_WITHIN_S) as answer:
            said: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    alive = [worker for worker in said.get("workers", ()) if worker["state"] == _ALIVE]
    cores = {f"{worker['host']}:{worker['port']}": int(worker["coresused"]) for worker in alive}
    return MasterPage(frozenset(cores), tuple(each["name"] for each in said.get("activeapps", ())), cores)


class SparkCluster:
    """A master and its workers, from the installed PySpark.

    Each is a separate JVM with its own port and folder, and so is each executor that a worker starts. They end with the block,
    or with this process, even if it is killed.

    Attributes:
        master: The URL that applications are submitted to.
        page: The address of the master's web page.
        workers: All workers that were started, including killed ones.
        environ: The environment for programs that submit applications to it from this machine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        host: str = "127.0.0.1",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the folder. Starts nothing.

        Args:
            folder: The folder for logs and the workers' folders.
            workers: The number of workers to start.
            cores: The number of cores that each worker offers to executors.
            memory: The memory that each worker offers to executors, such as `1g`.
            host: The address of this machine that all of them listen on.
            environ: Variables to add to the environment of every process.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.absolute()
        self.workers: list[Worker] = []
        self._host, self._cores, self._memory, self._count = host, cores, memory, workers
        # The scratch folder holds sockets, whose paths must be short, and what a killed JVM leaves behind.
        self._scratch = Scratch()
        self._home = Path(pyspark.__file__).parent
        self._more = dict(environ or {})
        self.environ = self._environment("driver", host) | self._more
        self.master, self.page = f"spark://{free_address(host)}", free_address(host)
        command = master_command(self._home, self.master.removeprefix("spark://"), self.page)
        self._master = daemon("master", command, self.folder, self._environment("master", host) | self._more)

    @property
    def submit(self) -> list[str]:
        """The beginning of a command line that submits an application to the cluster. Run it with `environ`."""
        return [str(self._home / "bin" / "spark-submit"), "--master", self.master]

    def __enter__(self) -> "SparkCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the master and the workers, and waits until all have registered.

        Raises:
            ClusterError: One of them has ended, or has not registered by the deadline.
        """
        self._master.start()
        self._wait("the master to answer", lambda: self._asked() is not None, self._master)
        started = [self._started_worker(self._host, self._cores, self._memory) for _ in range(self._count)]
        for worker in started:
            self._await_registered(worker)

    def stop(self) -> None:
        """Kills all processes with their descendants, and keeps the folder."""
        # A second Ctrl-C has no effect until all of them are gone.
        signals = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        processes = [*(worker.process for worker in self.workers), self._master]
        for process in processes:
            process.send_kill()
        for process in processes:
            process.kill()
        self._scratch.remove()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    def add_worker(
        self, *, cores: int | None = None, memory: str | None = None, host: str | None = None, enter: Sequence[str] = ()
    ) -> Worker:
        """Starts another worker, and waits until it has registered.

        Args:
            cores: The number of cores it offers; None for as many as the others.
            memory: The memory it offers; None for as much as the others.
            host: The address that it listens on; None for the address of the others.
            enter: The prefix of its command line that runs it in another network, in which `host` is an address, such as
                `ip netns exec NAME`.

        Raises:
            ClusterError: It has ended, or has not registered by the deadline.
        """
        worker = self._started_worker(host or self._host, cores or self._cores, memory or self._memory, enter)
        self._await_registered(worker)
        return worker

    def kill_worker(self, pid: int) -> Worker:
        """Kills a worker with its executors, and waits until the master has noticed.

        Args:
            pid: The worker's process id.

        Raises:
            ClusterError: No running worker has this id, or the master has not noticed by the deadline.
        """
        worker = next((worker for worker in self.workers if worker.runs and worker.pid == pid), None)
        if worker is None:
            running = ", ".join(str(worker.pid) for worker in self.workers if worker.runs) or "none"
            raise ClusterError(f"no worker of this cluster has the process id {pid}; the running workers have {running}")
        worker.kill()
        self._wait(
            f"the master to know that the worker at {worker.address} is gone",
            lambda: worker.address not in self.state().workers,
            self._master,
        )
        return worker

    def restart_worker(self, worker: Worker) -> None:
        """Restarts a killed worker at its address, and waits until it has registered.

        Raises:
            ClusterError: It has ended, or has not registered by the deadline.
        """
        worker.process.start()
        self._await_registered(worker)

    def state(self) -> MasterPage:
        """Returns the master's present view of the cluster.

        Raises:
            ClusterError: The master does not answer.
        """
        page = self._asked()
        if page is None:
            raise ClusterError(f"the master at {self.master} does not answer\n{self.describe()}")
        return page

    def describe(self) -> str:
        """Returns which processes run, and the last lines of each log."""
        lines = []
        for process in (self._master, *(worker.process for worker in self.workers)):
            lines += [f"=== {process.name} ({'runs' if process.runs else 'was killed, has ended or never ran'})"]
            lines += process.tail()
        return "\n".join(lines)

    def _started_worker(self, host: str, cores: int, memory: str, enter: Sequence[str] = ()) -> Worker:
        name = f"worker-{len(self.workers) + 1}"
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        # A port that is free here is most likely free in another network too.
        address = free_address() if enter else free_address(host)
        address = f"{host}:{address.rpartition(':')[2]}"
        command = worker_command(self._home, address, master=self.master, cores=cores, memory=memory, work=folder / "work")
        environ = self._environment(name, host) | self._more
        worker = Worker(address, cores, memory, folder, daemon(name, command, folder, environ, enter))
        self.workers.append(worker)
        worker.process.start()
        return worker

    def _await_registered(self, worker: Worker) -> None:
        self._wait(f"the worker at {worker.address} to register", lambda: worker.address in self.state().workers, worker.process)

    def _asked(self) -> MasterPage | None:
        return read_page(self.page)

    def _wait(self, what: str, condition: Callable[[], bool], process: OwnedProcess) -> None:
        """Waits for a condition that depends on a process.

        Raises:
            ClusterError: The process has ended, or the condition is not true by the deadline.
        """
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            code = process.exit_code()
            if code is not None:
                raise ClusterError(f"waited for {what}, but {process.name} ended with {code}\n{self.describe()}")
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {DEADLINE_S:.0f} s for {what}\n{self.describe()}")
            time.sleep(_LOOKS_EVERY_S)

    def _environment(self, name: str, host: str) -> dict[str, str]:
        """Returns the environment of a process, with its own scratch folder."""
        scratch = self._scratch.path / name
        scratch.mkdir(exist_ok=True)
        kept = {key: value for key, value in spark_environ(scratch).items() if not key.startswith(_INHERITED_SETTINGS)}
        kept["JDK_JAVA_OPTIONS"] = " ".join([kept["JDK_JAVA_OPTIONS"], *use(class_archive())])
        own = {
            "SPARK_HOME": self._home,
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": scratch,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        }
        return kept | {key: str(value) for key, value in own.items()}
