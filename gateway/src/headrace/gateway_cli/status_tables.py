"""The tables of `headrace status`, built from the document that --json prints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.gateway_cli.problems import one_line, problem_lines
from headrace.terminal import ago_text, bytes_text, duration_text
from headrace.terminal.tables import new_table

_STYLES = {
    "flows": "green",
    "idle": "dim",
    "waits": "yellow",
    "no credit": "yellow",
    "stalled": "bold red",
    "source stalled": "bold red",
    "trouble": "bold red",
    "paused": "yellow",
    "detached": "dim",
    "ended": "dim",
}
"""How conditions look."""
_LONG_HELD_MS = 60_000
"""Acknowledgements held for less than this, in milliseconds, are not shown: a running query holds them for a whole batch."""


def status_tables(document: Mapping[str, Any]) -> RenderableType:
    """Returns the tables for one status document."""
    return Group(*_parts(document))


def _parts(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield _headline(document["gateway"])
    yield from problem_lines(document)
    yield _streams(document["streams"])
    for stream in document["streams"]:
        if stream["detail"]:
            yield Text(f"  {stream['stream']}: {stream['detail']}", style="yellow")
        for holder in stream["holders"]:
            if holder["state"] != "attached" or holder["held_ms"] >= _LONG_HELD_MS:
                held = f"{holder['pipeline']} ({holder['state']}) has held acknowledgements for"
                yield Text(f"  {stream['stream']}: {held} {duration_text(holder['held_ms'])}", style="yellow")
    yield from last_error_lines(document["streams"], "stream")
    yield _sessions(document["sessions"])
    yield from _reported(document["sessions"])
    yield _pipelines(document["pipelines"])
    yield from last_error_lines(document["pipelines"], "pipeline")
    yield from _series(document["pipelines"])
    if document["sinks"]:
        yield _sinks(document["sinks"])
        yield from last_error_lines(document["sinks"], "sink")
    if document["sink_sessions"]:
        yield _sink_sessions(document["sink_sessions"])
        yield from _reported(document["sink_sessions"])
    if document["deployments"]:
        yield _deployments(document["deployments"])
        yield from _ends(document["deployments"])


def _headline(gateway: Mapping[str, Any]) -> Text:
    text = Text(
        f"gateway {gateway['address']}  version {gateway['version']}  up {duration_text(gateway['uptime_ms'])}  "
        f"buffered {bytes_text(gateway['buffered_bytes'])} of {bytes_text(gateway['buffer_limit_bytes'])}"
    )
    if gateway["draining"]:
        text.append("  draining", style="bold yellow")
    if gateway["rejected_sessions"]:
        counts = ", ".join(f"{count} {name}" for name, count in gateway["rejected_sessions"].items())
        text.append(f"\nsessions ended with errors: {counts}", style="yellow")
    return text


def _streams(streams: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table(
        "streams",
        "stream",
        "condition",
        "state",
        "owner",
        "#received",
        "#acknowledged",
        "#lag",
        "#lag bytes",
        "#oldest",
        "#dropped",
        "#losses",
    )
    for stream in streams:
        table.add_row(
            stream["stream"],
            _condition(stream),
            stream["state"],
            stream["instance"] or "-",
            _position(stream["received"]),
            _position(stream["acknowledged"]),
            f"{stream['lag_messages']:,}",
            bytes_text(stream["lag_bytes"]),
            duration_text(stream["oldest_unacknowledged_ms"]) if stream["oldest_unacknowledged_ms"] else "-",
            f"{stream['duplicate_messages']:,}",
            f"{stream['losses']:,}",
        )
    return table if streams else _none("streams")


def _sessions(sessions: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table(
        "sessions",
        "session",
        "connector",
        "sdk",
        "condition",
        "state",
        "instance",
        "peer",
        "#age",
        "#streams",
        "#outstanding",
        "#credit",
        "#credit messages",
        "#linger",
    )
    for session in sessions:
        table.add_row(
            session["session"],
            f"{session['connector']} {session['connector_version']}".strip(),
            _sdk(session),
            _condition(session),
            _connector_state(session),
            session["instance"],
            session["peer"],
            duration_text(session["age_ms"]),
            f"{session['streams']:,}",
            bytes_text(session["outstanding_bytes"]),
            bytes_text(session["credit_bytes"]),
            f"{session['credit_messages']:,}",
            f"{session['linger_ms']} ms",
        )
    return table if sessions else _none("sessions")


def _series(pipelines: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """The counters and histograms of applications, if there are any. Gateways of an earlier release know none."""
    table = new_table("counters", "pipeline", "counter", "value", "#count", "#mean")
    for pipeline in pipelines:
        for one in pipeline.get("series", ()):
            mean = "-" if one["sum"] is None or not one["count"] else f"{one['sum'] / one['count']:,.6g}"
            table.add_row(pipeline["pipeline"], one["metric"], one["value"] or "-", f"{one['count']:,}", mean)
    if table.row_count:
        yield table


def _sink_sessions(sessions: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table(
        "sessions of sinks", "session", "sink", "connector", "sdk", "condition", "state", "instance", "peer", "#age"
    )
    for session in sessions:
        table.add_row(
            session["session"],
            session["sink"],
            f"{session['connector']} {session['connector_version']}".strip(),
            _sdk(session),
            _condition(session),
            _connector_state(session),
            session["instance"],
            session["peer"],
            duration_text(session["age_ms"]),
        )
    return table


def _deployments(deployments: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table("connectors of deployments", "connector", "instance", "deployment", "in progress")
    for deployment in deployments:
        for connector in deployment["connectors"]:
            name = connector["name"]
            busy = [what for what in ("restarting", "replaying") if name in deployment[what]]
            table.add_row(name, one_line(connector["instance"]), deployment["deployment"], ", ".join(busy) or "-")
    return table


def _ends(deployments: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Describes why processes last ended. A process that is connected again has overcome that."""
    for deployment in deployments:
        for process in deployment["processes"]:
            if process["reason"] and process["reason_age_ms"] is not None:
                of, is_over = f"{process['name']}:", process["state"] == "runs"
                yield last_error_line(of, process["reason_age_ms"], process["reason"], is_over=is_over)


def _condition(row: Mapping[str, Any]) -> Text:
    """Shows what a part does, in the word that the gateway has chosen."""
    condition = row["condition"]
    return Text(condition, style=_STYLES.get(condition, ""))


def _sdk(session: Mapping[str, Any]) -> str:
    sdk = session["sdk"]
    return one_line(f"{sdk['name']} {sdk['version']}".strip()) if sdk else "-"


def _connector_state(session: Mapping[str, Any]) -> Text:
    state = session["state"]
    return Text(state or "-", style="green" if state == "running" else "yellow" if state else "")


def _reported(sessions: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Describes the connectors that are not running normally, and the last error of each."""
    for session in sessions:
        name = f"  {session['session']} ({session['instance']})"
        if session["reason"]:
            state = f"{session['state']} for {duration_text(session['state_age_ms'])}"
            yield Text(f"{name}: {state}: {one_line(session['reason'])}", style="yellow")
        if session["errors"]:
            last = session["errors"][-1]
            stream = f" of stream {last['stream']}" if last["stream"] else ""
            of = f"{name.strip()}: last error{stream}"
            yield last_error_line(of, last["age_ms"], last["message"], is_over=session["last_error"]["is_over"])


def _pipelines(pipelines: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table("pipelines", "pipeline", "condition", "state", "reads", "#lag", "#lag bytes", "#last call", "committed")
    for pipeline in pipelines:
        table.add_row(
            pipeline["pipeline"],
            _condition(pipeline),
            _pipeline_state(pipeline),
            ", ".join(pipeline["patterns"]) or "-",
            f"{pipeline['lag_messages']:,}",
            bytes_text(pipeline["lag_bytes"]),
            f"{duration_text(pipeline['idle_ms'])} ago" if pipeline["run"] else "-",
            "\n".join(f"{stream} @ {_position(position)}" for stream, position in pipeline["committed"].items()) or "-",
        )
    return table if pipelines else _none("pipelines")


def _pipeline_state(pipeline: Mapping[str, Any]) -> Text:
    if pipeline["attached"]:
        return Text("attached", style="green")
    away = f" for {duration_text(pipeline['away_ms'])}" if pipeline["away_ms"] is not None else ""
    return Text(pipeline["state"] + away, style="yellow")


def _sinks(sinks: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = new_table("sinks", "sink", "condition", "mode", "instances", "#staged", "#refused", "#pending", "committed")
    for sink in sinks:
        away = [f"{instance} (away)" for instance in sink["away"]]
        table.add_row(
            sink["sink"],
            _condition(sink),
            sink["mode"] or "-",
            _instances([*sink["instances"], *away], sink["lost"]),
            f"{sink['staged_messages']:,}",
            f"{sink['refused_messages']:,}",
            f"{sink['pending_transactions']:,}",
            "\n".join(f"{pipeline} @ {batch}" for pipeline, batch in sink["committed"].items()) or "-",
        )
    return table


def _instances(names: list[str], lost_votes: Sequence[Mapping[str, Any]]) -> Text:
    text = Text(", ".join(names)) if names else Text("waits for a connector", style="yellow")
    for vote in lost_votes:
        text.append(f"\n{vote['instance']} has lost batch {vote['batch']} of {vote['pipeline']}", style="red")
    return text


def _position(position: Mapping[str, Any] | None) -> str:
    """Formats a position as its sequence, preceded by its epoch if the stream has epochs."""
    if position is None:
        return "-"
    return f"{position['epoch']}:{position['sequence']}" if position["epoch"] else str(position["sequence"])


def _none(what: str) -> Text:
    return Text(f"\nno {what}", style="dim")


def last_error_lines(rows: Sequence[Mapping[str, Any]], key: str) -> Iterator[Text]:
    """Yields a line for each part of a status document that had an error."""
    for row in rows:
        if (error := row["last_error"]) is not None:
            yield last_error_line(f"{row[key]}: last error", row["last_error_age_ms"], error["message"], is_over=error["is_over"])


def last_error_line(of: str, age_ms: int, message: str, *, is_over: bool) -> Text:
    """Returns a line about one error, dim if it is over."""
    over = ", is over" if is_over else ""
    return Text(f"  {one_line(f'{of} {ago_text(age_ms)}{over}: {message}')}", style="dim" if is_over else "yellow")
