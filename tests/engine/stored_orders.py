"""An application whose states are of many types, in a module that Spark's Python processes import."""

import datetime
from dataclasses import dataclass, field

from headrace.pipelines import Pipeline, total, tumbling


@dataclass
class Order:
    seen: int = 0
    parts: list[str] = field(default_factory=list)
    last: datetime.datetime | None = None
    price: float = 0.0


def order(number: int, state: Order) -> str:
    state.seen += 1
    state.parts.append(f"p{number}")
    state.last = datetime.datetime.fromtimestamp(number, datetime.UTC)
    return "."


def listed(number: int, state: list[int]) -> str:
    state.append(number)
    return "."


def mixed(number: int) -> str | int:
    return number % 3 if number % 2 else f"k{number % 3}"


def orders() -> Pipeline:
    """Keeps orders by a text and by a number, lists by keys of two types, and sums in windows."""
    app = Pipeline("orders")
    numbers = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
    numbers.key_by(lambda n: f"k{n % 7}").stateful(order, Order, name="by_text").sink("out")
    numbers.key_by(lambda n: n % 7).stateful(order, Order, name="by_number").sink("out")
    numbers.key_by(mixed).stateful(listed, list, name="lists").sink("out")
    numbers.key_by(lambda n: b"%d" % (n % 2)).window(tumbling("10 s")).aggregate(total(), name="sums").map(str).sink("out")
    return app
