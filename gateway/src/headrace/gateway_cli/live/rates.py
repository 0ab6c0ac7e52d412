"""Rates per second, from two status documents of the same gateway."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.contract.names import covers


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second, by name. A name that is not in both documents has none."""

    received: Mapping[str, float] = field(default_factory=dict)
    """Received of each stream."""
    acknowledged: Mapping[str, float] = field(default_factory=dict)
    """Acknowledged of each stream."""
    committed: Mapping[str, float] = field(default_factory=dict)
    """Committed by each pipeline."""
    staged: Mapping[str, float] = field(default_factory=dict)
    """Staged at each sink."""


NONE = Rates()


def rates(before: Mapping[str, Any], now: Mapping[str, Any]) -> Rates | None:
    """Returns the rates between two documents; None if they are of the same moment, or the gateway has restarted in between."""
    elapsed_s = (now["gateway"]["uptime_ms"] - before["gateway"]["uptime_ms"]) / 1000
    if elapsed_s <= 0:
        return None
    earlier = {stream["stream"]: stream for stream in before["streams"]}
    streams = [(stream, earlier[stream["stream"]]) for stream in now["streams"] if stream["stream"] in earlier]
    received = {new["stream"]: new["received_messages"] - old["received_messages"] for new, old in streams}
    acknowledged = {new["stream"]: new["acknowledged_messages"] - old["acknowledged_messages"] for new, old in streams}
    lag = {pipeline["pipeline"]: pipeline["lag_messages"] for pipeline in before["pipelines"]}
    committed = {
        pipeline["pipeline"]: _read_by(pipeline, received) + lag[pipeline["pipeline"]] - pipeline["lag_messages"]
        for pipeline in now["pipelines"]
        if pipeline["pipeline"] in lag
    }
    staged = {sink["sink"]: sink["staged_messages"] for sink in before["sinks"]}
    sinks = {sink["sink"]: sink["staged_messages"] - staged[sink["sink"]] for sink in now["sinks"] if sink["sink"] in staged}
    return Rates(*(_per_second(counts, elapsed_s) for counts in (received, acknowledged, committed, sinks)))


def _read_by(pipeline: Mapping[str, Any], received: Mapping[str, int]) -> int:
    """Returns how many messages were received of the streams that a pipeline reads."""
    patterns = pipeline["patterns"]
    return sum(count for stream, count in received.items() if count and any(covers(pattern, stream) for pattern in patterns))


def _per_second(counts: Mapping[str, int], elapsed_s: float) -> dict[str, float]:
    # Messages that come again after a restart of a source may have been counted before.
    return {name: max(0, count) / elapsed_s for name, count in counts.items()}
