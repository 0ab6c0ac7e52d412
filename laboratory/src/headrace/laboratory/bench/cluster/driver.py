"""A driver that runs Market Spread repeatedly in one session.

`python -m headrace.laboratory.bench.cluster.driver MASTER` starts it.

From standard input it reads a JSON object for each run: `{"gateway", "folder"}`. It prints a line once the query runs, and
stops the query when it reads another line. It ends when its input does.
"""

import json
import logging
import sys
from pathlib import Path

from headrace.laboratory.bench.pipelines.apps import market_spread
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.queries import session

RUNS = "runs"


def main() -> None:
    """Runs queries, one after the other."""
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
