"""What `headrace why` says of a message, built from the document that --json prints."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from headrace.gateway_cli.problems import one_line
from headrace.gateway_status.timeline import MESSAGE_STATES
from headrace.terminal import counted, duration_text

_MAX_PIPELINES = 20
"""How many pipelines are shown; the JSON document has more."""


def message_lines(document: Mapping[str, Any]) -> Iterator[Text]:
    """Yields where a message stands and what it waits for, in lines.

    Args:
        document: The document that --json prints.
    """
    epoch = f" of epoch {document['epoch']}" if document["epoch"] else ""
    style = "green" if document["state"] == "acknowledged" else "bold"
    yield Text(f"{one_line(document['stream'])} {document['sequence']}{epoch} {_stands(document)}", style=style)
    if document["reason"]:
        yield Text(f"  {one_line(document['reason'])}")
    for reader in document["pipelines"][:_MAX_PIPELINES]:
        yield from _reader(reader)
    if (more := len(document["pipelines"]) - _MAX_PIPELINES) > 0:
        yield Text(f"  and {counted(more, 'more pipeline')}", style="dim")
    if document["problem"] is not None and document["problem"] not in [reader["problem"] for reader in document["pipelines"]]:
        yield from _problem(document["problem"], "  ")


def _reader(reader: Mapping[str, Any]) -> Iterator[Text]:
    line = Text(f"  pipeline {one_line(reader['pipeline'])}: ", style="bold").append(_stands(reader), style="not bold")
    if reader["batch"] is not None:
        line.append(f", micro-batch {reader['batch']:,}", style="not bold")
    if reader["since"] is not None:
        age = datetime.now(UTC) - datetime.fromisoformat(reader["since"])
        waits = reader["stage"].replace("_", " ") if reader["stage"] else "received"
        line.append(f", {waits} {duration_text(max(0, int(age.total_seconds() * 1000)))} ago", style="not bold")
    yield line
    if reader["reason"]:
        yield Text(f"    {one_line(reader['reason'])}")
    if reader["problem"] is not None:
        yield from _problem(reader["problem"], "    ")


def _stands(where: Mapping[str, Any]) -> str:
    """Returns where a message stands; a gateway of a later release may have further states."""
    return MESSAGE_STATES.get(where["state"], "is in a state that this release does not know")


def _problem(problem: Mapping[str, Any], indent: str) -> Iterator[Text]:
    yield Text(f"{indent}{one_line(problem['root'])}: {one_line(problem['cause'])}", style="red")
    yield Text(f"{indent}{one_line(problem['remedy'])}", style="dim")
