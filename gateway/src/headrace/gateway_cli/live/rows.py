"""The rows of each view, made of a status document and the rates since the one before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.gateway_cli.live.rates import NONE, Rates
from headrace.terminal import duration_text

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: a document, and the rates since the one before."""

    document: Mapping[str, Any]
    rates: Rates = NONE

    def rows(self, view: str) -> list[Row]:
        """Returns the rows of a view, by the titles of its columns."""
        return list(_ROWS[view](self))


def _pipelines(status: Shown) -> Iterator[Row]:
    for pipeline in status.document["pipelines"]:
        name, batch_ms = pipeline["pipeline"], pipeline["batch_ms"]
        yield {
            "pipeline": name,
            "state": pipeline["condition"],
            "batch": batch_ms if batch_ms is not None else -1,
            "batches": pipeline["planned_batches"],
            "stage": _stage(pipeline, status.document["sinks"]),
            "rate": status.rates.committed.get(name),
            "lag": pipeline["lag_messages"],
            "lag bytes": pipeline["lag_bytes"],
            "last call": pipeline["idle_ms"] if pipeline["run"] else -1,
        }


def _stage(pipeline: Mapping[str, Any], sinks: list[Mapping[str, Any]]) -> str:
    """Returns what the micro-batch of a pipeline is at, as far as its sinks show it."""
    if pipeline["batch_ms"] is None:
        return "idle" if pipeline["attached"] else "-"
    mine = [sink for sink in sinks if pipeline["pipeline"] in sink["writers"]]
    if any(sink["open_parts"] for sink in mine):
        return "writes"
    return "staged" if any(sink["pending_transactions"] for sink in mine) else "runs"


def _streams(status: Shown) -> Iterator[Row]:
    sessions = {session["instance"]: session for session in status.document["sessions"]}
    for stream in status.document["streams"]:
        name = stream["stream"]
        yield {
            "stream": name,
            "state": stream["condition"],
            "in": status.rates.received.get(name),
            "out": status.rates.acknowledged.get(name),
            "lag": stream["lag_messages"],
            "oldest": stream["oldest_unacknowledged_ms"] or -1,
            "credit": _credit(sessions.get(stream["instance"])),
            "lag bytes": stream["lag_bytes"],
            "owner": stream["instance"] or stream["last_instance"] or "-",
        }


def _credit(session: Mapping[str, Any] | None) -> float | None:
    """Returns the fraction of its credit that a session has left, of bytes or messages, whichever is less."""
    if session is None:
        return None
    left = []
    for unit in ("bytes", "messages"):
        whole = session[f"credit_{unit}"] + session[f"outstanding_{unit}"]
        left.append(session[f"credit_{unit}"] / whole if whole else 1.0)
    return min(left)


def _connectors(status: Shown) -> Iterator[Row]:
    for session in status.document["sessions"]:
        yield _connector(session, f"{session['streams']:,} stream{'' if session['streams'] == 1 else 's'}")
    for session in status.document["sink_sessions"]:
        yield _connector(session, f"sink {session['sink']}")


def _connector(session: Mapping[str, Any], serves: str) -> Row:
    errors, credit = session["errors"], _credit(session) if "credit_bytes" in session else None
    last = session["reason"] or (errors[-1]["message"] if errors else "")
    sdk = session["sdk"]
    return {
        "connector": session["instance"],
        "serves": serves,
        "state": session["condition"],
        "since": session["state_age_ms"] if session["state_age_ms"] is not None else session["age_ms"],
        "credit": credit,
        "errors": len(errors),
        "sdk": f"{sdk['language']} {sdk['version']}".strip() if sdk else "-",
        "last error": f"({duration_text(session['last_error_age_ms'])} ago) {last}" if last else "",
    }


def _sinks(status: Shown) -> Iterator[Row]:
    for sink in status.document["sinks"]:
        failure = sink["failure"] or ""
        age = f" ({duration_text(sink['failure_age_ms'])})" if failure and sink["failure_age_ms"] is not None else ""
        yield {
            "sink": sink["sink"],
            "state": sink["condition"],
            "mode": sink["mode"] or "-",
            "instances": len(sink["instances"]),
            "rate": status.rates.staged.get(sink["sink"]),
            "pending": sink["pending_transactions"],
            "refused": sink["refused_messages"],
            "failure": failure + age,
        }


_ROWS = {"pipelines": _pipelines, "streams": _streams, "connectors": _connectors, "sinks": _sinks}
