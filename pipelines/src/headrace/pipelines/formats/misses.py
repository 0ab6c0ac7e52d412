"""Misses of a registry, and for how long each is kept."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")

FIRST_KEPT_S, MAX_KEPT_S, MAX_MISSES = 0.5, 5.0, 1024
"""How long the first miss is kept, and at most the later ones, in seconds, and how many are."""


@dataclass(frozen=True, slots=True)
class _Miss:
    error: str
    kept_s: float
    ends_at: float


class Misses(Generic[K]):
    """Keeps misses so that the registry is not asked for each message. Any thread may call it.

    A replica of a registry may lag for a moment, and a schema may come late or never: each further miss is kept twice as long.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Takes the time in seconds, which never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._misses = OrderedDict[K, _Miss]()
        """In the order in which they were last added."""

    def error(self, key: K) -> str | None:
        """Returns the error of a key that is not to be asked for now; None if it is."""
        with self._lock:
            miss = self._misses.get(key)
            return miss.error if miss is not None and self._clock() < miss.ends_at else None

    def add(self, key: K, error: str) -> None:
        """Keeps a miss."""
        with self._lock:
            before, now = self._misses.pop(key, None), self._clock()
            if before is not None and now < before.ends_at:
                kept_s = before.kept_s  # Two threads have asked at once.
            else:
                kept_s = FIRST_KEPT_S if before is None else min(2 * before.kept_s, MAX_KEPT_S)
            self._misses[key] = _Miss(error, kept_s, now + kept_s)
            if len(self._misses) > MAX_MISSES:
                self._misses.popitem(last=False)

    def remove(self, key: K) -> None:
        """Forgets the misses of a key, which is known now."""
        with self._lock:
            self._misses.pop(key, None)
