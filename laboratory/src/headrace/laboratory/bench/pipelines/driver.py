"""Drivers in processes of their own.

`python -m headrace.laboratory.bench.pipelines.driver ADDRESS FOLDER` passes stamped messages through a state until it is killed.

With MASTER as the only argument, it runs Market Spread repeatedly in one session. From standard input it reads a JSON object for
each run: `{"gateway", "folder"}`. It prints a line once the query runs, and stops the query when it reads another line. It ends
when its input does.
"""

import json
import logging
import sys
from pathlib import Path

from headrace.laboratory.bench.pipelines.apps import market_spread, stamps
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.queries import session

RUNS = "runs"


def main() -> None:
    """Runs the driver that the arguments name."""
    logging.getLogger("headrace").setLevel(logging.ERROR)
    if len(sys.argv) == 2:
        _run_on_request(sys.argv[1])
    else:
        _run_until_killed(sys.argv[1], Path(sys.argv[2]))


def _run_on_request(master: str) -> None:
    """Runs queries, one after the other."""
    spark = session(master, quick_start=True)
    for line in sys.stdin:
        asked = json.loads(line)
        with running(market_spread(), spark, asked["gateway"], Path(asked["folder"])):
            print(RUNS, flush=True)
            sys.stdin.readline()
    spark.stop()


def _run_until_killed(address: str, folder: Path) -> None:
    """Runs one query. A file records when the session was ready, since the JVM's startup is not measured."""
    spark = session(quick_start=True)
    (folder / "ready").touch()
    with running(stamps(), spark, address, folder) as query:
        query.awaitTermination()


if __name__ == "__main__":
    main()
