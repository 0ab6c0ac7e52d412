"""Executors of a Spark standalone cluster, of which one is lost."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from headrace.laboratory.bench.cluster.drivers import submitted
from headrace.laboratory.bench.cluster.run import is_everywhere, stamped, started
from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.rig import owned, wait_for
from headrace.laboratory.cluster import SparkCluster, Worker
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

_MAX_S = 600.0


@contextmanager
def _run(_: SparkSession, __: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the fault; each worker of the cluster has an executor."""
    http = free_address()
    with ExitStack() as stack:
        cluster = stack.enter_context(started())
        address, folder, output = stack.enter_context(stamped("--http-listen", http))
        site = _Cluster(cluster, stack.enter_context(owned(submitted(cluster, address, folder))))
        wait_for("an executor on each worker", site.is_everywhere, _MAX_S)
        wait_for("a result", lambda: output.stamps().size > 0, _MAX_S)
        fault = Fault("executor_lost", frozenset({"executor-lost"}), "pipeline ", site.lose, site.replace, "was lost")
        yield f"http://{http}", [fault]


EXECUTORS = Site(("executor_lost",), _run)


@dataclass
class _Cluster:
    cluster: SparkCluster
    driver: OwnedProcess
    _lost: list[Worker] = field(default_factory=list)

    def is_everywhere(self) -> bool:
        """Whether each worker that runs has an executor."""
        return is_everywhere(self.cluster, self.driver)

    def lose(self) -> None:
        """Kills a worker with its executor."""
        self._lost.append(next(worker for worker in self.cluster.workers if worker.runs))
        self._lost[-1].kill()

    def replace(self) -> None:
        """Restarts the worker, and waits until the driver has its executor: until then, that is lost."""
        worker = self._lost.pop()
        before = _registrations(worker)
        self.cluster.restart_worker(worker)
        wait_for("an executor to register with the driver", lambda: _registrations(worker) > before, _MAX_S)


def _registrations(worker: Worker) -> int:
    """How often executors of a worker have registered with a driver, as they log themselves."""
    logs = worker.folder.glob("work/*/*/stderr")
    return sum(log.read_text(errors="replace").count("Successfully registered with driver") for log in logs)
