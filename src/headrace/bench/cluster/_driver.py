"""A driver that stays, `python -m headrace.bench.cluster._driver MASTER`, and runs Market Spread again and again in one session.

It reads from its standard input between what to run it, a JSON object each: `{"gateway", "folder"}`. It answers with a line once
the query runs, and stops it when it reads another line. It ends with its input.
"""

import json
import logging
import sys
from pathlib import Path

from headrace.bench._queries import session
from headrace.bench.pipelines._apps import market_spread
from headrace.bench.pipelines._queries import running

RUNS = "runs"


def main() -> None:
    """Runs one query after the other."""
    logging.getLogger("headrace").setLevel(logging.ERROR)
    spark = session(sys.argv[1], quick_start=True)
    for line in sys.stdin:
        asked = json.loads(line)
        with running(market_spread(), spark, asked["gateway"], Path(asked["folder"])):
            print(RUNS, flush=True)
            sys.stdin.readline()
    spark.stop()


if __name__ == "__main__":
    main()
