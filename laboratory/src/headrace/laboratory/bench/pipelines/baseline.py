"""Spark's own operators on the same messages, in a JVM with Java's defaults, which suit these operators best.

`python -m headrace.laboratory.bench.pipelines.baseline WHAT APPLICATION KEYS SIZE...` prints the micro-batches as JSON.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, WORD_COUNT, App
from headrace.laboratory.bench.pipelines.feed import Feed, MarketFeed, Words
from headrace.laboratory.bench.pipelines.queries import Batch, native_count, transform_with_state
from headrace.laboratory.bench.queries import session

COUNT = "count"
TRANSFORM_WITH_STATE = "transform-with-state"
_MAX_S = 3600.0


def spark_alone(what: str, feed: Feed, sizes: Sequence[int]) -> list[Batch]:
    """Runs one of Spark's own operators, and returns its micro-batches.

    Args:
        what: COUNT, its aggregation, or TRANSFORM_WITH_STATE with the functions of the application that the feed is for.
        feed: The messages.
        sizes: The number of messages in each micro-batch.
    """
    given = ["words", str(feed.keys)] if isinstance(feed, Words) else ["market", "0"]
    command = [sys.executable, "-m", "headrace.laboratory.bench.pipelines.baseline", what, *given, *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_MAX_S, check=True)
    return [Batch(**batch) for batch in json.loads(done.stdout)]


def _application(name: str, keys: int) -> tuple[App, Feed]:
    return (WORD_COUNT, Words(keys)) if name == "words" else (MARKET_SPREAD, MarketFeed())


def main() -> None:
    """Measures one operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[COUNT, TRANSFORM_WITH_STATE])
    parser.add_argument("application", choices=["words", "market"])
    parser.add_argument("keys", type=int)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    app, feed = _application(given.application, given.keys)
    spark = session()
    batches = (
        native_count(spark, feed, given.sizes) if given.what == COUNT else transform_with_state(spark, app, feed, given.sizes)
    )
    json.dump([asdict(batch) for batch in batches], sys.stdout)


if __name__ == "__main__":
    main()
