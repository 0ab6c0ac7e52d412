"""Orders, each once and with its customer as of its time, into a Delta table; an alert for customers who order too often."""

import os
from dataclasses import asdict, dataclass
from datetime import datetime

from headrace.pipelines import Pipeline, count, tumbling
from headrace.pipelines.formats import json


@dataclass(frozen=True, slots=True)
class Order:
    """A value of the topic of orders."""

    id: int
    customer: str
    amount: float
    time: datetime


@dataclass(frozen=True, slots=True)
class Customer:
    """A row of the table of customers."""

    name: str
    city: str


@dataclass(frozen=True, slots=True)
class Row(Order):
    """An order, and its customer if that was known."""

    name: str | None = None
    city: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """A customer has placed more orders in an hour than the limit."""

    customer: str
    hour: datetime
    orders: int


def row(pair: tuple[Order, Customer | None]) -> Row:
    """Puts an order and its customer into a row."""
    return Row(**asdict(pair[0]), **(asdict(pair[1]) if pair[1] else {}))


LIMIT = 6
app = Pipeline("enrichment", idle_flush=os.environ.get("QUIET", "5 minutes"))
customers = app.table("customers/*", decode=json(Customer), await_streams=4, bootstrap=True)
orders = app.source("orders/*", decode=json(Order), await_streams=10).key_by(lambda order: order.customer)
once = orders.deduplicate(lambda order: order.id, within="3 hours")
pairs = once.join(customers, on=lambda order: order.customer.encode(), how="left", retention="2 hours")
pairs.map(row).lake(os.environ.get("TABLE", "enriched"), schema=Row, format="delta", name="table")
hours = pairs.window(tumbling("1 hour"), delay="2 hours")
counts = hours.aggregate(count(), output=lambda key, n, window: Alert(key.decode(), window.start_time, n), name="counts")
counts.filter(lambda alert: alert.orders > LIMIT, name="often").sink("alerts", encode=json())
