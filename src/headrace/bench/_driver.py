"""A Spark driver to be killed: `python -m headrace.bench._driver ADDRESS FOLDER` writes what the connector sends to the sink."""

import logging
import sys
from pathlib import Path

from headrace.bench._queries import headrace, session, sink_query


def main() -> None:
    """Runs until it is killed; a file says when the session was there, since the JVM's start is not Headrace's."""
    logging.getLogger("headrace").setLevel(logging.ERROR)
    address, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(quick_start=True)
    (folder / "ready").touch()
    sink_query(headrace(spark, address), address, folder).awaitTermination()


if __name__ == "__main__":
    main()
