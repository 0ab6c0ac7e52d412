"""How many orders each customer has placed so far."""

from dataclasses import dataclass

from headrace.pipelines import Pipeline


@dataclass(slots=True)
class Orders:
    """The state of a customer."""

    placed: int = 0


def count(order: str, orders: Orders) -> str:
    """Counts an order, and returns its customer with the count."""
    orders.placed += 1
    return f"{customer_of(order)} {orders.placed}"


def customer_of(order: str) -> str:
    """Returns the customer of an order such as `ann,30`."""
    return order.partition(",")[0]


app = Pipeline("customers")
app.source("orders/*", decode=bytes.decode).key_by(customer_of).stateful(count, Orders, name="orders").sink("customers")
