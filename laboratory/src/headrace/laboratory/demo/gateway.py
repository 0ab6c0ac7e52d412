"""The gateway of a run: where it listens, and why it or another process has failed."""

import time
from collections.abc import Callable
from pathlib import Path

from headrace.laboratory.errors import DemoError
from headrace.processes import OwnedProcess

_LOOK_EVERY_S = 0.04
_LISTENS_WITHIN_S = 120.0


def address_in(file: Path, gateway: OwnedProcess, check: Callable[[], object]) -> str:
    """Waits for the address that a gateway writes into its ready file; `check` raises where waiting is no use.

    Raises:
        DemoError: it did not listen in time.
    """
    deadline = time.monotonic() + _LISTENS_WITHIN_S
    while not file.exists():
        check()
        if time.monotonic() > deadline:
            raise failed(gateway, f"the gateway did not listen within {_LISTENS_WITHIN_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
    return file.read_text().strip()


def failed(process: OwnedProcess, what: str) -> DemoError:
    """Names the first cause: the last line that the process said."""
    tail = process.tail()
    return DemoError(f"{what}: {tail[-1].strip()}" if tail else what, tail[:-1])
