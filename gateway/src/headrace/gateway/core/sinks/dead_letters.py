"""Dead letters that queries have delivered to their sinks: how many are in committed micro-batches, and how the last ones begin.

The query declares which parts have dead letters, so nothing else is looked at, and of these only the last messages. A part counts
once its sink was asked to vote for it and its micro-batch is in the commit log. All of it is in memory: the sink has the letters.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from headrace.contract import clock
from headrace.contract.limits import MAX_DEAD_LETTERS
from headrace.gateway.config import Peek
from headrace.gateway.core.base.bounds import MAX_SINKS
from headrace.gateway.core.sinks.commit_log import CommitLog, Decision
from headrace.gateway.core.sinks.transaction import Part
from headrace.gateway.core.streams import previews
from headrace.protocol.v1.admin_pb2 import DeadLetter, MessagePreview
from headrace.protocol.v1.frame_pb2 import Frame

MAX_OF_PART = 20
"""How many dead letters of each part are kept."""
MAX_SINK_BYTES = 256 * 2**10
"""How many bytes of dead letters of each sink are kept."""
MAX_BYTES = 8 * 2**20
"""How many bytes of dead letters of all sinks are kept, and as many of micro-batches that are not committed."""
MAX_PARTS = 10_000
"""How many parts with dead letters may be undecided; the oldest are dropped."""
_PREFIX = "headrace-"
"""How the names of the headers begin that the engine adds to a dead letter."""


@dataclass(slots=True)
class PartLetters:
    """The dead letters of a part."""

    count: int = 0
    last: deque[DeadLetter] = field(default_factory=lambda: deque(maxlen=MAX_OF_PART))
    size: int = 0
    """The bytes of what is kept, once the part is staged."""
    voted: bool = False
    """Whether the sink has voted for the part, or has written it where no vote follows."""

    def take(self, part: Part, frame: Frame, peek: Peek) -> None:
        """Takes a frame of the part, whose columns were checked."""
        self.count += frame.count
        if peek.enabled:
            first = max(0, frame.count - MAX_OF_PART)
            for preview in previews(frame, 0, peek.preview_bytes, first, MAX_OF_PART, last_headers=True):
                self.last.append(_letter(part, preview))

    def drop(self) -> None:
        """Drops what is kept, but not the count."""
        self.last.clear()
        self.size = 0


@dataclass(slots=True)
class SinkLetters:
    """The dead letters of a sink, in committed micro-batches."""

    count: int = 0
    """Since the gateway started."""
    last: deque[DeadLetter] = field(default_factory=deque)
    """The newest is the last one."""
    size: int = 0

    def add(self, letters: PartLetters) -> None:
        """Adds the dead letters of a part."""
        self.count += letters.count
        now_ms = int(clock.now() * 1000)
        for letter in letters.last:
            letter.committed_ms = now_ms
            self.last.append(letter)
            self.size += letter.ByteSize()
        while len(self.last) > MAX_DEAD_LETTERS or self.size > MAX_SINK_BYTES:
            self.size -= self.last.popleft().ByteSize()

    def clear(self) -> None:
        """Drops what is kept."""
        self.last.clear()
        self.size = 0


class DeadLetters:
    """The dead letters of all sinks."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, Part], PartLetters] = {}
        """Those of micro-batches that are not decided yet, by sink and part."""
        self._undecided_bytes = 0
        self._of_sinks: dict[str, SinkLetters] = {}
        """By sink; the one with the newest is the last one."""

    def add(self, sink: str, part: Part, letters: PartLetters) -> None:
        """Adds the dead letters of a part that the sink has staged, in place of the dead letters of its earlier delivery.

        What does not fit is only counted: of this part, or, if other queries hold more, of the oldest parts of the one with most.
        """
        if (sink, part) in self._parts:
            self._remove((sink, part))
        letters.size = sum(letter.ByteSize() for letter in letters.last)
        self._parts[sink, part] = letters
        self._undecided_bytes += letters.size
        while self._undecided_bytes > MAX_BYTES:
            self._shorten(part, letters)
        if len(self._parts) > MAX_PARTS:
            counts = Counter(each.transaction.pipeline for _, each in self._parts)
            most = max(counts, key=counts.__getitem__)
            self._remove(next(key for key in self._parts if key[1].transaction.pipeline == most))

    def _shorten(self, newest: Part, letters: PartLetters) -> None:
        """Drops letters of the query with the most bytes, but not their count."""
        sizes = Counter[str]()
        for (_, part), found in self._parts.items():
            sizes[part.transaction.pipeline] += found.size
        most = max(sizes, key=sizes.__getitem__)
        if most != newest.transaction.pipeline:
            letters = next(found for (_, p), found in self._parts.items() if found.size and p.transaction.pipeline == most)
        self._undecided_bytes -= letters.size
        letters.drop()

    def _remove(self, key: tuple[str, Part]) -> None:
        self._undecided_bytes -= self._parts.pop(key).size

    def vote(self, sink: str, parts: Iterable[Part]) -> None:
        """Notes that a sink has voted for these parts; other attempts to deliver them do not count."""
        if self._parts:
            for part in parts:
                if (letters := self._parts.get((sink, part))) is not None:
                    letters.voted = True

    def decide(self, commit_log: CommitLog) -> None:
        """Applies the decisions of a pipeline's commit log."""
        for (sink, part), letters in list(self._parts.items()):
            if part.transaction.pipeline != commit_log.pipeline:
                continue
            transaction = part.transaction.of_run(part.run_id)
            decision = commit_log.decision(transaction, {part.run_id}, prepared=letters.voted)
            if decision is not Decision.OPEN:
                self._remove((sink, part))
                if decision is not Decision.ABORT:
                    self._commit(sink, letters)

    def _commit(self, sink: str, letters: PartLetters) -> None:
        of_sink = self._of_sinks.pop(sink, None) or SinkLetters()
        of_sink.add(letters)
        self._of_sinks[sink] = of_sink
        while len(self._of_sinks) > MAX_SINKS:
            del self._of_sinks[next(iter(self._of_sinks))]
        oldest = iter(self._of_sinks.values())
        while sum(each.size for each in self._of_sinks.values()) > MAX_BYTES:
            next(oldest).clear()

    def sinks(self) -> list[str]:
        """Returns the sinks that have dead letters in committed micro-batches, by name."""
        return sorted(self._of_sinks)

    def count(self, sink: str) -> int:
        """Returns how many dead letters of a sink were committed since the gateway started."""
        return self._of_sinks[sink].count if sink in self._of_sinks else 0

    def last(self, sink: str, limit: int) -> list[DeadLetter]:
        """Returns the last dead letters of a sink, newest first."""
        return list(islice(reversed(self._of_sinks[sink].last), limit)) if sink in self._of_sinks else []

    def clear(self) -> None:
        """Drops the letters that are kept, and continues counting."""
        for of_part in self._parts.values():
            of_part.drop()
        self._undecided_bytes = 0
        for of_sink in self._of_sinks.values():
            of_sink.clear()


def _letter(part: Part, preview: MessagePreview) -> DeadLetter:
    """Returns a dead letter: its own headers, and the content of the headers that the engine has added."""
    said = {h.name.removeprefix(_PREFIX): h.value.first.decode(errors="replace") for h in preview.headers if _is_added(h.name)}
    own = [header for header in preview.headers if not _is_added(header.name)]
    sequence = said.get("sequence", "")
    letter = DeadLetter(
        pipeline=part.transaction.pipeline,
        batch=part.transaction.batch,
        sink=said.get("sink", ""),
        step=said.get("step", ""),
        reason=said.get("reason", ""),
        stream=said.get("stream", ""),
        sequence=int(sequence) if sequence.isdecimal() and len(sequence) < 20 else None,
        message=preview,
    )
    # The headers of the row; the letter has the message's own sequence.
    letter.message.ClearField("sequence")
    letter.message.headers_in_all -= len(preview.headers) - len(own)
    del letter.message.headers[:]
    letter.message.headers.extend(own)
    return letter


def _is_added(name: str) -> bool:
    return name.startswith(_PREFIX)
