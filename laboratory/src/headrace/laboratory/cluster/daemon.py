"""The processes of a standalone cluster: Spark's own master and worker, run as on separate machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.processes import OwnedProcess, executors

# The shell becomes the JVM. Its background process reads a pipe that closes when the parent ends, even if killed, and then
# kills the JVM. Executors end with their worker.
_END_WITH_PARENT = 'exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" 3<&-'
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True)
class Worker:
    """A worker of a standalone cluster.

    Attributes:
        address: The address it listens on, which identifies it to the master.
        cores: The number of cores it offers to executors.
        memory: The memory it offers to executors, such as `1g`.
        folder: Its working folder; the executors' logs are in the subfolder `work`.
        process: Its process.
    """

    address: str
    cores: int
    memory: str
    folder: Path
    process: OwnedProcess

    @property
    def pid(self) -> int:
        """The process id of its JVM."""
        return self.process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed."""
        return self.process.runs

    def executors(self) -> list[int]:
        """The process ids of the JVMs of the executors that it has started."""
        return executors(self.process.pid, True) if self.process.runs else []

    def kill(self) -> None:
        """Kills it, its executors and their Python processes, as if the machine were lost."""
        self.process.kill()


def master_command(spark_home: Path, address: str, page: str) -> list[str]:
    """Returns the command line of a master that listens on `address`, with its web page on `page`."""
    return [*_command(spark_home, _MASTER, address), "--webui-port", page.rpartition(":")[2]]


def worker_command(spark_home: Path, address: str, *, master: str, cores: int, memory: str, work: Path) -> list[str]:
    """Returns the command line of a worker, with its web page on any free port."""
    offers = ["--cores", str(cores), "--memory", memory, "--work-dir", str(work), "--webui-port", "0"]
    return [*_command(spark_home, _WORKER, address), *offers, master]


def daemon(
    name: str, command: Sequence[str], folder: Path, environ: Mapping[str, str], enter: Sequence[str] = ()
) -> OwnedProcess:
    """Returns a process of a cluster, not started. It ends with this process, even if that is killed.

    Args:
        name: Its name; the log is `<name>.log`.
        command: Its command line.
        folder: The folder of its log.
        environ: Its environment.
        enter: The prefix of its command line, such as `ip netns exec NAME`.
    """
    return OwnedProcess(name, [*enter, "sh", "-c", _END_WITH_PARENT, "sh", *command], folder, environ, ends_with_parent=True)


def _command(spark_home: Path, what: str, address: str) -> list[str]:
    host, _, port = address.rpartition(":")
    return [str(spark_home / "bin" / "spark-class"), what, "--host", host, "--port", port]
