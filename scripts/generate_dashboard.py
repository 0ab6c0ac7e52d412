"""Generates docs/run/monitoring/dashboard.json, a dashboard for Grafana. With --check, fails if it is stale."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.generated_page import ROOT, generate

FILE = ROOT / "docs" / "run" / "monitoring" / "dashboard.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _PER_ROW = 8, 8, 3
_SELECTED = 'job=~"$job", instance=~"$instance"'


@dataclass(frozen=True)
class Panel:
    """A graph: what it shows, in which unit of Grafana, and its queries by legend."""

    title: str
    unit: str
    queries: dict[str, str]


@dataclass(frozen=True)
class Row:
    """Graphs with a heading."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str = "", where: str = "") -> str:
    """A rate per second over the interval of the graph."""
    selected = ", ".join(part for part in (_SELECTED, where) if part)
    return f"sum by ({by or 'instance'}) (rate({metric}{{{selected}}}[$__rate_interval]))"


def value(metric: str, by: str = "", where: str = "") -> str:
    """A value as it is."""
    selected = ", ".join(part for part in (_SELECTED, where) if part)
    return f"sum by ({by or 'instance'}) ({metric}{{{selected}}})"


ROWS = (
    Row(
        "Health",
        (
            Panel("Degraded parts", "short", {"{{kind}}": value("headrace_problems", "kind", 'kind!="paused"')}),
            Panel("Oldest unacknowledged message", "s", {"{{instance}}": value("headrace_oldest_unacknowledged_seconds")}),
            Panel("Streams", "short", {"{{state}}": value("headrace_streams", "state")}),
        ),
    ),
    Row(
        "Flow",
        (
            Panel(
                "Messages",
                "cps",
                {
                    "received": rate("headrace_received_messages_total", "job"),
                    "acknowledged": rate("headrace_acknowledged_messages_total", "job"),
                    "dropped as duplicates": rate("headrace_duplicate_messages_total", "job"),
                },
            ),
            Panel("Lag", "short", {"{{pipeline}}": value("headrace_pipeline_lag_messages", "pipeline")}),
            Panel(
                "Commit to acknowledgement",
                "s",
                {
                    name: f"histogram_quantile({quantile}, {rate('headrace_commit_to_ack_seconds_bucket', 'le')})"
                    for name, quantile in (("p50", 0.5), ("p99", 0.99))
                },
            ),
        ),
    ),
    Row(
        "Back pressure",
        (
            Panel(
                "Buffer",
                "bytes",
                {"used": value("headrace_buffered_bytes", "job"), "limit": value("headrace_buffer_limit_bytes", "job")},
            ),
            Panel(
                "Credit of sources",
                "bytes",
                {
                    "left": value("headrace_session_credit_bytes", "job"),
                    "in use": value("headrace_session_outstanding_bytes", "job"),
                },
            ),
            Panel("Messages in the buffer", "short", {"{{instance}}": value("headrace_buffered_messages")}),
        ),
    ),
    Row(
        "Pipelines",
        (
            Panel("Age of the micro-batch", "s", {"{{pipeline}}": value("headrace_pipeline_batch_age_seconds", "pipeline")}),
            Panel("Micro-batches", "cps", {"{{pipeline}}": rate("headrace_pipeline_planned_batches_total", "pipeline")}),
            Panel(
                "Time in each stage",
                "percentunit",
                {"{{pipeline}} {{stage}}": rate("headrace_pipeline_stage_seconds_total", "pipeline, stage")},
            ),
        ),
    ),
    Row(
        "Steps",
        (
            Panel(
                "Messages that steps receive",
                "cps",
                {"{{pipeline}} {{step}}": rate("headrace_step_received_messages_total", "pipeline, step")},
            ),
            Panel(
                "Messages that fail or are late",
                "cps",
                {
                    "failed {{step}}": rate("headrace_step_failed_messages_total", "step"),
                    "late {{step}}": rate("headrace_step_late_messages_total", "step"),
                },
            ),
            Panel("Keys with a state", "short", {"{{pipeline}} {{step}}": value("headrace_step_state_keys", "pipeline, step")}),
        ),
    ),
    Row(
        "Sinks",
        (
            Panel("Transactions", "cps", {"{{sink}} {{outcome}}": rate("headrace_sink_transactions_total", "sink, outcome")}),
            Panel("Pending transactions", "short", {"{{sink}}": value("headrace_sink_pending_transactions", "sink")}),
            Panel("Dead letters", "cps", {"{{sink}}": rate("headrace_sink_refused_messages_total", "sink")}),
        ),
    ),
    Row(
        "Connectors",
        (
            Panel("Messages sent", "cps", {"{{connector}}": rate("headrace_connector_sent_messages_total", "connector")}),
            Panel("Errors", "cps", {"{{connector}}": rate("headrace_connector_errors_total", "connector")}),
            Panel("Restarts and reconnections", "cps", {"{{connector}}": rate("headrace_connector_sessions_total", "connector")}),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Returns the dashboard as Grafana reads it."""
    return {
        "title": "Headrace",
        "uid": "headrace",
        "tags": ["headrace"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    for name, filters in (("job", ""), ("instance", '{job=~"$job"}')):
        yield {
            "name": name,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": f"label_values(headrace_gateway_info{filters}, {name})", "refId": "variable"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 1, 0
    for row in ROWS:
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": _place(0, y, 24, 1), "panels": []}
        number, y = number + 1, y + 1
        for column, panel in enumerate(row.panels):
            yield _graph(panel, number, _place(_WIDTH * (column % _PER_ROW), y + _HEIGHT * (column // _PER_ROW), _WIDTH, _HEIGHT))
            number += 1
        y += _HEIGHT * -(-len(row.panels) // _PER_ROW)


def _graph(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def text() -> str:
    """Returns the file's content."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(generate({FILE: lambda _: text()}, "scripts.generate_dashboard", __doc__))
