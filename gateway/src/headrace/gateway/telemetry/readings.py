"""Reads the values of instruments from an observation of the gateway."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice

from prometheus_client.utils import floatToGoString

from headrace.gateway.core import ConnectorCounts
from headrace.gateway.observer import Observation, flow_s
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.connector_pb2 import ConnectorState
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics, StepMetrics

MAX_STREAMS = 2_000
"""How many streams have series of their own, the first ones by name."""
MAX_PARTS = 200
"""How many degraded parts have series of their own, roots before what follows from them."""
MAX_STEPS = 2_000
"""How many steps have series of their own: steps of the first applications by name."""
MAX_BUCKETS = 4_000
"""How many buckets of histograms have series: no more than an instrument may have."""
Value = tuple[float, dict[str, str]]
"""A value, and its labels."""
_number: Callable[[float], str] = floatToGoString
Read = Callable[[Observation], Iterable[Value]]


def labelled_names(observed: Observation) -> set[str]:
    """Returns all names that may be labels, each with what it names."""
    status = observed.status
    found = {f"stream {stream.stream}" for stream in status.streams}
    found |= {f"pipeline {pipeline.pipeline}" for pipeline in status.pipelines}
    found |= {f"step {pipeline} {step.step}" for pipeline, run in _runs(observed) for step in run.steps}
    found |= {f"series {pipeline} {one.metric} {one.value}" for pipeline, one in _series(observed)}
    found |= {f"degraded {part}" for part in _degraded(observed)}
    return found | {f"sink {sink.sink}" for sink in status.sinks}


def of_gateway(read: Callable[[pb.GatewayStatus], float]) -> Read:
    """Reads one value of the gateway."""
    return lambda observed: [(read(observed.status.gateway), {})]


def degraded(observed: Observation) -> list[Value]:
    """Reads for how long each part has been degraded, as far as there may be series for it."""
    return [(observed.degraded_s[part], {"part": part}) for part in _degraded(observed)]


def _degraded(observed: Observation) -> list[str]:
    return list(observed.degraded_s)[:MAX_PARTS]


def data_age(observed: Observation) -> list[Value]:
    """Reads how long data have been delayed."""
    oldest_ms = max((stream.oldest_unacknowledged_ms for stream in observed.status.streams), default=0)
    return [(max(oldest_ms / 1000, flow_s(observed.degraded_s)), {})]


def of_pipelines(read: Callable[[pb.PipelineStatus], float]) -> Read:
    """Reads a value of each pipeline."""
    return lambda observed: [(read(p), {"pipeline": p.pipeline}) for p in observed.status.pipelines]


def of_sinks(read: Callable[[pb.SinkStatus], float]) -> Read:
    """Reads a value of each sink."""
    return lambda observed: [(read(sink), {"sink": sink.sink}) for sink in observed.status.sinks]


def of_streams(read: Callable[[pb.StreamStatus], float]) -> Read:
    """Reads a value of each stream, as far as there may be series for it."""
    return lambda observed: [(read(stream), {"stream": stream.stream}) for stream in observed.status.streams[:MAX_STREAMS]]


def of_connectors(read: Callable[[ConnectorCounts], float], *roles: str) -> Read:
    """Reads a count of each connector, of some roles."""
    return lambda observed: [
        (read(counts), {"role": counts.role, "connector": counts.connector})
        for counts in observed.connectors
        if counts.role in roles
    ]


def of_runs(read: Callable[[RunMetrics], float]) -> Read:
    """Reads what the run of each application says of itself."""
    return lambda observed: [(read(run), {"pipeline": pipeline}) for pipeline, run in _runs(observed)]


def of_steps(read: Callable[[StepMetrics], float]) -> Read:
    """Reads what each step of each application has done, as far as there may be series for it."""
    return lambda observed: [
        (read(step), {"pipeline": pipeline, "step": step.step})
        for pipeline, step in islice(((pipeline, step) for pipeline, run in _runs(observed) for step in run.steps), MAX_STEPS)
    ]


def counters(observed: Observation) -> Iterable[Value]:
    """Reads what the counters of each application have counted."""
    for pipeline, series in _series(observed):
        if not series.HasField("sum"):
            yield series.count, {"pipeline": pipeline, "metric": series.metric, "value": series.value}


def histogram_buckets(observed: Observation) -> Iterable[Value]:
    """Reads how many numbers of each histogram of each application are at most a bound, as Prometheus counts them."""
    for labels, series in _histograms(observed):
        for bound, count in zip(series.bounds, series.buckets, strict=False):
            yield count, {**labels, "le": _number(bound)}
        yield series.count, {**labels, "le": "+Inf"}


def histogram_sums(observed: Observation) -> Iterable[Value]:
    """Reads the sum of the numbers of each histogram of each application."""
    for labels, series in _histograms(observed):
        yield series.sum, labels


def _histograms(observed: Observation) -> Iterable[tuple[dict[str, str], MetricSeries]]:
    """The first histograms with their labels, each whole, as far as there may be series for their buckets."""
    buckets = 0
    for pipeline, series in _series(observed):
        if series.HasField("sum"):
            buckets += len(series.bounds) + 1
            if buckets > MAX_BUCKETS:
                return
            yield {"pipeline": pipeline, "metric": series.metric, "value": series.value}, series


def _series(observed: Observation) -> Iterable[tuple[str, MetricSeries]]:
    return ((pipeline, series) for pipeline, run in _runs(observed) for series in run.series)


def stages(observed: Observation) -> Iterable[Value]:
    """Reads how much time the micro-batches of each application have spent on each stage."""
    for pipeline, run in _runs(observed):
        for stage in run.stages:
            yield stage.time_ms / 1000, {"pipeline": pipeline, "stage": stage.stage}


def _runs(observed: Observation) -> Iterable[tuple[str, RunMetrics]]:
    return ((p.pipeline, p.metrics) for p in observed.status.pipelines if p.HasField("metrics"))


def of_sessions(read: Callable[[pb.SessionStatus], float]) -> Read:
    """Sums a value of all sessions of sources: their names, like names of connectors, would be labels without bound."""
    return lambda observed: [(sum(read(session) for session in observed.status.sessions), {})]


def counted(label: str, words: Iterable[str], occurrences: Iterable[str]) -> list[Value]:
    """Counts words, also words that are not found: a series that comes and goes is hard to query."""
    counts = Counter(occurrences)
    return [(counts[word], {label: word}) for word in words]


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()


_STREAM_STATES = [_word(name, "STREAM_STATE_") for name in pb.StreamState.keys()[1:]]
_PIPELINE_STATES = [_word(name, "PIPELINE_STATE_") for name in pb.PipelineState.keys()[1:]]
_CONNECTOR_STATES = ["unreported", *(_word(name, "CONNECTOR_STATE_") for name in ConnectorState.keys()[1:])]


def streams(observed: Observation) -> Iterable[Value]:
    """Counts streams by state."""
    states = (_word(pb.StreamState.Name(stream.state), "STREAM_STATE_") for stream in observed.status.streams)
    return counted("state", _STREAM_STATES, states)


def pipelines(observed: Observation) -> Iterable[Value]:
    """Counts pipelines by state."""
    states = (_word(pb.PipelineState.Name(pipeline.state), "PIPELINE_STATE_") for pipeline in observed.status.pipelines)
    return counted("state", _PIPELINE_STATES, states)


def sessions(observed: Observation) -> Iterable[Value]:
    """Counts sessions by role, and by what their connectors report."""
    reported = {
        "source": [session.reported for session in observed.status.sessions],
        "sink": [session.reported for session in observed.status.sink_sessions],
    }
    for role, reports in reported.items():
        for count, labels in counted("state", _CONNECTOR_STATES, (_CONNECTOR_STATES[report.state] for report in reports)):
            yield count, {"role": role, **labels}


def transactions(observed: Observation) -> Iterable[Value]:
    """Reads how the transactions of each sink ended."""
    for sink in observed.status.sinks:
        yield sink.committed_transactions, {"sink": sink.sink, "outcome": "committed"}
        yield sink.aborted_transactions, {"sink": sink.sink, "outcome": "aborted"}
        yield sink.failures, {"sink": sink.sink, "outcome": "failed"}
