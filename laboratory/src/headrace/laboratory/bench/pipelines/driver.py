"""A driver to be killed.

`python -m headrace.laboratory.bench.pipelines.driver ADDRESS FOLDER` passes stamped messages through a state.
"""

import logging
import sys
from pathlib import Path

from headrace.laboratory.bench.pipelines.apps import stamps
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.queries import session


def main() -> None:
    """Runs until it is killed. A file records when the session was ready, since the JVM's startup is not measured."""
    logging.getLogger("headrace").setLevel(logging.ERROR)
    address, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(quick_start=True)
    (folder / "ready").touch()
    with running(stamps(), spark, address, folder) as query:
        query.awaitTermination()


if __name__ == "__main__":
    main()
