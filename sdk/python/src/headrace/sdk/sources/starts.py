"""The positions at which partitions begin for new queries: requested once, and kept until a checkpoint contains them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.contract.limits import MAX_SEQUENCE
from headrace.sdk._errors import InvalidSource
from headrace.sdk.wire import Position

Starts = Mapping[str, Position | None]
"""The start of each partition; None for the first message."""


class KnownStarts:
    """The starts of a source's partitions that no checkpoint has yet.

    They outlive sessions: a restarted gateway asks again, and messages that have arrived since the first answer must not be
    skipped.
    """

    def __init__(self, ask: Callable[[Sequence[str]], Awaitable[Mapping[str, Position]]]) -> None:
        """Begins without starts. `ask` requests them from the source."""
        self._ask = ask
        self._starts: dict[str, Position | None] = {}
        self._listed: set[str] | None = None

    def listed(self, partitions: Sequence[str]) -> None:
        """Notes the partitions that exist. Those that appear later begin with their first message."""
        if self._listed is not None:
            self._starts.update(dict.fromkeys([partition for partition in partitions if partition not in self._listed]))
        self._listed = {*(self._listed or ()), *partitions}

    def acknowledged(self, partition: str, position: Position) -> None:
        """Forgets a start that a checkpoint has reached: the next new query gets another one."""
        start = self._starts.get(partition)
        if start is None or position.sequence >= start.sequence:
            self._starts.pop(partition, None)

    async def of(self, partitions: Sequence[str]) -> Starts:
        """Returns the starts of partitions, and asks the source for unknown ones.

        Raises:
            HeadraceError: The source failed, or its answer is invalid.
        """
        unknown = [partition for partition in partitions if partition not in self._starts]
        if unknown:
            told = await self._ask(unknown)
            _check(told, unknown)
            self._starts.update({partition: told.get(partition) for partition in unknown})
        return {partition: self._starts[partition] for partition in partitions}


def _check(positions: Mapping[str, Position], partitions: Sequence[str]) -> None:
    """Checks the positions that a source returned.

    Raises:
        InvalidSource: A partition was not requested, or a position is invalid for a replayable source.
    """
    for partition, position in positions.items():
        if partition not in partitions:
            raise InvalidSource(f"starts() names partition {partition!r}, which it was not asked for")
        if position.epoch or not 0 <= position.sequence <= MAX_SEQUENCE:
            raise InvalidSource(f"starts() gives {position} for partition {partition!r}: want epoch 0 and 0 <= sequence < 2**63")
