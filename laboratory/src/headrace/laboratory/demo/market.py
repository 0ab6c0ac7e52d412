"""Market Spread's results: their form in the sink's files, and the plain computation that checks them."""

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import ModuleType

from headrace.laboratory.errors import EnvironmentLacks

MAX_SPREAD = 0.05
"""The difference between bid and offer, in dollars and as a share, from which orders are rejected."""

_RESULT = Struct(">IBI6s4sddddQ")
_QUOTE = Struct(">5x21xdd")
_ORDER = Struct(">xBI6s4sdd21x")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected order, and the prices at that moment."""

    side: int
    account: int
    order_id: bytes
    symbol: bytes
    quantity: float
    price: float
    bid: float
    offer: float
    timestamp: int

    @property
    def order(self) -> tuple[int, int, bytes, bytes, float, float]:
        """Returns the fields of the order itself."""
        return self.side, self.account, self.order_id, self.symbol, self.quantity, self.price

    @property
    def rightly(self) -> bool:
        """Whether these prices justify the rejection."""
        return too_far_apart(self.bid, self.offer)


def too_far_apart(bid: float, offer: float) -> bool:
    """Whether orders are rejected at these prices."""
    return offer - bid >= MAX_SPREAD or (offer - bid) / ((bid + offer) / 2) >= MAX_SPREAD


def read_rejected(folder: Path, after: int = 0) -> list[Rejected]:
    """Reads the results in a sink's files, without the first `after` ones and without an incomplete last one."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.bin")))
    whole = len(data) // _RESULT.size
    return [Rejected(*fields[1:]) for fields in _RESULT.iter_unpack(data[after * _RESULT.size : whole * _RESULT.size])]


@dataclass(frozen=True)
class Check:
    """The comparison of the rejected orders with the orders that a loop over the same messages rejects.

    Attributes:
        rejected: The number of orders that the loop rejects.
        missing: The number of these that the run did not reject, or not as often.
        wrong: The number of orders that the run rejected and the loop did not, or without a reason.
    """

    rejected: int
    missing: int
    wrong: int

    @property
    def equal(self) -> bool:
        """Whether the results are equal."""
        return not self.missing and not self.wrong


def check(found: Sequence[Rejected], feed: ModuleType, messages: int) -> Check:
    """Compares with a plain Python loop over `messages` quotes and as many orders, without Headrace and without Spark."""
    market = feed.Feed()
    rejecting: dict[bytes, bool] = {}
    for key, value in market.nbbo(0).messages()[: min(len(market.opening), messages)]:
        rejecting[key] = too_far_apart(*_QUOTE.unpack(value))
    expected: Counter[tuple[int, int, bytes, bytes, float, float]] = Counter()
    for block in range(-(-messages // feed.BLOCK)):
        values = market.orders(block).values[: (messages - block * feed.BLOCK) * _ORDER.size]
        expected.update(order for order in _ORDER.iter_unpack(values) if rejecting.get(order[3], True))
    got = Counter(one.order for one in found)
    without_reason = sum(not one.rightly for one in found)
    return Check(expected.total(), (expected - got).total(), (got - expected).total() + without_reason)


def example_folder() -> Path:
    """Returns the folder `examples/market_spread`.

    Raises:
        EnvironmentLacks: Neither the package nor a checkout contains it.
    """
    here = Path(__file__).resolve()
    for folder in (here.parent / "market_spread", here.parents[5] / "examples" / "market_spread"):
        if (folder / "app.py").exists():
            return folder
    raise EnvironmentLacks("examples/market_spread is not here; run the demo in a checkout of the repository")


def load_feed(folder: Path) -> ModuleType:
    """Imports the module of the example that generates its messages."""
    name = "headrace_demo_market_feed"
    spec = importlib.util.spec_from_file_location(name, folder / "feed.py")
    assert spec is not None
    assert spec.loader is not None
    # Dataclasses look up their module here while they are created.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
