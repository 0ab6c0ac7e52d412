"""What /metrics measures: each instrument with its unit, its labels, and how it is read."""

from dataclasses import dataclass
from enum import StrEnum

from headrace.gateway.core import VERSION, Kind
from headrace.gateway.telemetry.readings import (
    Read,
    counted,
    data_age,
    degraded,
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


COMMIT_TO_ACK = Instrument(
    "commit_to_ack_seconds",
    Type.HISTOGRAM,
    "s",
    "From the moment when the gateway learns of a commit until its acknowledgements are written to a connector.",
)
COMMIT_TO_ACK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


INSTRUMENTS = (
    Instrument(
        "gateway_info", Type.GAUGE, "", "1, with the version of the gateway.", ("version",), lambda _: [(1, {"version": VERSION})]
    ),
    Instrument(
        "gateway_uptime_seconds", Type.GAUGE, "s", "How long the gateway has run.", (), of_gateway(lambda g: g.uptime_ms / 1000)
    ),
    Instrument(
        "problems",
        Type.GAUGE,
        "{part}",
        "Degraded parts, by the kind of their first cause.",
        ("kind",),
        lambda observed: counted("kind", [kind.value for kind in Kind], (problem.kind.value for problem in observed.problems)),
    ),
    Instrument(
        "degraded_seconds",
        Type.GAUGE,
        "s",
        "How long a part has been degraded, whatever the causes were.",
        ("part",),
        degraded,
    ),
    Instrument(
        "data_age_seconds",
        Type.GAUGE,
        "s",
        "Delay of data: the age of the oldest message in the buffer, or of a fault that keeps messages away.",
        (),
        data_age,
    ),
    Instrument(
        "certificate_expires_timestamp_seconds",
        Type.GAUGE,
        "s",
        "When a certificate in a file, or of a client, expires, since 1970.",
        ("file",),
        lambda observed: [(one.expires_at_s, {"file": one.file}) for one in observed.status.gateway.certificates],
    ),
    Instrument("received_frames", Type.COUNTER, "{frame}", "Frames received.", (), of_gateway(lambda g: g.received_frames)),
    Instrument(
        "received_messages",
        Type.COUNTER,
        "{message}",
        "Messages received, without duplicates.",
        (),
        of_gateway(lambda g: g.received_messages),
    ),
    Instrument("received_bytes", Type.COUNTER, "By", "Bytes of their frames.", (), of_gateway(lambda g: g.received_bytes)),
    Instrument(
        "duplicate_messages",
        Type.COUNTER,
        "{message}",
        "Messages dropped, since they had been received before.",
        (),
        of_gateway(lambda g: g.duplicate_messages),
    ),
    Instrument(
        "acknowledged_messages",
        Type.COUNTER,
        "{message}",
        "Messages acknowledged to their sources.",
        (),
        of_gateway(lambda g: g.acknowledged_messages),
    ),
    Instrument(
        "source_losses",
        Type.COUNTER,
        "{loss}",
        "Times that queries continued although messages were lost.",
        (),
        of_gateway(lambda g: g.losses),
    ),
    Instrument(
        "buffered_messages",
        Type.GAUGE,
        "{message}",
        "Messages held in the buffer.",
        (),
        of_gateway(lambda g: g.buffered_messages),
    ),
    Instrument("buffered_bytes", Type.GAUGE, "By", "Bytes of their frames.", (), of_gateway(lambda g: g.buffered_bytes)),
    Instrument("buffer_limit_bytes", Type.GAUGE, "By", "The size of the buffer.", (), of_gateway(lambda g: g.buffer_limit_bytes)),
    Instrument(
        "unacknowledged_messages",
        Type.GAUGE,
        "{message}",
        "Messages not yet acknowledged, with the backlog that sources report.",
        (),
        lambda observed: [(sum(stream.lag_messages for stream in observed.status.streams), {})],
    ),
    Instrument(
        "oldest_unacknowledged_seconds",
        Type.GAUGE,
        "s",
        "Age of the oldest message in the buffer.",
        (),
        lambda observed: [(max((s.oldest_unacknowledged_ms for s in observed.status.streams), default=0) / 1000, {})],
    ),
    COMMIT_TO_ACK,
    Instrument("streams", Type.GAUGE, "{stream}", "Streams.", ("state",), streams),
    Instrument("sessions", Type.GAUGE, "{session}", "Sessions, by what their connectors report.", ("role", "state"), sessions),
    Instrument(
        "rejected_sessions",
        Type.COUNTER,
        "{session}",
        "Sessions ended because they violated the protocol.",
        ("status",),
        lambda observed: [(count, {"status": name}) for name, count in observed.status.gateway.rejected_sessions.items()],
    ),
    Instrument(
        "session_credit_bytes",
        Type.GAUGE,
        "By",
        "Bytes that the sessions of sources may still send.",
        (),
        of_sessions(lambda s: s.credit_bytes),
    ),
    Instrument(
        "session_credit_messages",
        Type.GAUGE,
        "{message}",
        "Messages that they may still send.",
        (),
        of_sessions(lambda s: s.credit_messages),
    ),
    Instrument(
        "session_outstanding_bytes",
        Type.GAUGE,
        "By",
        "Bytes sent and not released.",
        (),
        of_sessions(lambda s: s.outstanding_bytes),
    ),
    Instrument("pipelines", Type.GAUGE, "{pipeline}", "Pipelines.", ("state",), pipelines),
    Instrument(
        "pipeline_planned_batches",
        Type.COUNTER,
        "{batch}",
        "Micro-batches planned.",
        ("pipeline",),
        of_pipelines(lambda p: p.planned_batches),
    ),
    Instrument(
        "pipeline_batch_age_seconds",
        Type.GAUGE,
        "s",
        "Age of the micro-batch that is not committed; 0 without one.",
        ("pipeline",),
        of_pipelines(lambda p: p.batch_ms / 1000),
    ),
    Instrument(
        "pipeline_lag_messages",
        Type.GAUGE,
        "{message}",
        "Buffered messages that it has not committed.",
        ("pipeline",),
        of_pipelines(lambda p: p.lag_messages),
    ),
    Instrument(
        "sink_transactions",
        Type.COUNTER,
        "{transaction}",
        "Transactions of its instances: committed, aborted or failed, which counts parts, too.",
        ("sink", "outcome"),
        transactions,
    ),
    Instrument(
        "sink_pending_transactions",
        Type.GAUGE,
        "{transaction}",
        "Transactions staged or prepared, and not yet visible.",
        ("sink",),
        of_sinks(lambda s: s.pending_transactions),
    ),
    Instrument(
        "sink_staged_messages", Type.COUNTER, "{message}", "Messages staged.", ("sink",), of_sinks(lambda s: s.staged_messages)
    ),
    Instrument(
        "sink_refused_messages",
        Type.COUNTER,
        "{message}",
        "Messages refused permanently.",
        ("sink",),
        of_sinks(lambda s: s.refused_messages),
    ),
    Instrument(
        "sink_dead_letters",
        Type.COUNTER,
        "{message}",
        "Dead letters delivered to it, in committed micro-batches.",
        ("sink",),
        of_sinks(lambda s: s.dead_letters),
    ),
    Instrument(
        "sink_losses",
        Type.COUNTER,
        "{loss}",
        "Times that an instance came back without what it had voted for.",
        ("sink",),
        of_sinks(lambda s: s.losses),
    ),
    Instrument(
        "sink_instances", Type.GAUGE, "{instance}", "Attached instances.", ("sink",), of_sinks(lambda s: len(s.instances))
    ),
)
"""The instruments that every gateway has."""

CONNECTOR_INSTRUMENTS = (
    Instrument(
        "connector_sessions",
        Type.COUNTER,
        "{session}",
        "Sessions opened: one more for each restart and reconnection.",
        ("role", "connector"),
        of_connectors(lambda c: c.sessions, "source", "sink"),
    ),
    Instrument(
        "connector_errors",
        Type.COUNTER,
        "{error}",
        "Errors reported, with whatever is tried again.",
        ("role", "connector"),
        of_connectors(lambda c: c.errors, "source", "sink"),
    ),
    Instrument(
        "connector_sent_frames",
        Type.COUNTER,
        "{frame}",
        "Frames sent.",
        ("role", "connector"),
        of_connectors(lambda c: c.frames, "source"),
    ),
    Instrument(
        "connector_sent_messages",
        Type.COUNTER,
        "{message}",
        "Messages sent, with duplicates.",
        ("role", "connector"),
        of_connectors(lambda c: c.messages, "source"),
    ),
    Instrument(
        "connector_sent_bytes",
        Type.COUNTER,
        "By",
        "Bytes of their frames.",
        ("role", "connector"),
        of_connectors(lambda c: c.bytes, "source"),
    ),
)
"""The instruments with series for each connector, by its name in Hello."""

APPLICATION_INSTRUMENTS = (
    Instrument(
        "pipeline_batches",
        Type.COUNTER,
        "{batch}",
        "Micro-batches processed.",
        ("pipeline",),
        of_runs(lambda r: r.batches),
    ),
    Instrument(
        "pipeline_stage_seconds",
        Type.COUNTER,
        "s",
        "Time spent on each stage, as Spark names it; `addBatch` is the processing.",
        ("pipeline", "stage"),
        stages,
    ),
    Instrument(
        "pipeline_state_bytes",
        Type.GAUGE,
        "By",
        "Size of states that the run has changed.",
        ("pipeline",),
        of_runs(lambda r: r.state_bytes),
    ),
    Instrument(
        "step_received_messages",
        Type.COUNTER,
        "{message}",
        "Messages received.",
        ("pipeline", "step"),
        of_steps(lambda s: s.received),
    ),
    Instrument("step_sent_messages", Type.COUNTER, "{message}", "Its results.", ("pipeline", "step"), of_steps(lambda s: s.sent)),
    Instrument(
        "step_failed_messages",
        Type.COUNTER,
        "{message}",
        "Messages for which its function raised.",
        ("pipeline", "step"),
        of_steps(lambda s: s.failed),
    ),
    Instrument(
        "step_late_messages",
        Type.COUNTER,
        "{message}",
        "Messages after the end of their windows.",
        ("pipeline", "step"),
        of_steps(lambda s: s.late),
    ),
    Instrument(
        "step_ahead_messages",
        Type.COUNTER,
        "{message}",
        "Messages with event times too far ahead.",
        ("pipeline", "step"),
        of_steps(lambda s: s.ahead),
    ),
    Instrument(
        "step_violating_messages",
        Type.COUNTER,
        "{message}",
        "Messages that broke their contract.",
        ("pipeline", "step"),
        of_steps(lambda s: s.violated),
    ),
    Instrument(
        "step_further_messages",
        Type.COUNTER,
        "{message}",
        "Messages with new fields that their contract permits.",
        ("pipeline", "step"),
        of_steps(lambda s: s.further),
    ),
    Instrument(
        "step_fired_timers",
        Type.COUNTER,
        "{timer}",
        "Timers fired, and windows closed.",
        ("pipeline", "step"),
        of_steps(lambda s: s.fired),
    ),
    Instrument(
        "step_seconds",
        Type.COUNTER,
        "s",
        "Time taken, in all tasks.",
        ("pipeline", "step"),
        of_steps(lambda s: s.time_us / 1_000_000),
    ),
    Instrument(
        "step_state_keys",
        Type.GAUGE,
        "{key}",
        "Keys with a state that the run has processed.",
        ("pipeline", "step"),
        of_steps(lambda s: s.keys),
    ),
)
"""The instruments with series for each application that runs, and for each of its steps."""

STREAM_INSTRUMENTS = (
    Instrument(
        "stream_received_messages",
        Type.COUNTER,
        "{message}",
        "Messages received, without duplicates.",
        ("stream",),
        of_streams(lambda s: s.received_messages),
    ),
    Instrument(
        "stream_received_bytes",
        Type.COUNTER,
        "By",
        "Bytes of their frames.",
        ("stream",),
        of_streams(lambda s: s.received_bytes),
    ),
    Instrument(
        "stream_acknowledged_messages",
        Type.COUNTER,
        "{message}",
        "Messages acknowledged to the source.",
        ("stream",),
        of_streams(lambda s: s.acknowledged_messages),
    ),
    Instrument(
        "stream_unacknowledged_messages",
        Type.GAUGE,
        "{message}",
        "Messages not yet acknowledged, with the backlog that the source reports.",
        ("stream",),
        of_streams(lambda s: s.lag_messages),
    ),
)
"""The instruments with series for each stream, if `http.stream_metrics` is set."""


def read_instruments(*, of_streams: bool) -> tuple[Instrument, ...]:
    """Returns the instruments that are read from an observation, with or without the instruments of streams."""
    known = (*INSTRUMENTS, *CONNECTOR_INSTRUMENTS, *APPLICATION_INSTRUMENTS, *(STREAM_INSTRUMENTS if of_streams else ()))
    return tuple(instrument for instrument in known if instrument.read is not None)
