"""`headrace positions`: shows where a stopped query continues, and writes a checkpoint that continues elsewhere."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.application import load
from headrace.cli.gateway_of_query import NotAsked, QueriesAtGateway
from headrace.cli.spark_options import SparkOptions, require_java, spark_options
from headrace.contract.names import covers, is_stream_pattern
from headrace.terminal import EXIT_INVALID, Connection, Failure, connection_options, console, print_action, print_json

if TYPE_CHECKING:
    from headrace.engine import Change, Direction, StoredPositions, Target

_Command = TypeVar("_Command", bound=Callable[..., Any])

_TARGET = click.argument("target", metavar="CHECKPOINT|APP.PY[:NAME]")
_CHECKPOINT = click.option("--checkpoint", metavar="DIR", help="With APP.PY: its checkpoint.  [default: checkpoints/<name>]")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@dataclass(frozen=True)
class Wanted:
    """What a command is to do: the options that set, rewind and skip share."""

    streams: tuple[str, ...]
    every: bool
    pipeline: str | None
    after: int | None
    by: int | None
    time: datetime | None
    batch: int | None
    beginning: bool
    end: bool
    into: str | None
    states: str | None
    abandon: bool
    offline: bool
    dry_run: bool
    shared_checkpoint: bool


@click.group()
def positions() -> None:
    """Show where a query continues in each of its streams, and move it.

    A query is an application, or any query that reads format("headrace"). It must not be running. Moving it writes a new
    checkpoint; the old one stays unchanged.

    \b
    Examples:
      headrace positions show app.py
      headrace positions rewind app.py --all --time 2026-11-24T02:00:00Z --states keep --into checkpoints/orders-2
      headrace positions skip /data/checkpoint --stream orders/3 --by 1 --into /data/checkpoint-2
    """


@positions.command()
@_TARGET
@_CHECKPOINT
@click.option("--stream", "streams", metavar="PATTERN", multiple=True, help="Only these streams, such as orders/*. Repeatable.")
@click.option("--batches", is_flag=True, help="Show the micro-batches whose positions the checkpoint still has.")
@_JSON
@spark_options
def show(target: str, checkpoint: str | None, streams: tuple[str, ...], batches: bool, as_json: bool, on: SparkOptions) -> None:
    """Show the positions of a query in its checkpoint, as of its last committed micro-batch.

    A position is the sequence of the last message that the query has read.

    \b
    Example:
      headrace positions show app.py --checkpoint /data/checkpoints/orders
    """
    _check_patterns(streams)
    with _stored(target, checkpoint, on) as (stored, _):
        if batches:
            _show_batches(stored, streams, as_json)
        else:
            _show_positions(stored, streams, as_json)


def _moving(command: _Command) -> _Command:
    """Adds the options of the commands that move a query; the command receives them as one argument, `wanted`."""

    @_TARGET
    @_CHECKPOINT
    @click.option("--stream", "streams", metavar="PATTERN", multiple=True, help="Streams to move, such as orders/*. Repeatable.")
    @click.option("--all", "every", is_flag=True, help="Move all streams.")
    @click.option("--pipeline", metavar="NAME", help="Only this pipeline, if the query has several sources.")
    @click.option("--after", type=int, metavar="SEQUENCE", help="Continue after this sequence.")
    @click.option("--by", type=click.IntRange(1), metavar="N", help="Go this many sequences back or forward.")
    @click.option(
        "--time",
        type=click.DateTime(("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d")),
        metavar="TIME",
        help="Continue where the query was at this time (UTC unless it names a zone), by its micro-batches.",
    )
    @click.option("--batch", type=click.IntRange(0), metavar="N", help="Continue after micro-batch N.")
    @click.option("--beginning", is_flag=True, help="Continue with the first message.")
    @click.option("--end", is_flag=True, help="Continue after the last message, as the connector reports it to the gateway.")
    @click.option("--into", metavar="DIR", help="The new checkpoint; it must not exist.")
    @click.option("--states", type=click.Choice(("keep", "drop")), help="Keep the states, or begin without; needed to go back.")
    @click.option("--abandon", is_flag=True, help="Accept that a micro-batch which is planned and not committed is not repeated.")
    @click.option("--offline", is_flag=True, help="Do not ask the gateway whether the query runs: you know that it does not.")
    @click.option("--dry-run", is_flag=True, help="Only show what would change.")
    @click.option("--shared-checkpoint", is_flag=True, help="Both are on a file system that all cluster nodes mount.")
    @_JSON
    @connection_options
    @spark_options
    @functools.wraps(command)
    def with_wanted(
        target: str, checkpoint: str | None, as_json: bool, connection: Connection, on: SparkOptions, **options: Any
    ) -> Any:
        return command(target, checkpoint, Wanted(**options), as_json, connection, on)

    return with_wanted  # type: ignore[return-value]


@positions.command("set")
@_moving
def set_(target: str, checkpoint: str | None, wanted: Wanted, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at other positions, earlier or later ones.

    \b
    Examples:
      headrace positions set app.py --stream orders/3 --after 41200 --states keep --into checkpoints/orders-2
      headrace positions set app.py --all --batch 118 --states drop --dry-run
    """
    from headrace.engine import Direction

    _move(target, checkpoint, wanted, as_json, connection, on, Direction.ANY)


@positions.command()
@_moving
def rewind(target: str, checkpoint: str | None, wanted: Wanted, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at earlier positions, so that messages come again.

    The source must still have these messages; if it does not, the query fails with MessagesLost. A queue cannot be rewound.

    \b
    Examples:
      headrace positions rewind app.py --all --beginning --states drop --into checkpoints/orders-2
      headrace positions rewind app.py --all --time 2026-11-24T02:00:00Z --states keep --into checkpoints/orders-2
    """
    from headrace.engine import Direction

    _move(target, checkpoint, wanted, as_json, connection, on, Direction.BACK)


@positions.command()
@_moving
def skip(target: str, checkpoint: str | None, wanted: Wanted, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at later positions, so that messages are never read.

    \b
    Examples:
      headrace positions skip app.py --stream orders/3 --by 1 --into checkpoints/orders-2
      headrace positions skip app.py --all --end --dry-run
    """
    from headrace.engine import Direction

    _move(target, checkpoint, wanted, as_json, connection, on, Direction.FORWARD)


def _move(
    target: str,
    checkpoint: str | None,
    wanted: Wanted,
    as_json: bool,
    connection: Connection,
    on: SparkOptions,
    direction: "Direction",
) -> None:
    streams = _streams(wanted)
    if wanted.into is None and not wanted.dry_run:
        raise Failure("name the new checkpoint with --into, or see what would change with --dry-run", EXIT_INVALID)
    with _stored(target, checkpoint, on) as (stored, old):
        names = [offset.pipeline for offset in stored.committed.offsets]
        gateway = QueriesAtGateway(connection, names)
        place = _target(wanted, direction, gateway)
        changes = stored.changes(place, direction, streams, pipeline=wanted.pipeline)
        if not changes:
            raise Failure("nothing would change: the streams are there already")
        document = _plan(stored, changes, wanted)
        if wanted.dry_run:
            _print(f"positions {direction.value}", "nothing was written", document, as_json)
            return
        if not wanted.offline:
            gateway.check_stopped()
        _check_states(stored, changes, wanted)
        check_abandoned(stored, wanted, gateway)
        assert wanted.into is not None
        stored.write(
            wanted.into,
            changes,
            drop_states=wanted.states == "drop",
            shared_checkpoint=wanted.shared_checkpoint,
            before_end=lambda: None if wanted.offline else gateway.check_stopped(),
        )
        start = f"headrace run {target} --checkpoint {wanted.into}" if _is_application(target) else "the query"
        _print(
            f"positions {direction.value}",
            f"{wanted.into} is complete; start {start} with it, and never again with {old}"
            if not _is_application(target)
            else f"{wanted.into} is complete; continue with {start}, and never again with {old}",
            {**document, "checkpoint": wanted.into},
            as_json,
        )


def _target(wanted: Wanted, direction: "Direction", gateway: QueriesAtGateway) -> "Target":
    from headrace.engine import After, AtBatch, AtBeginning, AtEnd, AtTime, By, Direction

    if direction is Direction.ANY and wanted.by is not None:
        raise Failure("--by is for rewind and skip; name a sequence with --after", EXIT_INVALID)
    back = -1 if direction is Direction.BACK else 1
    chosen: list[tuple[str, Callable[[], Target]]] = []
    if (after := wanted.after) is not None:
        chosen.append(("--after", lambda: After(after)))
    if (by := wanted.by) is not None:
        chosen.append(("--by", lambda: By(back * by)))
    if (time := wanted.time) is not None:
        chosen.append(("--time", lambda: AtTime(_milliseconds(time))))
    if (batch := wanted.batch) is not None:
        chosen.append(("--batch", lambda: AtBatch(batch)))
    if wanted.beginning:
        chosen.append(("--beginning", AtBeginning))
    if wanted.end:
        chosen.append(("--end", lambda: AtEnd(gateway.latest())))
    if len(chosen) != 1:
        what = f"{' and '.join(name for name, _ in chosen)} exclude each other" if chosen else "say where to continue"
        raise Failure(f"{what}: one of --after, --by, --time, --batch, --beginning and --end", EXIT_INVALID)
    return chosen[0][1]()


def _streams(wanted: Wanted) -> Sequence[str]:
    if wanted.every == bool(wanted.streams):
        raise Failure("say which streams to move: --stream PATTERN, or --all", EXIT_INVALID)
    _check_patterns(wanted.streams)
    return ("*/*",) if wanted.every else wanted.streams


def _check_patterns(streams: Sequence[str]) -> None:
    for text in streams:
        if not is_stream_pattern(text):
            raise Failure(f"--stream {text}: want source/partition, such as orders/3 or orders/*", EXIT_INVALID)


def _check_states(stored: "StoredPositions", changes: "Sequence[Change]", wanted: Wanted) -> None:
    from headrace.engine import Kept

    if stored.kept is not Kept.NOWHERE and wanted.states is None and any(change.again for change in changes):
        raise Failure(
            "the query has states, and messages would come again: add --states keep, and they count in them once more; or "
            "--states drop, and the query begins without states",
            EXIT_INVALID,
        )


def check_abandoned(stored: "StoredPositions", wanted: Wanted, gateway: QueriesAtGateway) -> None:
    """Refuses to leave out a micro-batch that a sink may have written already, unless that is accepted."""
    if stored.abandoned is None or wanted.abandon:
        return
    try:
        unsafe = None if stored.sinks and not wanted.offline else ["its sink"]
        unsafe = unsafe or gateway.not_two_phase(stored.sinks)
    except NotAsked:
        unsafe = list(stored.sinks)
    if unsafe:
        raise Failure(
            f"micro-batch {stored.abandoned} is planned and not committed, and {', '.join(unsafe)} may have written it: what it "
            "has of other streams would come twice. Start the query once more until the micro-batch is committed; or, if that "
            "is not possible, add --abandon"
        )


def _plan(stored: "StoredPositions", changes: "Sequence[Change]", wanted: Wanted) -> dict[str, Any]:
    """What a command changes, as a document."""
    return {
        "batch": stored.committed.batch,
        "abandoned_batch": stored.abandoned,
        "states": stored.kept.value if wanted.states != "drop" else "none",
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
        "notes": _notes(stored, changes, wanted),
    }


def _notes(stored: "StoredPositions", changes: "Sequence[Change]", wanted: Wanted) -> list[str]:
    from headrace.engine import Kept

    again, skipped = sum(change.again for change in changes), sum(change.skipped for change in changes)
    found = []
    if again:
        found.append(f"at most {again:,} messages come again: the difference of the sequences, which may have gaps")
        found.append("their results are new transactions, which sinks write in addition to the earlier ones")
    if skipped:
        found.append(f"at most {skipped:,} messages are skipped: the query never reads them")
    if stored.kept is not Kept.NOWHERE:
        if wanted.states == "drop":
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


def _print(command: str, summary: str, document: dict[str, Any], as_json: bool) -> None:
    from rich.table import Table

    if as_json:
        print_action(command, summary, document)
        return
    table = Table("stream", "before", "after", "again", "skipped", box=None, pad_edge=False, header_style="bold")
    for change in document["streams"]:
        after = "beginning" if change["after"] is None else str(change["after"])
        table.add_row(change["stream"], str(change["before"]), after, f"{change['again']:,}", f"{change['skipped']:,}")
    console().print(table)
    for note in document["notes"]:
        click.echo(note)
    click.echo(summary)


def _show_positions(stored: "StoredPositions", streams: Sequence[str], as_json: bool) -> None:
    from rich.table import Table

    rows: list[dict[str, Any]] = [
        {
            "pipeline": offset.pipeline,
            "stream": name,
            "position": None if position.sequence < 0 else position.sequence,
            "epoch": position.epoch,
            "cursor_bytes": None if position.cursor is None else len(position.cursor),
            "kind": "redelivering" if position.epoch else "replayable",
            "ended": position.ended,
        }
        for offset in stored.committed.offsets
        for name, position in sorted(offset.streams.items())
        if not streams or any(covers(text, name) for text in streams)
    ]
    batch, planned = stored.committed.batch, _iso(stored.committed.planned_ms)
    if as_json:
        print_json({"batch": batch, "planned": planned, "abandoned_batch": stored.abandoned, "streams": rows})
        return
    click.echo(f"After micro-batch {batch}, planned at {planned}:")
    table = Table("pipeline", "stream", "position", "source", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        position = "beginning" if row["position"] is None else str(row["position"])
        table.add_row(row["pipeline"], row["stream"], position + (", ended" if row["ended"] else ""), row["kind"])
    console().print(table)
    if stored.abandoned is not None:
        click.echo(f"Micro-batch {stored.abandoned} is planned and not committed.")


def _show_batches(stored: "StoredPositions", streams: Sequence[str], as_json: bool) -> None:
    from rich.table import Table

    rows: list[dict[str, Any]] = [
        {"pipeline": pipeline, "batch": point.batch, "planned": _iso(point.planned_ms), "stream": name, "position": at.sequence}
        for pipeline, points in stored.points.items()
        for point in reversed(points)
        for name, at in sorted(point.streams.items())
        if not streams or any(covers(text, name) for text in streams)
    ]
    if as_json:
        print_json({"batches": rows})
        return
    table = Table("micro-batch", "planned", "pipeline", "stream", "position", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("batch", "planned", "pipeline", "stream", "position")))
    console().print(table)


@contextlib.contextmanager
def _stored(target: str, checkpoint: str | None, on: SparkOptions) -> "Iterator[tuple[StoredPositions, str]]":
    """The positions of a query, and its checkpoint."""
    graph = None
    if _is_application(target):
        pipeline = load(target).pipeline
        graph, folder = pipeline.graph, checkpoint or str(Path("checkpoints", pipeline.name).absolute())
    elif checkpoint is not None:
        raise Failure("--checkpoint is for an application: name either it or the checkpoint", EXIT_INVALID)
    else:
        folder = target
    require_java()
    with _spark(on) as spark:
        from headrace.engine import CheckpointError, StoredPositions

        try:
            yield StoredPositions(spark, folder, graph), folder
        except CheckpointError as error:
            raise Failure(str(error)) from None


@contextlib.contextmanager
def _spark(on: SparkOptions) -> Iterator[Any]:
    from headrace.engine import build_session

    spark = build_session("headrace positions", on.master, on.conf, quick_start=True, quiet=True)
    try:
        yield spark
    finally:
        spark.stop()


def _is_application(target: str) -> bool:
    return target.partition(":")[0].endswith(".py")


def _milliseconds(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
