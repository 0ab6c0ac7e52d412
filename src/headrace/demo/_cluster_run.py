"""A run of the flights on a Spark cluster of this machine, one of whose workers is killed while the table counts on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.cluster import ClusterError, SparkCluster
from headrace.demo._chaos import Kill, Killed
from headrace.demo._cluster_view import ClusterView, Starting
from headrace.demo._errors import DemoError
from headrace.demo._progress import Progress
from headrace.demo._run import CHAOS_PACE, Run
from headrace.demo._view import View
from headrace.processes import OwnedProcess, company

WORKERS = 3
_PLAN = (Kill(("worker-2",), at=0.4),)
"""Which worker is killed, and when. It is not started again."""


@dataclass(kw_only=True)
class ClusterRun(Run):
    """A run whose driver submits its job to a cluster, and whose plan names workers."""

    cluster: SparkCluster

    @contextmanager
    def _processes(self) -> Iterator[dict[str, OwnedProcess]]:
        """The three processes, none started, and the cluster, which runs; whatever happens, none is left."""
        self.view.show(Starting(WORKERS))
        try:
            self.cluster.start()
            with company(self._commands(), self.folder, self.cluster.environ) as processes:
                yield processes
        except ClusterError as error:
            what, *log = str(error).splitlines()
            raise DemoError(what, log) from None
        finally:
            self.cluster.stop()

    def _driver(self) -> list[str]:
        return [*super()._driver(), "--master", self.cluster.master, "--parallelism", str(WORKERS)]

    def _kill(self, kill: Kill, processes: dict[str, OwnedProcess], progress: Progress) -> None:
        victims = [worker for worker in self.cluster.workers if worker.process.name in kill.victims]
        pids = tuple(victim.pid for victim in victims)
        executors = sum(len(victim.executors()) for victim in victims)
        for victim in victims:
            victim.kill()
        self.kills.append(Killed(kill.victims, pids, progress.elapsed_s, progress.received, progress.committed))
        who = " and ".join(f"{victim.process.name} ({victim.pid})" for victim in victims)
        event = f"kill -9 {who} with {executors} executor{'s' * (executors != 1)} at {progress.committed:,} committed"
        self.view.tell(progress, event)


def cluster_run(folder: Path, view: View) -> ClusterRun:
    """A run in a work folder, on a cluster that starts with it."""
    cluster = SparkCluster(folder / "cluster", workers=WORKERS)
    return ClusterRun(folder, CHAOS_PACE, _PLAN, ClusterView(view, cluster), cluster=cluster)
