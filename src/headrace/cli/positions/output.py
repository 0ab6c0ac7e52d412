"""What the commands print: the positions of a checkpoint, and what would change or has changed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.cli.positions.move import Move
from headrace.contract.names import covers
from headrace.terminal import console, counted, print_line, print_result

if TYPE_CHECKING:
    from headrace.engine import Change, StoredPositions


def document_of(stored: "StoredPositions", changes: "Sequence[Change]", move: Move) -> dict[str, Any]:
    """The changes of a command, as a document."""
    return {
        "batch": stored.committed.batch,
        "abandoned_batch": stored.abandoned,
        "states": stored.kept.value if move.states != "drop" else "none",
        "streams": [
            {
                "pipeline": change.pipeline,
                "stream": change.stream,
                "before": change.before.sequence,
                "after": None if change.after.sequence < 0 else change.after.sequence,
                "again": change.again,
                "skipped": change.skipped,
            }
            for change in changes
        ],
        "again": sum(change.again for change in changes),
        "skipped": sum(change.skipped for change in changes),
        "notes": _notes(stored, changes, move),
    }


def _notes(stored: "StoredPositions", changes: "Sequence[Change]", move: Move) -> list[str]:
    from headrace.engine import Kept

    again, skipped = sum(change.again for change in changes), sum(change.skipped for change in changes)
    found = []
    if again:
        found.append(f"at most {counted(again, 'message')} again: the difference of the sequences, which may have gaps")
        found.append("their results are new transactions, which sinks write in addition to the earlier ones")
    if skipped:
        found.append(f"skipped, and never read: at most {counted(skipped, 'message')}")
    if stored.kept is not Kept.NOWHERE:
        if move.states == "drop":
            found.append("the query begins without states and without event time")
        elif again:
            found.append("states and event time stay as they are: messages that come again count once more, unless they are late")
        else:
            found.append("states and event time stay as they are")
    if stored.abandoned is not None:
        found.append(
            f"micro-batch {stored.abandoned} is planned and not committed: two-phase sinks discard it when the query starts, and "
            "its messages are read from the new positions"
        )
    return found


def print_changes(summary: str, document: dict[str, Any], as_json: bool) -> None:
    """The changes that a command has made or would make."""
    from headrace.terminal.tables import plain_table

    if as_json:
        print_result(summary, document)
        return
    table = plain_table("stream", "#before", "#after", "#again", "#skipped")
    for change in document["streams"]:
        after = "beginning" if change["after"] is None else str(change["after"])
        table.add_row(change["stream"], str(change["before"]), after, f"{change['again']:,}", f"{change['skipped']:,}")
    console().print(table)
    for note in document["notes"]:
        print_line(note)
    print_line(summary)


def show_positions(stored: "StoredPositions", streams: Sequence[str], as_json: bool) -> None:
    """The positions of a checkpoint, of some streams or, without patterns, of all."""
    from headrace.terminal.tables import plain_table

    rows: list[dict[str, Any]] = [
        {
            "pipeline": offset.pipeline,
            "stream": name,
            "position": None if position.sequence < 0 else position.sequence,
            "epoch": position.epoch,
            "cursor_bytes": None if position.cursor is None else len(position.cursor),
            "kind": stored.kind_of(offset.pipeline, name),
            "ended": position.ended,
        }
        for offset in stored.committed.offsets
        for name, position in sorted(offset.streams.items())
        if not streams or any(covers(text, name) for text in streams)
    ]
    batch, planned = stored.committed.batch, _iso(stored.committed.planned_ms)
    if as_json:
        document = {"batch": batch, "planned": planned, "abandoned_batch": stored.abandoned, "streams": rows}
        print_result(f"positions after micro-batch {batch}", document)
        return
    print_line(f"After micro-batch {batch}, planned at {planned}:")
    table = plain_table("pipeline", "stream", "position", "source")
    for row in rows:
        position = "beginning" if row["position"] is None else str(row["position"])
        table.add_row(row["pipeline"], row["stream"], position + (", ended" if row["ended"] else ""), row["kind"])
    console().print(table)
    if stored.abandoned is not None:
        print_line(f"Micro-batch {stored.abandoned} is planned and not committed.")


def show_batches(stored: "StoredPositions", streams: Sequence[str], as_json: bool) -> None:
    """The micro-batches whose positions a checkpoint still has."""
    from headrace.terminal.tables import plain_table

    rows: list[dict[str, Any]] = [
        {"pipeline": pipeline, "batch": point.batch, "planned": _iso(point.planned_ms), "stream": name, "position": at.sequence}
        for pipeline, points in stored.points.items()
        for point in reversed(points)
        for name, at in sorted(point.streams.items())
        if not streams or any(covers(text, name) for text in streams)
    ]
    if as_json:
        print_result(f"positions of {counted(len(stored.points), 'pipeline')}, by micro-batch", {"batches": rows})
        return
    table = plain_table("micro-batch", "planned", "pipeline", "stream", "position")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("batch", "planned", "pipeline", "stream", "position")))
    console().print(table)


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
