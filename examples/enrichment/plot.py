"""Draws what the table has of each hour, and the alerts that follow from it: `python plot.py enrichment.svg`."""

import os
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import matplotlib
from deltalake import DeltaTable
from enrichment import LIMIT, Alert, Customer, Order, Row, row
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "enrichment"  # the same file for the same table


def rows_of(records: Sequence[Any]) -> list[Row]:
    """Returns the rows of records of `feed.py` by id, by a plain loop: each order once, with its customer as of its time."""
    changes: defaultdict[str, list[tuple[datetime, Customer | None]]] = defaultdict(list)
    orders: dict[int, Order] = {}
    for one in records:
        if isinstance(one.value, Order):
            orders[one.value.id] = one.value
        else:
            changes[one.key].append((one.time, one.value))
    found = []
    for order in sorted(orders.values(), key=lambda order: order.id):
        known = changes[order.customer]
        at = bisect_right(known, order.time, key=lambda change: change[0])
        found.append(row((order, known[at - 1][1] if at else None)))
    return found


def alerts_of(rows: Sequence[Row]) -> list[Alert]:
    """Returns the alerts of rows, by a plain loop."""
    hours = Counter((one.customer, one.time.replace(minute=0, second=0, microsecond=0)) for one in rows)
    return [Alert(customer, hour, orders) for (customer, hour), orders in hours.items() if orders > LIMIT]


def main(path: str) -> None:
    """Reads the table and draws it."""
    found = DeltaTable(os.environ.get("TABLE", "enriched")).to_pyarrow_table().sort_by("id").to_pylist()
    rows = [Row(**one) for one in found]
    orders = Counter(one.time.replace(minute=0, second=0, microsecond=0) for one in rows)
    alerts = Counter(one.hour for one in alerts_of(rows))
    hours = sorted(orders)[:-1]  # the last one has not ended
    figure = Figure(figsize=(8, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.bar(hours, [orders[hour] for hour in hours], width=0.03, color="#0072b2")
    above.set_ylabel("orders in an hour")
    below.bar(hours, [alerts[hour] for hour in hours], width=0.03, color="#d55e00")
    below.set_ylabel("customers alerted")
    below.xaxis.set_major_locator(dates := AutoDateLocator())  # type: ignore[no-untyped-call]
    below.xaxis.set_major_formatter(ConciseDateFormatter(dates))  # type: ignore[no-untyped-call]
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "enrichment.svg")
