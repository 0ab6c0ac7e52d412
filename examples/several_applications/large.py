"""The orders of 100 and more, as they come."""

from headrace.pipelines import Pipeline


def is_large(order: str) -> bool:
    """Whether an order such as `ann,30` has an amount of 100 or more."""
    return float(order.partition(",")[2]) >= 100


app = Pipeline("large")
app.source("orders/*", decode=bytes.decode).filter(is_large).sink("large")
