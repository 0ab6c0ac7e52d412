"""A clock that tests set."""


class VirtualClock:
    """Stands still until it is moved; use it with `headrace.contract.clock.use`."""

    def __init__(self, monotonic_s: float = 1000.0) -> None:
        self._monotonic_s = monotonic_s
        self._ahead_s = 0.0

    def monotonic(self) -> float:
        return self._monotonic_s

    def now_ns(self) -> int:
        return 1_790_000_000 * 10**9 + round((self._monotonic_s + self._ahead_s) * 1e9)

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._monotonic_s += seconds

    def set(self, *, ahead_s: float) -> None:
        """Sets the time of day, ahead of what it would be."""
        self._ahead_s = ahead_s
