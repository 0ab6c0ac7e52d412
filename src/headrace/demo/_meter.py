"""How much has come in and is committed, how fast, and how long messages wait for their acknowledgement."""

from collections import deque
from dataclasses import dataclass, field

_RATE_OVER_S = 2.0
_RECENT_LATENCIES = 20


@dataclass
class Meter:
    """Counts over the time of one run. They never fall, whatever a gateway that has restarted says."""

    received: int = 0
    committed: int = 0
    first_received_s: float | None = None
    last_committed_s: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """From a message's arrival at the gateway to its acknowledgement."""
    _arrivals: deque[tuple[float, int]] = field(default_factory=deque)
    _commits: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, received: int, committed: int, now_s: float) -> None:
        """What the counts are now."""
        if received > self.received:
            if self.first_received_s is None:
                self.first_received_s = now_s
                self._commits.append((now_s, 0))
            self.received = received
            self._arrivals.append((now_s, received))
        if committed > self.committed:
            self.committed = committed
            self.last_committed_s = now_s
            self._commits.append((now_s, committed))
            while self._arrivals and self._arrivals[0][1] <= committed:
                self.latencies.append(now_s - self._arrivals.popleft()[0])

    def rate(self, now_s: float) -> float:
        """Messages committed each second, lately."""
        while len(self._commits) > 1 and self._commits[1][0] < now_s - _RATE_OVER_S:
            self._commits.popleft()
        if not self._commits:
            return 0.0
        began, count = self._commits[0]
        return (self.committed - count) / max(now_s - began, 0.001)

    @property
    def stream_s(self) -> float:
        """From the first message's arrival to the last commit."""
        return self.last_committed_s - (self.first_received_s or 0.0)

    def recent_latency(self) -> float | None:
        """The median of the latest latencies, in seconds."""
        recent = sorted(self.latencies[-_RECENT_LATENCIES:])
        return recent[len(recent) // 2] if recent else None

    def latency(self, share: float) -> float | None:
        """The latency that a share of all did not exceed, in seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
