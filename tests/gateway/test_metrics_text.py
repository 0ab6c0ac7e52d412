"""OpenTelemetry's reader and `prometheus_client` make the same text of /metrics, byte for byte, in every format."""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headrace.gateway import Http, Limits
from headrace.gateway.core import ConnectorCounts, Gateway
from headrace.gateway.observer import Observation, Observer
from headrace.gateway.telemetry import rendering
from headrace.gateway.telemetry.instruments import APPLICATION_INSTRUMENTS, INSTRUMENTS
from headrace.gateway.telemetry.measuring import CARDINALITY_LIMITS, Measuring
from headrace.gateway.telemetry.prometheus import Prometheus
from headrace.gateway.telemetry.readings import histogram_buckets, histogram_sums
from headrace.gateway.telemetry.rendering import Format, rendered
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics, StageTime, StepMetrics

FORMATS = (
    "",
    "text/plain;version=0.0.4",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text;version=1.0.0;escaping=dots",
    "text/plain;version=1.0.0;escaping=values,*/*;q=0.3",
    "application/openmetrics-text;version=1.0.0;escaping=underscores",
)
"""Without `escaping=values` for OpenMetrics: there, the library gives lines other names than their headings."""
names = st.text(st.sampled_from('ab/.-_"\\\n {}=,é\U0001f600'), max_size=8)
counts = st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 1))
streams = st.builds(
    pb.StreamStatus,
    stream=names,
    state=st.sampled_from(pb.StreamState.values()[1:]),
    received_messages=counts,
    received_bytes=counts,
    acknowledged_messages=counts,
    lag_messages=st.integers(0, 2**40),
    oldest_unacknowledged_ms=st.integers(0, 2**40),
)
sinks = st.builds(pb.SinkStatus, sink=names, committed_transactions=counts, failures=counts, dead_letters=counts)
runs = st.builds(
    RunMetrics,
    batches=counts,
    state_bytes=counts,
    steps=st.lists(st.builds(StepMetrics, step=names, received=st.integers(0, 2**60), time_us=st.integers(0, 2**60)), max_size=3),
    stages=st.lists(st.builds(StageTime, stage=names, time_ms=st.integers(0, 2**60)), max_size=3),
)
pipelines = st.builds(
    pb.PipelineStatus,
    pipeline=names,
    state=st.sampled_from(pb.PipelineState.values()[1:]),
    batch_ms=st.integers(0, 2**60),
    metrics=st.one_of(st.none(), runs),
)
gateways = st.builds(
    pb.GatewayStatus,
    uptime_ms=counts,
    received_messages=counts,
    rejected_sessions=st.dictionaries(names, st.integers(0, 2**60), max_size=3),
    certificates=st.lists(st.builds(pb.CertificateStatus, file=names, expires_at_s=st.integers(0, 2**40)), max_size=2),
)
statuses = st.builds(
    pb.GetStatusResponse,
    gateway=gateways,
    # A gateway has one stream, pipeline and sink of a name. The measures of a run's steps come from elsewhere.
    streams=st.lists(streams, max_size=4, unique_by=lambda one: one.stream),
    sinks=st.lists(sinks, max_size=3, unique_by=lambda one: one.sink),
    pipelines=st.lists(pipelines, max_size=3, unique_by=lambda one: one.pipeline),
)
ages = st.floats(0, 1e15) | st.sampled_from([0.5, 1e5, 999_999.5, 1e6, 1e7, 1.5e16, 1e22])
observations = st.builds(
    Observation,
    status=statuses,
    problems=st.just([]),
    taken_at=st.just(datetime(2026, 11, 29, tzinfo=UTC)),
    connectors=st.lists(
        st.builds(ConnectorCounts, role=st.sampled_from(["source", "sink"]), connector=names, errors=counts),
        max_size=3,
        unique_by=lambda one: (one.role, one.connector),
    ),
    degraded_s=st.dictionaries(names, ages, max_size=3),
)


class Reference:
    """The libraries' text for the same observation."""

    def __init__(self, gateway: Gateway) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._measuring = Measuring(gateway, self._reader, of_streams=True)

    def encoded(self, observed: Observation, accept: str) -> bytes:
        encode, _ = choose_encoder(accept)
        with self._measuring.reading(observed):
            return encode(self._registry)

    def _reader(self) -> PrometheusMetricReader:
        return PrometheusMetricReader(
            disable_target_info=True,
            prefix="headrace",
            scope_info_enabled=False,
            registry=self._registry,
            cardinality_limits=CARDINALITY_LIMITS,
        )


@settings(max_examples=40)
@given(
    st.lists(st.tuples(observations, st.sampled_from(FORMATS)), min_size=1, max_size=3),
    st.lists(st.floats(0, 20), max_size=3),
)
def test_every_text_is_that_of_the_libraries(texts: list[tuple[Observation, str]], acknowledged_after_s: Iterable[float]) -> None:
    gateway = Gateway(Limits())
    ours, references = Prometheus(gateway, Observer(gateway, Http()), of_streams=True), [Reference(gateway) for _ in texts]
    for seconds in acknowledged_after_s:
        for observe in gateway.acknowledgement_observers:
            observe(seconds)
    for (observed, accept), reference in zip(texts, references, strict=True):
        assert ours.encoded(observed, accept) == reference.encoded(observed, accept)


def test_an_instrument_has_so_many_series_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_SERIES", 3)
    (info,) = (one for one in INSTRUMENTS if one.name == "gateway_info")
    many = dataclasses.replace(info, read=lambda _: [(n, {"version": str(n)}) for n in range(5)])
    observed = Observation(pb.GetStatusResponse(), [], datetime(2026, 11, 29, tzinfo=UTC))
    lines = rendered([many], observed, Format(), {}).splitlines()
    assert lines[2:] == [f'headrace_gateway_info{{version="{n}"}} {n}.0' for n in range(3)]


def observed_histograms(*histograms: MetricSeries) -> Observation:
    status = pb.GetStatusResponse(pipelines=[pb.PipelineStatus(pipeline="p", metrics=RunMetrics(series=histograms))])
    return Observation(status, [], datetime(2026, 11, 29, tzinfo=UTC))


BOUND = st.floats(allow_nan=False, allow_infinity=False)


@given(st.sets(BOUND | st.integers(1_234_560, 1_234_570).map(float), min_size=2, max_size=9))
def test_each_bound_of_a_histogram_has_a_label_of_its_own(bounds: set[float]) -> None:
    series = MetricSeries(metric="h", count=9, sum=1.0, bounds=sorted(bounds), buckets=[1] * len(bounds))
    labels = [labels["le"] for _, labels in histogram_buckets(observed_histograms(series))]
    assert [float(label) for label in labels] == [*sorted(bounds), float("inf")]
    assert len(set(labels)) == len(bounds) + 1


def test_histograms_beyond_the_limit_are_left_out_whole() -> None:
    many = [MetricSeries(metric=f"h{n}", count=7, sum=1.0, bounds=range(48), buckets=[1] * 48) for n in range(120)]
    (instrument,) = (one for one in APPLICATION_INSTRUMENTS if one.name == "application_histogram_buckets")
    observed = observed_histograms(*many)
    lines = rendered([instrument], observed, Format(), {}).splitlines()[2:]
    assert len(lines) == 81 * 49
    assert sum('le="+Inf"' in line for line in lines) == 81
    assert len(list(histogram_sums(observed))) == 81
