"""What a command is to do: its options, and whether the checkpoint and the gateway permit it."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.gateway_of_query import NotAsked, QueriesAtGateway
from headrace.contract.names import is_stream_pattern
from headrace.terminal import EXIT_INVALID, Failure

if TYPE_CHECKING:
    from headrace.engine import Change, Direction, Position, StoredPositions, Target


@dataclass(frozen=True)
class Move:
    """What a command is to do: the options that set, rewind and skip share."""

    streams: tuple[str, ...]
    every: bool
    pipeline: str | None
    after: int | None
    by: int | None
    time: datetime | None
    connector: str | None
    batch: int | None
    beginning: bool
    end: bool
    positions: Path | None
    into: str | None
    states: str | None
    abandon: bool
    offline: bool
    dry_run: bool
    shared_checkpoint: bool


def target_of(move: Move, direction: "Direction", gateway: QueriesAtGateway) -> "Target":
    """Where the streams are to continue.

    Raises:
        Failure: The options name no place, or several.
    """
    from headrace.engine import After, AtBatch, AtBeginning, AtEnd, AtPositions, AtTime, By, Direction

    if direction is Direction.ANY and move.by is not None:
        raise Failure("--by is for rewind and skip; name a sequence with --after", EXIT_INVALID)
    back = -1 if direction is Direction.BACK else 1
    chosen: list[tuple[str, Callable[[], Target]]] = []
    if (after := move.after) is not None:
        chosen.append(("--after", lambda: After(after)))
    if (by := move.by) is not None:
        chosen.append(("--by", lambda: By(back * by)))
    if (time := move.time) is not None:
        index = move.connector
        chosen.append(("--time", lambda: AtTime(_milliseconds(time)) if index is None else AtPositions(_indexed(index, time))))
    elif move.connector is not None:
        raise Failure("--connector is for --time: it says whose time index finds the time", EXIT_INVALID)
    if (batch := move.batch) is not None:
        chosen.append(("--batch", lambda: AtBatch(batch)))
    if move.beginning:
        chosen.append(("--beginning", AtBeginning))
    if move.end:
        chosen.append(("--end", lambda: AtEnd(gateway.latest())))
    if (file := move.positions) is not None:
        chosen.append(("--positions", lambda: AtPositions(read_positions(file))))
    if len(chosen) != 1:
        what = f"{' and '.join(name for name, _ in chosen)} exclude each other" if chosen else "say where to continue"
        raise Failure(f"{what}: one of --after, --by, --time, --batch, --beginning, --end and --positions", EXIT_INVALID)
    return chosen[0][1]()


def read_positions(file: Path) -> "dict[str, Position]":
    """Returns the positions that `headrace connector positions` has printed into a file, by stream.

    Raises:
        Failure: The file cannot be read, or has none.
    """
    from headrace.engine import Position

    try:
        document = json.loads(file.read_text())
        found = {str(name): Position(0, int(one["sequence"]), _cursor(one)) for name, one in document["positions"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(
            f"--positions {file}: want what headrace connector positions prints: {type(error).__name__}: {error}", EXIT_INVALID
        ) from None
    if not found:
        raise Failure(f"--positions {file} has no positions", EXIT_INVALID)
    return found


def _indexed(connector: str, time: datetime) -> "dict[str, Position]":
    """Returns where a source finds a time, by stream.

    Raises:
        Failure: The source is not configured, cannot find a time, or does not answer.
    """
    from headrace.connectors_cli import positions_of
    from headrace.engine import Position

    found = positions_of(connector, time).positions
    return {name: Position(0, -1) if at is None else Position(0, at.sequence, at.cursor) for name, at in found.items()}


def streams_of(move: Move) -> Sequence[str]:
    """Patterns of the streams to move.

    Raises:
        Failure: The options name none, or both some and all, or a pattern is invalid.
    """
    if move.every == bool(move.streams):
        raise Failure("say which streams to move: --stream PATTERN, or --all", EXIT_INVALID)
    check_patterns(move.streams)
    return ("*/*",) if move.every else move.streams


def check_patterns(streams: Sequence[str]) -> None:
    """Raises Failure if a pattern of streams is invalid."""
    for text in streams:
        if not is_stream_pattern(text):
            raise Failure(f"--stream {text}: want source/partition, such as orders/3 or orders/*", EXIT_INVALID)


def check_states(stored: "StoredPositions", changes: "Sequence[Change]", move: Move) -> None:
    """Refuses to send messages again to a query with states, unless it is said what becomes of these."""
    from headrace.engine import Kept

    if stored.kept is not Kept.NOWHERE and move.states is None and any(change.again for change in changes):
        raise Failure(
            "the query has states, and messages would come again: add --states keep, and they count in them once more; or "
            "--states drop, and the query begins without states",
            EXIT_INVALID,
        )


def check_abandoned(stored: "StoredPositions", move: Move, gateway: QueriesAtGateway) -> None:
    """Refuses to leave out a micro-batch that a sink may have written already, unless that is accepted."""
    if stored.abandoned is None or move.abandon:
        return
    try:
        unsafe = None if stored.sinks and not move.offline else ["its sink"]
        unsafe = unsafe or gateway.not_two_phase(stored.sinks)
    except NotAsked:
        unsafe = list(stored.sinks)
    if unsafe:
        raise Failure(
            f"micro-batch {stored.abandoned} is planned and not committed, and {', '.join(unsafe)} may have written it: what it "
            "has of other streams would come twice. Start the query once more until the micro-batch is committed; or, if that "
            "is not possible, add --abandon"
        )


def _cursor(position: Mapping[str, Any]) -> bytes | None:
    """Raises ValueError if the cursor is not base64."""
    text = position.get("cursor")
    return None if text is None else base64.b64decode(text, validate=True)


def _milliseconds(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)
