"""A benchmark as parts that run one after the other, in one Spark session."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, machine
from headrace.laboratory.bench.queries import session
from headrace.laboratory.bench.sources import MESSAGE_BYTES

Say = Callable[[str], None]
Part = Callable[[SparkSession, Say, bool], Iterator[Figure]]


def run_parts(
    known: Mapping[str, Part],
    names: Sequence[str],
    quick: bool,
    say: Say,
    *,
    spark_conf: Mapping[str, str] | None = None,
    quick_start: bool = False,
    **conditions: str,
) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts. Returns their figures and the conditions."""
    # A quick run ends before the optimising compiler pays off.
    spark = session(conf=spark_conf, quick_start=quick_start or quick)
    figures: list[Figure] = []
    for name in names:
        say(f"{name} ...")
        figures += known[name](spark, say, quick)
    return figures, machine() | {"message_bytes": MESSAGE_BYTES, "quick": quick, **conditions}
