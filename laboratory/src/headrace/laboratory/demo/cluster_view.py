"""What a run on a cluster shows: the run, and its workers."""

from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.laboratory.cluster import SparkCluster, Worker
from headrace.laboratory.demo.view import Progress, View


@dataclass(frozen=True)
class Starting:
    """A run whose cluster is not there yet."""

    workers: int
    elapsed_s: float = 0.0

    def summary(self) -> str:
        """In a line."""
        return f"Spark's master and {self.workers} workers start"

    def screen(self) -> RenderableType:
        """On a terminal."""
        return Text(self.summary(), style="dim")


@dataclass(frozen=True)
class ClusterProgress:
    """A run at one moment, and the workers that run then."""

    run: Progress
    workers: tuple[Worker, ...]

    @property
    def elapsed_s(self) -> float:
        """Since it began."""
        return self.run.elapsed_s

    def summary(self) -> str:
        """In a line."""
        return f"{self.run.summary()}  workers {sum(worker.runs for worker in self.workers)}"

    def screen(self) -> RenderableType:
        """On a terminal: the run, with the workers above."""
        workers = Table.grid(padding=(0, 3))
        for worker in self.workers:
            state = Text("runs", style="green") if worker.runs else Text("killed", style="red")
            workers.add_row(worker.process.name, worker.address, str(worker.pid), state)
        return Group(workers, self.run.screen())


@dataclass
class ClusterView:
    """Shows a run with its workers where another view shows a run."""

    view: View
    cluster: SparkCluster

    def __enter__(self) -> Self:
        self.view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.view.__exit__(*error)

    def show(self, progress: Progress) -> None:
        """Called some 20 times a second."""
        self.view.show(ClusterProgress(progress, tuple(self.cluster.workers)))

    def tell(self, progress: Progress, event: str) -> None:
        """Something happened."""
        self.view.tell(progress, event)
