"""The commands of `headrace positions`."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.gateway_of_query import QueriesAtGateway
from headrace.cli.positions.move import Move, check_abandoned, check_patterns, check_states, streams_of, target_of
from headrace.cli.positions.output import document_of, print_changes, show_batches, show_positions
from headrace.cli.spark_options import SparkOptions, spark_options
from headrace.cli.stored import (
    both_shared_option,
    checkpoint_option,
    is_application,
    named_checkpoint,
    spark_session,
    target_argument,
)
from headrace.terminal import EXIT_INVALID, TIME, Connection, Failure, ProgramGroup, connection_options, json_option

if TYPE_CHECKING:
    from headrace.engine import Direction, StoredPositions

_Command = TypeVar("_Command", bound=Callable[..., Any])

_JSON = json_option()


@click.group(cls=ProgramGroup)
def positions() -> None:
    """Show where a query continues in each of its streams, and move it.

    A query is an application, or any query that reads format("headrace"). Stop it before you move it. Moving it writes a new
    checkpoint; the old one stays unchanged.

    \b
    Examples:
      headrace positions show app.py
      headrace positions rewind app.py --all --time 2026-11-24T02:00:00Z --states keep --into checkpoints/orders-2
      headrace positions skip /data/checkpoint --stream orders/3 --by 1 --into /data/checkpoint-2
    """


@positions.command()
@target_argument
@checkpoint_option
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
    check_patterns(streams)
    with _stored(named_checkpoint(target, checkpoint), on) as stored:
        if batches:
            show_batches(stored, streams, as_json)
        else:
            show_positions(stored, streams, as_json)


def _moving(command: _Command) -> _Command:
    """Adds the options of the commands that move a query; the command receives them as one argument, `move`."""

    @target_argument
    @checkpoint_option
    @click.option("--stream", "streams", metavar="PATTERN", multiple=True, help="Streams to move, such as orders/*. Repeatable.")
    @click.option("--all", "every", is_flag=True, help="Move all streams.")
    @click.option("--pipeline", metavar="NAME", help="Only this pipeline, if the query has several sources.")
    @click.option("--after", type=int, metavar="SEQUENCE", help="Continue after this sequence.")
    @click.option("--by", type=click.IntRange(1), metavar="N", help="Go this many sequences back (rewind) or ahead (skip).")
    @click.option(
        "--time",
        type=TIME,
        metavar="TIME",
        help="Continue where the query was at this time (UTC unless it names a zone), by its micro-batches.",
    )
    @click.option(
        "--connector",
        metavar="FILE[:NAME]",
        help="With --time: by the time index of the source that this file configures, such as deploy.toml:orders.",
    )
    @click.option("--batch", type=click.IntRange(0), metavar="N", help="Continue after micro-batch N.")
    @click.option("--beginning", is_flag=True, help="Continue with the first message.")
    @click.option("--end", is_flag=True, help="Continue after the last message, as the connector reports it to the gateway.")
    @click.option(
        "--positions",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Continue after the positions that headrace connector positions has printed.",
    )
    @click.option("--into", metavar="DIR", help="The new checkpoint; it must not exist.")
    @click.option("--states", type=click.Choice(("keep", "drop")), help="Keep the states, or begin without; needed to go back.")
    @click.option("--abandon", is_flag=True, help="Accept that a micro-batch which is planned and not committed is not repeated.")
    @click.option("--offline", is_flag=True, help="Do not ask the gateway whether the query runs: you know that it does not.")
    @click.option("--dry-run", is_flag=True, help="Only show what would change.")
    @both_shared_option
    @_JSON
    @connection_options
    @spark_options
    @functools.wraps(command)
    def with_move(
        target: str, checkpoint: str | None, as_json: bool, connection: Connection, on: SparkOptions, **options: Any
    ) -> Any:
        return command(target, checkpoint, Move(**options), as_json, connection, on)

    return with_move  # type: ignore[return-value]


@positions.command("set")
@_moving
def set_(target: str, checkpoint: str | None, move: Move, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at other positions, earlier or later ones.

    \b
    Examples:
      headrace positions set app.py --stream orders/3 --after 41200 --states keep --into checkpoints/orders-2
      headrace positions set app.py --all --batch 118 --states drop --dry-run
    """
    from headrace.engine import Direction

    _move(target, checkpoint, move, as_json, connection, on, Direction.ANY)


@positions.command()
@_moving
def rewind(target: str, checkpoint: str | None, move: Move, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at earlier positions, so that messages come again.

    The source must still have these messages; if it does not, the query fails with MessagesLost. A queue cannot be rewound.

    \b
    Examples:
      headrace positions rewind app.py --all --beginning --states drop --into checkpoints/orders-2
      headrace positions rewind app.py --all --time 2026-11-24T02:00:00Z --states keep --into checkpoints/orders-2
      headrace positions rewind app.py --all --time 2026-11-24T02:00:00Z --connector deploy.toml:orders --dry-run
    """
    from headrace.engine import Direction

    _move(target, checkpoint, move, as_json, connection, on, Direction.BACK)


@positions.command()
@_moving
def skip(target: str, checkpoint: str | None, move: Move, as_json: bool, connection: Connection, on: SparkOptions) -> None:
    """Write a checkpoint that continues at later positions, so that messages are never read.

    \b
    Examples:
      headrace positions skip app.py --stream orders/3 --by 1 --into checkpoints/orders-2
      headrace positions skip app.py --all --end --dry-run
    """
    from headrace.engine import Direction

    _move(target, checkpoint, move, as_json, connection, on, Direction.FORWARD)


def _move(
    target: str,
    checkpoint: str | None,
    move: Move,
    as_json: bool,
    connection: Connection,
    on: SparkOptions,
    direction: "Direction",
) -> None:
    streams = streams_of(move)
    if move.into is None and not move.dry_run:
        raise Failure("name the new checkpoint with --into, or see what would change with --dry-run", EXIT_INVALID)
    old = named_checkpoint(target, checkpoint)
    with _stored(old, on) as stored:
        names = [offset.pipeline for offset in stored.committed.offsets]
        gateway = QueriesAtGateway(connection, names)
        place = target_of(move, direction, gateway)
        changes = stored.changes(place, direction, streams, pipeline=move.pipeline)
        if not changes:
            raise Failure("nothing would change: the streams are there already")
        document = document_of(stored, changes, move)
        if move.dry_run:
            print_changes("nothing was written", document, as_json)
            return
        if not move.offline:
            gateway.check_stopped()
        check_states(stored, changes, move)
        check_abandoned(stored, move, gateway)
        assert move.into is not None
        stored.write(
            move.into,
            changes,
            drop_states=move.states == "drop",
            shared_checkpoint=move.shared_checkpoint,
            before_end=lambda: None if move.offline else gateway.check_stopped(),
        )
        proceed = (
            f"continue with headrace run {target} --checkpoint {move.into}"
            if is_application(target)
            else "start the query with it"
        )
        print_changes(
            f"{move.into} is complete; {proceed}, and never again with {old}",
            {**document, "checkpoint": move.into},
            as_json,
        )


@contextlib.contextmanager
def _stored(folder: str, on: SparkOptions) -> "Iterator[StoredPositions]":
    """The positions in a checkpoint."""
    with spark_session("positions", on) as spark:
        from headrace.engine import CheckpointError, StoredPositions

        try:
            yield StoredPositions(spark, folder)
        except CheckpointError as error:
            raise Failure(str(error)) from None
