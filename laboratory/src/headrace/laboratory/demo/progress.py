"""The progress of a run, as a line and as a screen."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from headrace.laboratory.demo.view import BAR_WIDTH, milliseconds
from headrace.terminal.tables import FittingTable, plain_table


@dataclass(frozen=True, kw_only=True)
class RunProgress(ABC):
    """A run at one moment. Messages are counted by positions, so a restart of the gateway loses none."""

    elapsed_s: float
    total: int
    received: int
    committed: int
    rate: float
    """The recent rate of committed messages per second."""
    ack_latency_s: float | None
    """The recent median latency from a message's arrival at the gateway to its acknowledgement, in seconds."""
    attached: bool
    """Whether a pipeline has been attached."""

    @property
    def moved(self) -> int:
        """A number that increases while there is progress."""
        return self.attached + self.received + self.committed

    def summary(self) -> str:
        """Returns the progress in a line."""
        if not self.received:
            return "Spark is attached" if self.attached else "Spark is starting"
        return self.line()

    def screen(self) -> RenderableType:
        """Returns a bar, the figures and the results so far."""
        columns = {
            **self.arrivals(),
            "committed": f"{self.committed:,}",
            "rate": f"{self.rate:,.0f}/s",
            "ack latency": milliseconds(self.ack_latency_s),
            **self.results(),
            "elapsed": f"{self.elapsed_s:.1f} s",
        }
        figures = plain_table(*(f"#{name}" for name in columns), has_row_names=False, header_style="dim")
        figures.add_row(*columns.values())
        bar = ProgressBar(total=self.total, completed=self.committed, width=BAR_WIDTH)
        parts = [figures, bar if self.received else Text(self.summary(), style="dim")]
        table = self.table()
        return Group(*parts, *([] if table is None else [table]))

    @abstractmethod
    def line(self) -> str:
        """Returns the figures in a line, once messages arrive."""

    @abstractmethod
    def arrivals(self) -> Mapping[str, str]:
        """Returns the numbers of messages received, by column name."""

    @abstractmethod
    def results(self) -> Mapping[str, str]:
        """Returns the numbers of results, by column name."""

    @abstractmethod
    def table(self) -> FittingTable | None:
        """Returns the results so far; None if there are none."""
