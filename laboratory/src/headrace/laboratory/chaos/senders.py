"""The sources, each a connector: `python -m headrace.laboratory.chaos.senders KIND FOLDER --gateway ADDRESS`.

A source is defined by its journal. Before it drops acknowledged messages, it records what the checkpoints had committed then.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from headrace.laboratory.chaos.evidence import SINKS, Journal, JournalReader, Layout, Position, committed
from headrace.laboratory.chaos.workload import PARTITIONS, REDELIVERING, REPLAYABLE, content, message_id, number_at, sequence_of
from headrace.sdk import Message, PositionLost, Source, SourceKind, run
from headrace.sdk import Position as SdkPosition

CHUNK = 10
SEGMENT = 25
PREFETCH = 60


class _Sender(Source):
    """The base of both sources."""

    idle_seconds = 0.02

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        path = layout.journal(self.name)
        self._before = list(JournalReader(path).new())
        self._journal = Journal(path)

    def acknowledged(self, partition: str, position: SdkPosition) -> None:
        """Records the acknowledgement, and what every query had committed at that moment."""
        stream = f"{self.name}/{partition}"
        self._journal.note(stream=stream, acked=(position.epoch, position.sequence), committed=self._committed(stream))

    def _committed(self, stream: str) -> dict[str, Position | None]:
        return {sink: committed(self._layout.checkpoint(sink)).get(stream) for sink in SINKS}

    def _offered(self) -> int:
        return int(self._layout.offered.read_text())


class Replayable(_Sender):
    """Ten logs, which are pruned up to the acknowledged position.

    A log can only be read from the beginning of a segment, so the gateway may receive messages again.
    """

    name = REPLAYABLE
    chooses_start = True

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._pruned = dict.fromkeys(PARTITIONS, 0)
        for entry in self._before:
            self._pruned[entry["stream"].partition("/")[2]] = number_at(entry["acked"][1])

    def partitions(self) -> Sequence[str]:
        """Returns all partitions, from the start."""
        return PARTITIONS

    def starts(self, partitions: Sequence[str]) -> dict[str, SdkPosition]:
        """Returns the end of each log: a new query must miss nothing that is offered afterwards."""
        offered = self._offered()
        return {partition: SdkPosition(sequence=sequence_of(offered) if offered else 0) for partition in partitions}

    def read(self, partition: str, position: SdkPosition | None) -> Iterator[Message | None]:
        """Yields the messages after a position; raises PositionLost if they were pruned."""
        at = number_at(position.sequence) if position is not None else 0
        pruned = self._pruned[partition]
        if at < pruned:
            raise PositionLost(f"messages up to {pruned} were acknowledged and pruned", earliest=sequence_of(pruned + 1))
        stream = f"{self.name}/{partition}"
        at = max(pruned, at - at % SEGMENT)
        while True:
            end = min(at + CHUNK, self._offered())
            for number in range(at + 1, end + 1):
                sent = content(stream, number)
                yield Message(sent.value, sent.key, sequence=sequence_of(number))
            at = max(at, end)
            yield None

    def acknowledged(self, partition: str, position: SdkPosition) -> None:
        """Records the acknowledgement, and prunes the log."""
        super().acknowledged(partition, position)
        self._pruned[partition] = number_at(position.sequence)


class Redelivering(_Sender):
    """A queue that delivers at most PREFETCH unacknowledged messages."""

    name = REDELIVERING
    kind = SourceKind.REDELIVERING

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._settled = {number for entry in self._before for number in entry.get("settled", ())}

    def read(self, partition: str, position: SdkPosition | None) -> Iterator[Message | None]:
        """Yields the unacknowledged messages, then new ones."""
        stream = f"{self.name}/{partition}"
        given: set[int] = set()
        for number in count(1):
            while number > self._offered() or len(given - self._settled) >= PREFETCH:
                given -= self._settled
                yield None
            if number in self._settled:
                continue
            self._journal.note(stream=stream, given=number)
            given.add(number)
            sent = content(stream, number)
            yield Message(sent.value, sent.key, message_id=message_id(number), token=number)

    def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Removes messages from the queue."""
        self._journal.note(stream=f"{self.name}/{partition}", settled=tokens)
        self._settled |= {number for number in tokens if isinstance(number, int)}


_SOURCES: dict[str, type[Replayable | Redelivering]] = {source.name: source for source in (Replayable, Redelivering)}


def main() -> int:
    """Runs a source, and returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*_SOURCES])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gateway", required=True)
    arguments = parser.parse_args()
    return run(_SOURCES[arguments.kind](Layout(arguments.folder)), gateway=arguments.gateway)


if __name__ == "__main__":
    sys.exit(main())
