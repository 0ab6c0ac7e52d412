"""Reads the JSON page of a master."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

_ANSWERS_WITHIN_S = 5.0
_ALIVE = "ALIVE"
# A proxy cannot reach this machine's own addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class MasterPage:
    """A master's view of its workers and applications at one moment.

    Attributes:
        workers: The addresses of the workers that it considers alive.
        applications: The names of the registered applications that have not ended.
        executor_cores: The number of cores that executors use on each of these workers, by the worker's address.
    """

    workers: frozenset[str]
    applications: tuple[str, ...]
    executor_cores: dict[str, int]


def read_page(address: str) -> MasterPage | None:
    """Reads the page of a master; returns None if it does not answer yet, or another server answers without JSON."""
    try:
        with _opener.open(f"http://{address}/json/", timeout=_ANSWERS_WITHIN_S) as answer:
            said: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    alive = [worker for worker in said.get("workers", ()) if worker["state"] == _ALIVE]
    cores = {f"{worker['host']}:{worker['port']}": int(worker["coresused"]) for worker in alive}
    return MasterPage(frozenset(cores), tuple(each["name"] for each in said.get("activeapps", ())), cores)
