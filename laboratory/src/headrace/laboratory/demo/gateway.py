"""Finds the gateway's address, and the reason for which a process has failed."""

import time
from collections.abc import Callable
from pathlib import Path

from headrace.laboratory.errors import DemoError
from headrace.processes import OwnedProcess

_LOOK_EVERY_S = 0.04
_LISTENS_WITHIN_S = 120.0


def address_in(file: Path, gateway: OwnedProcess, check: Callable[[], object]) -> str:
    """Waits for the address that a gateway writes into its ready file. Meanwhile, `check` raises if waiting is pointless.

    Raises:
        DemoError: The gateway did not listen in time.
    """
    deadline = time.monotonic() + _LISTENS_WITHIN_S
    while not file.exists():
        check()
        if time.monotonic() > deadline:
            raise failed(gateway, f"the gateway did not listen within {_LISTENS_WITHIN_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
    return file.read_text().strip()


def failed(process: OwnedProcess, what: str) -> DemoError:
    """Returns the error for a process that has failed, with the last line of its log."""
    tail = process.tail()
    return DemoError(f"{what}: {tail[-1].strip()}" if tail else what, tail[:-1])
