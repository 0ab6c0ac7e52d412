"""Orders from Kafka, in Avro with a registry: all of them into a Delta table, and an alert for customers who spend much."""

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipelines import OnError, Pipeline
from headrace.pipelines.formats import Registry, avro, json

LIMIT = 1_000.0
WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Order:
    """A row of the table."""

    id: int
    customer: str
    amount: float
    time: datetime


@dataclass(frozen=True, slots=True)
class Alert:
    """A customer has spent more than the limit."""

    customer: str
    spent: float
    orders: list[int]
    time: datetime


@dataclass(slots=True)
class Recent:
    """The state of a customer: what it ordered lately, and has not been alerted about."""

    orders: list[Order] = field(default_factory=list)


def check(order: Order, recent: Recent) -> Alert | None:
    """Adds up the orders of the ten minutes before this one."""
    recent.orders = [*(one for one in recent.orders if one.time > order.time - WITHIN), order]
    spent = sum(one.amount for one in recent.orders)
    if spent <= LIMIT:
        return None
    alert = Alert(order.customer, round(spent, 2), [one.id for one in recent.orders], order.time)
    recent.orders = []
    return alert


registry = Registry(os.environ.get("REGISTRY", "http://127.0.0.1:8081/apis/ccompat/v7"))
app = Pipeline("spending", dead_letters="unreadable")
orders = app.source("orders/*", decode=avro(kind=Order, registry=registry), on_error=OnError.DEAD_LETTER)
orders.lake(os.environ.get("TABLE", "orders-table"), schema=Order, format="delta", name="table")
orders.key_by(lambda order: order.customer).stateful(check, Recent, name="recent").sink("alerts", encode=json())
