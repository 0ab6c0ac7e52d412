"""A process that tells what the driver was processing when it ended, if functions of an application run in the driver.

Run by its path, without the packages of Headrace, so that it is small. Standard input is a pipe whose other end only the driver
holds; the arguments are the folder of `CallFiles`, and the process id of the driver.
"""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

_RECORD_BYTES = 512


def main(folder: str, driver: str) -> None:
    """Waits until the driver has ended, and names what it was processing; it has removed the folder if it ended in order."""
    while os.read(0, 1024):
        pass
    for path in sorted(Path(folder).glob(f"{driver}.*")):
        if text := path.read_bytes()[:_RECORD_BYTES].decode(errors="replace").strip():
            _tell(f"the process of the application has died while it processed {text}")


def _tell(event: str) -> None:
    if os.environ.get("HEADRACE_LOG_FORMAT") == "json":
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        event = json.dumps({"timestamp": now, "level": "error", "logger": "headrace.engine", "event": event})
    print(event, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
