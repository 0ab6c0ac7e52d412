"""The view of a run on a cluster: the run, and the workers."""

from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.laboratory.cluster import SparkCluster, Worker
from headrace.laboratory.demo.view import Progress, View
from headrace.terminal.tables import plain_table


@dataclass(frozen=True)
class Starting:
    """A run whose cluster is still starting."""

    workers: int
    elapsed_s: float = 0.0

    def summary(self) -> str:
        """Returns the progress in a line."""
        return f"Spark's master and {self.workers} workers are starting"

    def screen(self) -> RenderableType:
        """Returns the progress for a terminal."""
        return Text(self.summary(), style="dim")


@dataclass(frozen=True)
class ClusterProgress:
    """A run and its workers at one moment."""

    run: Progress
    workers: tuple[Worker, ...]

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return self.run.elapsed_s

    def summary(self) -> str:
        """Returns the progress in a line."""
        return f"{self.run.summary()}  workers {sum(worker.runs for worker in self.workers)}"

    def screen(self) -> RenderableType:
        """Returns the run, with the workers above it."""
        workers = plain_table("worker", "address", "#pid", "state", header_style="dim")
        for worker in self.workers:
            state = Text("runs", style="green") if worker.runs else Text("killed", style="red")
            workers.add_row(worker.process.name, worker.address, str(worker.pid), state)
        return Group(workers, self.run.screen())


@dataclass
class ClusterView:
    """Adds the workers to what another view shows of a run."""

    view: View
    cluster: SparkCluster

    def __enter__(self) -> Self:
        self.view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.view.__exit__(*error)

    def show(self, progress: Progress) -> None:
        """Shows the progress; called about 20 times per second."""
        self.view.show(ClusterProgress(progress, tuple(self.cluster.workers)))

    def tell(self, progress: Progress, event: str) -> None:
        """Reports an event."""
        self.view.tell(progress, event)
