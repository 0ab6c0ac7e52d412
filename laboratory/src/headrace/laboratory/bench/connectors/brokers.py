"""The addresses of the brokers: the given ones, or the brokers of this checkout, which are started if necessary."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.contract.errors import HeadraceError

_ROOT = Path(__file__).parents[6]
_MODULE = "scripts.brokers"


class BrokersMissing(HeadraceError):
    """There is no broker to measure; the message says what to do."""


@contextmanager
def addresses(names: Sequence[str], given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yields the addresses of brokers by name. Brokers that this starts are stopped at the end; others keep running.

    Raises:
        BrokersMissing: An address was not given, and no broker can be started here.
    """
    missing = [name for name in names if name not in given]
    if not missing:
        yield dict(given)
        return
    if not (_ROOT / "scripts" / "brokers").is_dir():
        options = " and ".join(f"--{name}" for name in missing)
        raise BrokersMissing(
            f"tell the address of a broker that runs with {options}, or run this in a checkout, after: make brokers"
        )
    started = [name for name, broker in _status(missing).items() if not broker["running"]]
    try:
        if started:
            _brokers("start", *started)
        yield {**given, **{name: broker["url"] for name, broker in _status(missing).items()}}
    finally:
        if started:
            _brokers("stop", *started)


def _status(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the status of brokers, by name."""
    return {broker["name"]: broker for broker in json.loads(_brokers("status", "--json", *names))["brokers"]}


def _brokers(*arguments: str) -> str:
    """Runs `python -m scripts.brokers` in the checkout.

    Raises:
        BrokersMissing: It failed.
    """
    command = [sys.executable, "-m", _MODULE, *arguments]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokersMissing(done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout
