"""A driver that stays and runs Market Spread again and again in one session.

`python -m headrace.laboratory.bench.cluster.driver MASTER` starts it.

It reads from its standard input between what to run it, a JSON object each: `{"gateway", "folder"}`. It answers with a line once
the query runs, and stops it when it reads another line. It ends with its input.
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
