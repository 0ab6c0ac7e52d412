"""Counts the messages of a stream that its readers have committed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.streams.frames import HeldFrame


@dataclass(frozen=True, slots=True)
class Released:
    """Messages that were released before every reader had committed them: those up to a sequence."""

    last: int
    count: int


@dataclass(slots=True)
class Tally:
    """Counts each message of a stream once, when every reader has committed it, however often its source resends it."""

    total: int = 0
    up_to: Position = BEGINNING
    """Messages at or before it are not counted again."""
    counted_at: float | None = None
    """When messages were counted last, on the monotonic clock; None if none were."""
    _released: list[Released] = field(default_factory=list)
    """In order, following `up_to`. One ends where each reader was, and one where the held frames start."""

    def released(self, start: Position) -> int:
        """Returns how many messages were released, are not counted yet, and are not resent after `start`."""
        if start <= self.up_to:
            return 0
        self._divide(start.sequence)
        return sum(each.count for each in self._released if each.last <= start.sequence)

    def acknowledge(self, position: Position, held: Sequence[HeldFrame], start: Position) -> None:
        """Counts what is at or before a position.

        Args:
            position: The position, of the live epoch.
            held: The frames that are held, which have all messages after `start`.
            start: Where they start.
        """
        if position <= self.up_to:
            return
        end = position.sequence
        self._divide(end, held, start)
        while self._released and self._released[0].last <= end:
            first = self._released.pop(0)
            self._count(Position(position.epoch, first.last), first.count)
        for frame in held:
            if frame.first > end:
                break
            last = min(frame.last, end)
            self._count(Position(position.epoch, last), frame.count_between(self._last_counted(position.epoch), last))

    def release(self, frames: Sequence[HeldFrame], start: Position, readers: Collection[int]) -> None:
        """Notes that frames are released.

        Args:
            frames: The frames, in order: all messages that follow `start` up to the last one.
            start: The position that they follow, whose epoch is the live one.
            readers: The sequences after which readers continue.
        """
        if not frames:
            return
        # They may have been released before, together with the frames that follow them.
        self._divide(frames[-1].last, frames, start)
        kept = {*readers, frames[-1].last}
        low = self._released[-1].last if self._released else self._last_counted(start.epoch)
        for frame in frames:
            if frame.last <= low:
                continue
            for end in sorted({frame.last, *(at for at in readers if max(low, frame.first - 1) < at < frame.last)}):
                self._released.append(Released(end, frame.count_between(low, end)))
                low = end
        merged: list[Released] = []
        for each in self._released:
            if merged and merged[-1].last not in kept:
                merged[-1] = Released(each.last, merged[-1].count + each.count)
            else:
                merged.append(each)
        self._released = merged

    def restart(self, at: Position) -> None:
        """Notes that the stream restarts after a position. Messages that were released are not counted twice."""
        if at.epoch != self.up_to.epoch:
            # They are of another epoch, or of another kind of source that had the name.
            self._released.clear()
            self.up_to = min(self.up_to, at)

    def _count(self, last: Position, count: int) -> None:
        if last > self.up_to:
            self.total += count
            self.up_to = last
            self.counted_at = clock.monotonic()

    def _last_counted(self, epoch: int) -> int:
        return self.up_to.sequence if self.up_to.epoch == epoch else BEGINNING.sequence

    def _divide(self, end: int, held: Sequence[HeldFrame] = (), start: Position = BEGINNING) -> None:
        """Divides what was released at a sequence.

        If it is not held again, and no reader was known to continue there, the part before it is in proportion.
        """
        low = self.up_to.sequence
        for at, each in enumerate(self._released):
            if low < end < each.last:
                if held and start.sequence <= low and end <= held[-1].last:
                    part = sum(frame.count_between(low, end) for frame in held)
                else:
                    part = each.count * (end - low) // (each.last - low)
                self._released[at : at + 1] = [Released(end, part), Released(each.last, each.count - part)]
                return
            low = each.last
