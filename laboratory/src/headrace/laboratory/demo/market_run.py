"""A run of Market Spread: a gateway, the application on Spark, its sink and its source."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.laboratory.demo.chaos import CONNECTOR, DRIVER, GATEWAY
from headrace.laboratory.demo.market import check, example_folder, load_feed, read_rejected
from headrace.laboratory.demo.market_outcome import MarketOutcome
from headrace.laboratory.demo.market_progress import MarketObserver
from headrace.laboratory.demo.run import Run
from headrace.processes import headrace

_SINK = "sink"


@dataclass(kw_only=True)
class MarketRun(Run):
    """A run in a work folder.

    Attributes:
        messages: The number of quotes, and of orders.
    """

    messages: int

    def commands(self, address: str | None) -> dict[str, list[str]]:
        """Returns the commands. All but the gateway need its address."""
        if address is None:
            return {GATEWAY: self.gateway(None), DRIVER: [], _SINK: [], CONNECTOR: []}
        example, at = example_folder(), ["--gateway", address]
        what = ["--path", str(self._results), "--sink", "rejected", "--format", "length-prefixed"]
        state = ["--checkpoint", str(self.folder / "checkpoint")]
        return {
            GATEWAY: self.gateway(address),
            DRIVER: headrace("run", str(example / "app.py"), *at, *state),
            _SINK: headrace("connector", "run", "file-sink", *what, *at),
            CONNECTOR: [sys.executable, str(example / "source.py"), *at, "--messages", str(self.messages)],
        }

    def observer(self) -> MarketObserver:
        """Returns the observer. The source generates its messages itself."""
        return MarketObserver(began=self.began, total=2 * self.messages, results=self._results)

    def expected(self) -> None:
        """Does nothing: the check generates the messages again and compares them."""

    def outcome(self, expected: None, **figures: Any) -> MarketOutcome:
        """Compares the results, order by order."""
        rejected = tuple(read_rejected(self._results))
        return MarketOutcome(**figures, rejected=rejected, checked=check(rejected, load_feed(example_folder()), self.messages))

    @property
    def _results(self) -> Path:
        return self.folder / "rejected"
