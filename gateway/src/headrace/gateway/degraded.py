"""For how long each part has been degraded, whatever the causes were: a fault that changes its kind begins no new time."""

from collections.abc import Iterable, Mapping

from headrace.gateway.core import Problem

OF_THE_FLOW = ("stream", "connector", "source", "sink", "pipeline", "process")
"""What the parts begin with whose faults delay data."""


class Degraded:
    """The parts that are degraded, as far as somebody has looked."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def update(self, problems: Iterable[Problem], now: float) -> Mapping[str, float]:
        """Takes what is wrong now.

        Args:
            problems: What is wrong.
            now: When that was found, on the monotonic clock.

        Returns:
            For how long each part has been degraded, in seconds; what somebody has paused is not.
        """
        before, self._since = self._since, {}
        for problem in problems:
            if problem.is_fault:
                began = now - problem.age_ms / 1000
                self._since[problem.part] = min(began, before.get(problem.part, began))
        return {part: max(0.0, now - since) for part, since in self._since.items()}


def flow_s(degraded_s: Mapping[str, float]) -> float:
    """Returns for how long a part of the flow has been degraded, of all of them the longest; 0 if none is."""
    return max((seconds for part, seconds in degraded_s.items() if part.partition(" ")[0] in OF_THE_FLOW), default=0.0)
