"""What /metrics measures: each instrument with its unit, its labels, and how it is read."""

from dataclasses import dataclass
from enum import StrEnum

from headrace.gateway.core import VERSION, Kind
from headrace.gateway.telemetry.readings import (
    Read,
    counted,
    counters,
    data_age,
    degraded,
    histogram_buckets,
    histogram_sums,
    of_connectors,
    of_gateway,
    of_pipelines,
    of_runs,
    of_sessions,
    of_sinks,
    of_steps,
    of_streams,
    pipelines,
    sessions,
    stages,
    streams,
    transactions,
)


class Type(StrEnum):
    """The types of instruments, as Prometheus names them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One instrument.

    Attributes:
        name: Its name without the prefix, and without `_total`.
        type: Its type.
        unit: Its unit, in the notation of UCUM.
        description: Its meaning.
        labels: The labels of its series.
        read: Returns its values in an observation; None if it is not read but recorded.
    """

    name: str
    type: Type
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    read: Read | None = None

    @property
    def exported_name(self) -> str:
        """Its name in /metrics."""
        return f"headrace_{self.name}{'_total' if self.type is Type.COUNTER else ''}"


def _counter(name: str, unit: str, description: str, read: Read, *labels: str) -> Instrument:
    return Instrument(name, Type.COUNTER, unit, description, labels, read)


def _gauge(name: str, unit: str, description: str, read: Read, *labels: str) -> Instrument:
    return Instrument(name, Type.GAUGE, unit, description, labels, read)


COMMIT_TO_ACK = Instrument(
    "commit_to_ack_seconds",
    Type.HISTOGRAM,
    "s",
    "From the moment when the gateway learns of a commit until its acknowledgements are written to a connector.",
)
COMMIT_TO_ACK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


INSTRUMENTS = (
    _gauge("gateway_info", "", "1, with the version of the gateway.", lambda _: [(1, {"version": VERSION})], "version"),
    _gauge("gateway_uptime_seconds", "s", "How long the gateway has run.", of_gateway(lambda g: g.uptime_ms / 1000)),
    _gauge(
        "problems",
        "{part}",
        "Degraded parts, by the kind of their first cause.",
        lambda observed: counted("kind", [kind.value for kind in Kind], (problem.kind.value for problem in observed.problems)),
        "kind",
    ),
    _gauge("degraded_seconds", "s", "How long a part has been degraded, whatever the causes were.", degraded, "part"),
    _gauge(
        "data_age_seconds",
        "s",
        "Delay of data: the age of the oldest message in the buffer, or of a fault that keeps messages away.",
        data_age,
    ),
    _gauge(
        "certificate_expires_timestamp_seconds",
        "s",
        "When a certificate in a file, or of a client, expires, since 1970.",
        lambda observed: [(one.expires_at_s, {"file": one.file}) for one in observed.status.gateway.certificates],
        "file",
    ),
    _counter("received_frames", "{frame}", "Frames received.", of_gateway(lambda g: g.received_frames)),
    _counter(
        "received_messages", "{message}", "Messages received, without duplicates.", of_gateway(lambda g: g.received_messages)
    ),
    _counter("received_bytes", "By", "Bytes of their frames.", of_gateway(lambda g: g.received_bytes)),
    _counter(
        "duplicate_messages",
        "{message}",
        "Messages dropped, since they had been received before.",
        of_gateway(lambda g: g.duplicate_messages),
    ),
    _counter(
        "acknowledged_messages",
        "{message}",
        "Messages acknowledged to their sources.",
        of_gateway(lambda g: g.acknowledged_messages),
    ),
    _counter(
        "source_losses", "{loss}", "Times that queries continued although messages were lost.", of_gateway(lambda g: g.losses)
    ),
    _gauge("buffered_messages", "{message}", "Messages held in the buffer.", of_gateway(lambda g: g.buffered_messages)),
    _gauge("buffered_bytes", "By", "Bytes of their frames.", of_gateway(lambda g: g.buffered_bytes)),
    _gauge("buffer_limit_bytes", "By", "The size of the buffer.", of_gateway(lambda g: g.buffer_limit_bytes)),
    _gauge(
        "unacknowledged_messages",
        "{message}",
        "Messages not yet acknowledged, with the backlog that sources report.",
        lambda observed: [(sum(stream.lag_messages for stream in observed.status.streams), {})],
    ),
    _gauge(
        "oldest_unacknowledged_seconds",
        "s",
        "Age of the oldest message in the buffer.",
        lambda observed: [(max((s.oldest_unacknowledged_ms for s in observed.status.streams), default=0) / 1000, {})],
    ),
    COMMIT_TO_ACK,
    _gauge("streams", "{stream}", "Streams.", streams, "state"),
    _gauge("sessions", "{session}", "Sessions, by what their connectors report.", sessions, "role", "state"),
    _counter(
        "rejected_sessions",
        "{session}",
        "Sessions ended because they violated the protocol.",
        lambda observed: [(count, {"status": name}) for name, count in observed.status.gateway.rejected_sessions.items()],
        "status",
    ),
    _gauge(
        "session_credit_bytes", "By", "Bytes that the sessions of sources may still send.", of_sessions(lambda s: s.credit_bytes)
    ),
    _gauge(
        "session_credit_messages", "{message}", "Messages that they may still send.", of_sessions(lambda s: s.credit_messages)
    ),
    _gauge("session_outstanding_bytes", "By", "Bytes sent and not released.", of_sessions(lambda s: s.outstanding_bytes)),
    _gauge("pipelines", "{pipeline}", "Pipelines.", pipelines, "state"),
    _counter(
        "pipeline_planned_batches", "{batch}", "Micro-batches planned.", of_pipelines(lambda p: p.planned_batches), "pipeline"
    ),
    _gauge(
        "pipeline_batch_age_seconds",
        "s",
        "Age of the micro-batch that is not committed; 0 without one.",
        of_pipelines(lambda p: p.batch_ms / 1000),
        "pipeline",
    ),
    _gauge(
        "pipeline_lag_messages",
        "{message}",
        "Buffered messages that it has not committed.",
        of_pipelines(lambda p: p.lag_messages),
        "pipeline",
    ),
    _counter(
        "sink_transactions",
        "{transaction}",
        "Transactions of its instances: committed, aborted or failed, which counts parts, too.",
        transactions,
        "sink",
        "outcome",
    ),
    _gauge(
        "sink_pending_transactions",
        "{transaction}",
        "Transactions staged or prepared, and not yet visible.",
        of_sinks(lambda s: s.pending_transactions),
        "sink",
    ),
    _counter("sink_staged_messages", "{message}", "Messages staged.", of_sinks(lambda s: s.staged_messages), "sink"),
    _counter(
        "sink_refused_messages", "{message}", "Messages refused permanently.", of_sinks(lambda s: s.refused_messages), "sink"
    ),
    _counter(
        "sink_dead_letters",
        "{message}",
        "Dead letters delivered to it, in committed micro-batches.",
        of_sinks(lambda s: s.dead_letters),
        "sink",
    ),
    _counter(
        "sink_losses",
        "{loss}",
        "Times that an instance came back without what it had voted for.",
        of_sinks(lambda s: s.losses),
        "sink",
    ),
    _gauge("sink_instances", "{instance}", "Attached instances.", of_sinks(lambda s: len(s.instances)), "sink"),
)
"""The instruments that every gateway has."""

CONNECTOR_INSTRUMENTS = (
    _counter(
        "connector_sessions",
        "{session}",
        "Sessions opened: one more for each restart and reconnection.",
        of_connectors(lambda c: c.sessions, "source", "sink"),
        "role",
        "connector",
    ),
    _counter(
        "connector_errors",
        "{error}",
        "Errors reported, with whatever is tried again.",
        of_connectors(lambda c: c.errors, "source", "sink"),
        "role",
        "connector",
    ),
    _counter(
        "connector_sent_frames", "{frame}", "Frames sent.", of_connectors(lambda c: c.frames, "source"), "role", "connector"
    ),
    _counter(
        "connector_sent_messages",
        "{message}",
        "Messages sent, with duplicates.",
        of_connectors(lambda c: c.messages, "source"),
        "role",
        "connector",
    ),
    _counter(
        "connector_sent_bytes", "By", "Bytes of their frames.", of_connectors(lambda c: c.bytes, "source"), "role", "connector"
    ),
)
"""The instruments with series for each connector, by its name in Hello."""

APPLICATION_INSTRUMENTS = (
    _counter("pipeline_batches", "{batch}", "Micro-batches processed.", of_runs(lambda r: r.batches), "pipeline"),
    _counter(
        "pipeline_stage_seconds",
        "s",
        "Time spent on each stage, as Spark names it; `addBatch` is the processing.",
        stages,
        "pipeline",
        "stage",
    ),
    _gauge(
        "pipeline_state_bytes", "By", "Size of states that the run has changed.", of_runs(lambda r: r.state_bytes), "pipeline"
    ),
    _counter("step_received_messages", "{message}", "Messages received.", of_steps(lambda s: s.received), "pipeline", "step"),
    _counter("step_sent_messages", "{message}", "Its results.", of_steps(lambda s: s.sent), "pipeline", "step"),
    _counter(
        "step_failed_messages",
        "{message}",
        "Messages for which its function raised.",
        of_steps(lambda s: s.failed),
        "pipeline",
        "step",
    ),
    _counter(
        "step_late_messages",
        "{message}",
        "Messages after the end of their windows.",
        of_steps(lambda s: s.late),
        "pipeline",
        "step",
    ),
    _counter(
        "step_ahead_messages",
        "{message}",
        "Messages with event times too far ahead.",
        of_steps(lambda s: s.ahead),
        "pipeline",
        "step",
    ),
    _counter(
        "step_violating_messages",
        "{message}",
        "Messages that broke their contract.",
        of_steps(lambda s: s.violated),
        "pipeline",
        "step",
    ),
    _counter(
        "step_further_messages",
        "{message}",
        "Messages with new fields that their contract permits.",
        of_steps(lambda s: s.further),
        "pipeline",
        "step",
    ),
    _counter(
        "step_fired_timers", "{timer}", "Timers fired, and windows closed.", of_steps(lambda s: s.fired), "pipeline", "step"
    ),
    _counter("step_seconds", "s", "Time taken, in all tasks.", of_steps(lambda s: s.time_us / 1_000_000), "pipeline", "step"),
    _gauge(
        "step_state_keys",
        "{key}",
        "Keys with a state that the run has processed.",
        of_steps(lambda s: s.keys),
        "pipeline",
        "step",
    ),
    _counter("application_counts", "1", "What its counters have counted.", counters, "pipeline", "metric", "value"),
    _counter(
        "application_histogram_buckets",
        "1",
        "Numbers of its histograms up to `le`.",
        histogram_buckets,
        "pipeline",
        "metric",
        "value",
        "le",
    ),
    _gauge("application_histogram_sum", "1", "Sums of these numbers.", histogram_sums, "pipeline", "metric", "value"),
)
"""The instruments with series for each application that runs, and for each of its steps."""

STREAM_INSTRUMENTS = (
    _counter(
        "stream_received_messages",
        "{message}",
        "Messages received, without duplicates.",
        of_streams(lambda s: s.received_messages),
        "stream",
    ),
    _counter("stream_received_bytes", "By", "Bytes of their frames.", of_streams(lambda s: s.received_bytes), "stream"),
    _counter(
        "stream_acknowledged_messages",
        "{message}",
        "Messages acknowledged to the source.",
        of_streams(lambda s: s.acknowledged_messages),
        "stream",
    ),
    _gauge(
        "stream_unacknowledged_messages",
        "{message}",
        "Messages not yet acknowledged, with the backlog that the source reports.",
        of_streams(lambda s: s.lag_messages),
        "stream",
    ),
)
"""The instruments with series for each stream, if `http.stream_metrics` is set."""


def read_instruments(*, of_streams: bool) -> tuple[Instrument, ...]:
    """Returns the instruments that are read from an observation, with or without the instruments of streams."""
    known = (*INSTRUMENTS, *CONNECTOR_INSTRUMENTS, *APPLICATION_INSTRUMENTS, *(STREAM_INSTRUMENTS if of_streams else ()))
    return tuple(instrument for instrument in known if instrument.read is not None)
