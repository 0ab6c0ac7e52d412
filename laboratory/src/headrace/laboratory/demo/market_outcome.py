"""The outcome of a run of Market Spread, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from headrace.laboratory.demo.market import Check, Rejected
from headrace.laboratory.demo.market_progress import rejected_table
from headrace.laboratory.demo.outcome import RunOutcome

_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class MarketOutcome(RunOutcome):
    """The rejected orders, and the comparison with a plain loop."""

    rejected: tuple[Rejected, ...]
    checked: Check

    @property
    def right(self) -> bool:
        """Whether a plain loop rejects the same orders."""
        return self.checked.equal

    def check(self) -> str:
        """Returns the result of the comparison, in a line."""
        found = self.checked
        if not found.equal:
            return (
                f"of {found.rejected:,} orders to be rejected {found.missing:,} were not, and {found.wrong:,} were wrongly "
                "rejected"
            )
        return f"the {found.rejected:,} rejected orders are the same as with a plain loop over the same messages"

    def print_results(self, console: Console) -> None:
        """Prints the first of the rejected orders."""
        if self.rejected:
            console.print(rejected_table(self.rejected[:_SHOWN]))
            if len(self.rejected) > _SHOWN:
                console.print(f"and {len(self.rejected) - _SHOWN:,} more")
            console.print()

    def results(self) -> dict[str, Any]:
        """Returns the rejected orders and the comparison as plain data for JSON."""
        return {
            "rejected": [
                {**asdict(order), "order_id": order.order_id.decode(), "symbol": order.symbol.decode().strip()}
                for order in self.rejected
            ],
            "checks": {"equal": self.equal, **asdict(self.checked)},
        }
