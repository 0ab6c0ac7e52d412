"""A run of the flights on a Spark cluster on this machine, one of whose workers is killed while the job continues."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.laboratory.cluster import ClusterError, SparkCluster
from headrace.laboratory.demo.chaos import Kill, Killed
from headrace.laboratory.demo.cluster_view import ClusterView, Starting
from headrace.laboratory.demo.flights_run import CHAOS_PACE, FlightsRun
from headrace.laboratory.demo.progress import RunProgress
from headrace.laboratory.demo.run import Processes
from headrace.laboratory.demo.view import View
from headrace.laboratory.errors import DemoError
from headrace.processes import process_group

WORKERS = 3
_PLAN = (Kill(("worker-2",), at=0.4),)
"""Which worker is killed, and when. It is not restarted."""


@dataclass(kw_only=True)
class ClusterRun(FlightsRun):
    """A run whose driver submits its job to a cluster, and whose plan names workers."""

    cluster: SparkCluster

    @contextmanager
    def processes(self) -> Iterator[Processes]:
        """Yields the three processes, not started, after starting the cluster. None is left when the block ends."""
        self.view.show(Starting(WORKERS))
        try:
            self.cluster.start()
            with process_group(self.commands(None), self.folder, self.cluster.environ) as processes:
                yield processes
        except ClusterError as error:
            what, *log = str(error).splitlines()
            raise DemoError(what, log) from None
        finally:
            self.cluster.stop()

    def driver(self) -> list[str]:
        """Returns the driver's command, which submits to the cluster."""
        return [*super().driver(), "--master", self.cluster.master, "--parallelism", str(WORKERS)]

    def kill(self, kill: Kill, processes: Processes, progress: RunProgress) -> None:
        """Kills the workers that `kill` names, without restarting them."""
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
    """Returns a run in a work folder, on a cluster that starts with it."""
    cluster = SparkCluster(folder / "cluster", workers=WORKERS)
    return ClusterRun(folder, ClusterView(view, cluster), pace=CHAOS_PACE, plan=_PLAN, cluster=cluster)
