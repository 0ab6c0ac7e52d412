"""What a master says of its cluster: the JSON of its page."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

_ANSWERS_WITHIN_S = 5.0
_ALIVE = "ALIVE"
# A proxy knows nothing of this machine's own addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class MasterPage:
    """What a master knew of its workers and applications when it was asked.

    Attributes:
        workers: The addresses of the workers that it believes alive.
        applications: The names of the applications that have registered and not ended.
        executor_cores: How many cores of each of these workers executors have, by the worker's address.
    """

    workers: frozenset[str]
    applications: tuple[str, ...]
    executor_cores: dict[str, int]


def read_page(address: str) -> MasterPage | None:
    """What the master says whose page has this address; None where it does not answer yet.

    An answer that is no JSON is another server's, and counts as none.
    """
    try:
        with _opener.open(f"http://{address}/json/", timeout=_ANSWERS_WITHIN_S) as answer:
            said: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    alive = [worker for worker in said.get("workers", ()) if worker["state"] == _ALIVE]
    cores = {f"{worker['host']}:{worker['port']}": int(worker["coresused"]) for worker in alive}
    return MasterPage(frozenset(cores), tuple(each["name"] for each in said.get("activeapps", ())), cores)
