"""The processes of a standalone cluster: Spark's own master and worker, as they are run on machines of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.processes import OwnedProcess, executors

# The shell becomes the JVM. What it leaves behind reads a pipe that ends when the process does that started all this, however
# that ends, and then kills the JVM; executors end when their worker does.
_END_WITH_PARENT = 'exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" 3<&-'
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True)
class Worker:
    """A worker of a standalone cluster.

    Attributes:
        address: Where it listens, by which the master knows it.
        cores: How many it offers to executors.
        memory: How much it offers to executors: `1g`.
        folder: Where it and its executors work; the folder `work` in it has the executors' logs.
        process: It, with all that it starts.
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
        """Whether it has been started and not killed."""
        return self.process.runs

    def executors(self) -> list[int]:
        """The process ids of the JVMs of the executors that it has started."""
        return executors(self.process.pid, True) if self.process.runs else []

    def kill(self) -> None:
        """SIGKILL to it, its executors and their Python processes: all of it is gone, as when a machine is lost."""
        self.process.kill()


def master_command(spark_home: Path, address: str, page: str) -> list[str]:
    """The command line of a master that listens at an address, and shows what it knows at another."""
    return [*_command(spark_home, _MASTER, address), "--webui-port", page.rpartition(":")[2]]


def worker_command(spark_home: Path, address: str, *, master: str, cores: int, memory: str, work: Path) -> list[str]:
    """The command line of a worker, whose page is at any free port."""
    offers = ["--cores", str(cores), "--memory", memory, "--work-dir", str(work), "--webui-port", "0"]
    return [*_command(spark_home, _WORKER, address), *offers, master]


def daemon(
    name: str, command: Sequence[str], folder: Path, environ: Mapping[str, str], enter: Sequence[str] = ()
) -> OwnedProcess:
    """A process of a cluster, not started; it ends when this process does, however that ends.

    Args:
        name: Its log is `<name>.log`.
        command: Its command line.
        folder: Where its log is.
        environ: Its environment.
        enter: The words before its command line, such as `ip netns exec NAME`.
    """
    return OwnedProcess(name, [*enter, "sh", "-c", _END_WITH_PARENT, "sh", *command], folder, environ, ends_with_parent=True)


def _command(spark_home: Path, what: str, address: str) -> list[str]:
    host, _, port = address.rpartition(":")
    return [str(spark_home / "bin" / "spark-class"), what, "--host", host, "--port", port]
