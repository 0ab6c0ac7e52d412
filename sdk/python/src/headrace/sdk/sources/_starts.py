"""Where partitions begin for queries that are new: asked of the source once, and kept until a checkpoint has it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.contract.limits import MAX_SEQUENCE
from headrace.sdk._errors import InvalidSource
from headrace.sdk.wire._message import Position

Starts = Mapping[str, Position | None]
"""Where partitions begin; None for the first message."""


class KnownStarts:
    """The starts of a source's partitions that no checkpoint has yet.

    They outlive sessions: a gateway that was restarted asks again, and what arrived since it was told must not be left out.
    """

    def __init__(self, ask: Callable[[Sequence[str]], Awaitable[Mapping[str, Position]]]) -> None:
        """Knows none yet. `ask` asks the source."""
        self._ask = ask
        self._starts: dict[str, Position | None] = {}
        self._listed: set[str] | None = None

    def listed(self, partitions: Sequence[str]) -> None:
        """Notes which partitions there are. Those that appear later begin with their first message."""
        if self._listed is not None:
            self._starts.update(dict.fromkeys([partition for partition in partitions if partition not in self._listed]))
        self._listed = {*(self._listed or ()), *partitions}

    def acknowledged(self, partition: str, position: Position) -> None:
        """A checkpoint has a position: a query that is new after that begins elsewhere."""
        start = self._starts.get(partition)
        if start is None or position.sequence >= start.sequence:
            self._starts.pop(partition, None)

    async def of(self, partitions: Sequence[str]) -> Starts:
        """Where partitions begin.

        Raises:
            HeadraceError: The source cannot tell.
        """
        unknown = [partition for partition in partitions if partition not in self._starts]
        if unknown:
            told = await self._ask(unknown)
            _check(told, unknown)
            self._starts.update({partition: told.get(partition) for partition in unknown})
        return {partition: self._starts[partition] for partition in partitions}


def _check(told: Mapping[str, Position], asked: Sequence[str]) -> None:
    """Refuses what a source cannot mean.

    Raises:
        InvalidSource: A partition was not asked for, or a position is not one of a replayable source.
    """
    for partition, position in told.items():
        if partition not in asked:
            raise InvalidSource(f"starts() names partition {partition!r}, which it was not asked for")
        if position.epoch or not 0 <= position.sequence <= MAX_SEQUENCE:
            raise InvalidSource(f"starts() gives {position} for partition {partition!r}: want epoch 0 and 0 <= sequence < 2**63")
