"""Measures the received and committed messages, their rate, and the latency of acknowledgements."""

from collections import deque
from dataclasses import dataclass, field

_RATE_OVER_S = 2.0
_RECENT_LATENCIES = 20


@dataclass(frozen=True)
class Stretch:
    """Consecutive messages of a run.

    Attributes:
        messages: Their number.
        took_s: Seconds from the first one's arrival at the gateway, or from the acknowledgement of the stretch before, to the
            last one's acknowledgement.
        ack_latency_p50_s: The median latency from arrival to acknowledgement, in seconds; None without measurements.
        ack_latency_p99_s: The 99th percentile.
    """

    messages: int
    took_s: float
    ack_latency_p50_s: float | None
    ack_latency_p99_s: float | None

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.took_s if self.took_s > 0 else 0.0


@dataclass
class Meter:
    """The counts over the time of one run. They never decrease, even if the gateway restarts."""

    received: int = 0
    committed: int = 0
    first_received_s: float | None = None
    last_committed_s: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Latencies from a message's arrival at the gateway to its acknowledgement, in seconds."""
    _steps: list[tuple[float, int, int]] = field(default_factory=list)
    """For each commit: its time, the number of committed messages, and the number of known latencies."""
    _arrivals: deque[tuple[float, int]] = field(default_factory=deque)
    _commits: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, received: int, committed: int, now_s: float) -> None:
        """Records the counts at a time."""
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
            self._steps.append((now_s, committed, len(self.latencies)))

    def rate(self, now_s: float) -> float:
        """Returns the recent rate of committed messages per second."""
        while len(self._commits) > 1 and self._commits[1][0] < now_s - _RATE_OVER_S:
            self._commits.popleft()
        if not self._commits:
            return 0.0
        began, count = self._commits[0]
        return (self.committed - count) / max(now_s - began, 0.001)

    @property
    def stream_s(self) -> float:
        """Seconds from the first message's arrival to the last commit."""
        return self.last_committed_s - (self.first_received_s or 0.0)

    def recent_latency(self) -> float | None:
        """Returns the median of the latest latencies, in seconds."""
        recent = sorted(self.latencies[-_RECENT_LATENCIES:])
        return recent[len(recent) // 2] if recent else None

    def latency(self, share: float) -> float | None:
        """Returns a quantile of all latencies, in seconds."""
        return _quantile(self.latencies, share)

    def halves(self) -> tuple[Stretch, Stretch] | None:
        """Returns the messages up to the commit that passed half of them, and the others; None if there was only one commit."""
        passing = (step for step in self._steps if 2 * step[1] >= self.committed)
        middle_s, count, known = next(passing, (0.0, self.committed, 0))
        if count >= self.committed or self.first_received_s is None:
            return None
        first, second = self.latencies[:known], self.latencies[known:]
        return (
            Stretch(count, middle_s - self.first_received_s, _quantile(first, 0.5), _quantile(first, 0.99)),
            Stretch(self.committed - count, self.last_committed_s - middle_s, _quantile(second, 0.5), _quantile(second, 0.99)),
        )


def _quantile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
