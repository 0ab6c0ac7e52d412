"""Keeps what happens again and again from filling a log: a line of a kind is logged once in a while, with how often it came."""

import logging
from collections import OrderedDict
from collections.abc import Hashable

from headrace.contract import clock
from headrace.logs.context import context_fields

REPEAT_S = 10.0
"""How long a kind of event is not logged again, in seconds."""
LINE_S = 5.0
"""The same for a line of any logger, in seconds; shorter, so that lines that are already held back elsewhere all pass."""
_MAX_KINDS = 1024
_OF_ONE_CALL = frozenset({"attempt", "peer", "repeats", "session", "timestamp"})
"""Fields that differ each time somebody tries again."""
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime"}


class Repeats:
    """Says for each kind of event whether it is due. Remembers a bounded number of kinds, and forgets the oldest."""

    def __init__(self, every_s: float = REPEAT_S) -> None:
        """Takes how long a kind is silent after it was logged, in seconds."""
        self._every_s = every_s
        self._kinds: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def admit(self, kind: Hashable) -> int | None:
        """Returns how often the kind was held back since it was last logged, if it is to be logged now; otherwise None."""
        now = clock.monotonic()
        logged_at, held_back = self._kinds.get(kind, (None, 0))
        if logged_at is not None and now - logged_at < self._every_s:
            self._kinds[kind] = logged_at, held_back + 1
            return None
        self._kinds.pop(kind, None)
        self._kinds[kind] = now, 0
        if len(self._kinds) > _MAX_KINDS:
            self._kinds.popitem(last=False)
        return held_back

    def forget(self, kind: Hashable) -> None:
        """Lets the next event of a kind be logged at once."""
        self._kinds.pop(kind, None)


class RepeatsFilter(logging.Filter):
    """Holds back warnings and errors that repeat what a logger has just said; the next one has their number in `repeats`.

    Lines about a change that somebody has requested are all logged.
    """

    def __init__(self, every_s: float = LINE_S) -> None:
        """Takes how long a line is not logged again, in seconds."""
        super().__init__()
        self._repeats = Repeats(every_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is logged."""
        if record.levelno < logging.WARNING:
            return True
        fields = {"event": record.getMessage(), **context_fields(), **fields_of(record)}
        if "by" in fields:
            return True
        said = frozenset((name, str(value)) for name, value in fields.items() if name not in _OF_ONE_CALL)
        held_back = self._repeats.admit((record.name, record.levelno, said))
        if held_back:
            record.repeats = held_back
        return held_back is not None


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Returns what `extra` has added to a record."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and not name.startswith("_")}
