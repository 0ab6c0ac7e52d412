"""How far a run is, as a line and as a screen."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.laboratory.demo.view import BAR_WIDTH, milliseconds


@dataclass(frozen=True, kw_only=True)
class RunProgress(ABC):
    """A run at one moment. Counts are of messages, taken from positions, so that a gateway's restart loses none."""

    elapsed_s: float
    total: int
    received: int
    committed: int
    rate: float
    """Messages committed each second, lately."""
    ack_latency_s: float | None
    """From a message's arrival at the gateway to its acknowledgement: the median of the latest measurements."""
    attached: bool
    """True once a pipeline has been attached."""

    @property
    def moved(self) -> int:
        """Grows as long as anything goes on."""
        return self.attached + self.received + self.committed

    def summary(self) -> str:
        """In a line."""
        if not self.received:
            return "Spark is attached" if self.attached else "Spark starts"
        return self.line()

    def screen(self) -> RenderableType:
        """On a terminal: a bar, the figures and the results so far."""
        columns = {
            **self.arrivals(),
            "committed": f"{self.committed:,}",
            "rate": f"{self.rate:,.0f}/s",
            "ack latency": milliseconds(self.ack_latency_s),
            **self.results(),
            "elapsed": f"{self.elapsed_s:.1f} s",
        }
        figures = Table.grid(padding=(0, 3))
        figures.add_row(*columns, style="dim")
        figures.add_row(*columns.values())
        bar = ProgressBar(total=self.total, completed=self.committed, width=BAR_WIDTH)
        parts = [figures, bar if self.received else Text(self.summary(), style="dim")]
        table = self.table()
        return Group(*parts, *([] if table is None else [table]))

    @abstractmethod
    def line(self) -> str:
        """The figures in a line, once messages come."""

    @abstractmethod
    def arrivals(self) -> Mapping[str, str]:
        """What has come in, by the name of its column."""

    @abstractmethod
    def results(self) -> Mapping[str, str]:
        """How many results there are, by the name of their column."""

    @abstractmethod
    def table(self) -> Table | None:
        """The results so far; None where there are none."""
