"""Notes when faults begin and end, from one look at the gateway to the next."""

from collections import Counter
from collections.abc import Iterable

from headrace.contract import clock
from headrace.gateway.core.state import EventKind, EventLog
from headrace.gateway.core.status.problem import Kind, Problem

MAX_AT_ONCE = 20
"""How many faults of a kind are noted one by one when they begin or end together; the others are counted."""
MAX_KNOWN = 1_000
"""How many faults are followed."""


class FaultWatch:
    """The faults of the last look. What a fault brings about elsewhere is left out: only first causes are events."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._began: dict[tuple[str, Kind], float] = {}
        """When each fault was first seen, on the monotonic clock."""

    def look(self, problems: Iterable[Problem]) -> None:
        """Compares the present faults with the faults of the last look."""
        now = clock.monotonic()
        found: dict[tuple[str, Kind], Problem] = {}
        for problem in problems:
            if len(found) < MAX_KNOWN and problem.is_fault and problem.root in ("", problem.part):
                found.setdefault((problem.part, problem.kind), problem)
        ended = {key: f"{key[1]}, after {now - began:.0f} s" for key, began in self._began.items() if key not in found}
        begun = {key: f"{key[1]}: {problem.cause}" for key, problem in found.items() if key not in self._began}
        self._note(EventKind.FAULT_ENDED, ended)
        self._note(EventKind.FAULT_BEGAN, begun)
        self._began = {key: self._began.get(key, now) for key in found}

    def _note(self, event: EventKind, faults: dict[tuple[str, Kind], str]) -> None:
        noted: Counter[Kind] = Counter()
        for (part, kind), text in faults.items():
            noted[kind] += 1
            if noted[kind] <= MAX_AT_ONCE:
                self._log.add(event, part, text)
        for kind, count in noted.items():
            if count > MAX_AT_ONCE:
                self._log.add(event, "gateway", f"{kind}: {count - MAX_AT_ONCE} more parts at the same time")
