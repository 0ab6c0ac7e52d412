"""A connector process: `python -m tests.faults.connector SOURCE FOLDER GATEWAY`."""

import logging
import sys
from pathlib import Path

from tests.faults.sources import SOURCES

from headrace.sdk import Settings, run


def main(source: str, folder: str, gateway: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    return run(SOURCES[source](Path(folder)), gateway=gateway, settings=Settings(partition_poll_seconds=0.3))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
