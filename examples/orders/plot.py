"""Draws the turnover of the table, and the alerts that follow from it: `python plot.py orders.svg`."""

import os
import sys
from collections import defaultdict
from collections.abc import Sequence

import matplotlib
from deltalake import DeltaTable
from matplotlib.figure import Figure
from spending import Alert, Order, Recent, check

matplotlib.rcParams["svg.hashsalt"] = "orders"  # the same file for the same table


def alerts_of(orders: Sequence[Order]) -> list[Alert]:
    """Returns the alerts of orders, which are by time for each customer, by a plain loop."""
    customers: defaultdict[str, Recent] = defaultdict(Recent)
    return [alert for order in orders if (alert := check(order, customers[order.customer])) is not None]


def main(path: str) -> None:
    """Reads the table and draws it."""
    rows = DeltaTable(os.environ.get("TABLE", "orders-table")).to_pyarrow_table().sort_by("id").to_pylist()
    orders = [Order(row["id"], row["customer"], row["amount"], row["time"]) for row in rows]
    minutes: defaultdict[object, float] = defaultdict(float)
    for order in orders:
        minutes[order.time.replace(minute=order.time.minute // 5 * 5, second=0, microsecond=0)] += order.amount
    alerts = alerts_of(orders)
    figure = Figure(figsize=(8, 4), layout="constrained")
    turnover, alarms = figure.subplots(2, 1, sharex=True)
    # The last step has not ended.
    turnover.step([*minutes][:-1], [*minutes.values()][:-1], where="post", color="#0072b2")
    turnover.set_ylabel("turnover in 5 minutes")
    alarms.scatter([one.time for one in alerts], [one.spent for one in alerts], s=12, color="#d55e00")
    alarms.set_ylabel("spent at an alert")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "orders.svg")
