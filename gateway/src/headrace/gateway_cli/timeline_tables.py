"""The tables of `headrace timeline`, built from the document that --json prints."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.gateway_cli.problems import one_line
from headrace.terminal import counted, duration_text
from headrace.terminal.tables import FittingTable, new_table

STAGES = ("planned", "read", "processed", "staged", "voted", "committed", "sink_committed", "acknowledged")


def timeline_table(document: Mapping[str, Any]) -> RenderableType:
    """Returns a row for each micro-batch, newest first, and the summary below."""
    batches = document["batches"]
    if not batches:
        return Text(
            f"Pipeline {one_line(document['pipeline'])} has planned no micro-batch since the gateway started.", style="dim"
        )
    return Group(_stages(document), *_notes(batches))


def batch_table(document: Mapping[str, Any]) -> RenderableType:
    """Returns the stages of one micro-batch, and what it reads of each stream."""
    (batch,) = document["batches"]
    streams = new_table("streams", "stream", "#epoch", "#after", "#to", "#messages")
    for stream in batch["streams"]:
        streams.add_row(
            one_line(stream["stream"]),
            str(stream["epoch"]),
            "the first" if stream["after"] is None else f"{stream['after']:,}",
            f"{stream['end']:,}",
            "-" if stream["messages"] is None else f"{stream['messages']:,}",
        )
    missing = batch["streams_in_all"] - len(batch["streams"])
    more = [Text(f"  and {counted(missing, 'more stream')}", style="dim")] if missing else []
    return Group(_stages({**document, "summary": {}}), *_notes([batch]), streams, *more)


def _stages(document: Mapping[str, Any]) -> FittingTable:
    shown = [stage for stage in STAGES if stage == "planned" or any(stage in b["stages"] for b in document["batches"])]
    titles = (f"#{stage.replace('_', ' ')}" for stage in shown[1:])
    table = new_table(f"pipeline {one_line(document['pipeline'])}", "#batch", "planned", *titles, "#messages", "#streams")
    for batch in document["batches"]:
        table.add_row(*_row(batch, shown))
    if document["summary"]:
        table.add_section()
        for kind in ("min", "avg", "max"):
            spans = [document["summary"].get(stage) for stage in shown[1:]]
            cells = ["-" if span is None else duration_text(span[f"{kind}_ms"]) for span in spans]
            table.add_row("", f"{kind} since planned", *cells, "", "", style="dim")
    return table


def _row(batch: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    number, stages = batch["batch"], batch["stages"]
    yield ("-" if number is None else f"{number:,}") + ("*" if batch["rebuilt"] else "")
    yield _clock(stages["planned"]) if "planned" in stages else "-"
    took = _steps(stages)
    for stage in columns[1:]:
        yield "redelivered" if stage == "acknowledged" and batch["redelivered"] else took.get(stage, "-")
    counts = [stream["messages"] for stream in batch["streams"]]
    known = None not in counts and len(counts) == batch["streams_in_all"]
    yield f"{sum(counts):,}" if known else "-"
    yield f"{batch['streams_in_all']:,}"


def _steps(stages: Mapping[str, str]) -> dict[str, str]:
    """Returns how long each stage took after the one before that was reached."""
    reached = [(stage, datetime.fromisoformat(stages[stage])) for stage in STAGES if stage in stages]
    return {later: f"+{_milliseconds(until - since)}" for (_, since), (later, until) in pairwise(reached)}


def _milliseconds(span: Any) -> str:
    return duration_text(max(0, round(span.total_seconds() * 1000)))


def _clock(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _notes(batches: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    if any(batch["rebuilt"] for batch in batches):
        yield Text("  * from the checkpoint: the gateway was not there, and has only some stages", style="dim")
