"""Connectors that Python's SDK serves: sources and sinks in memory, as scripts declare them."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.sdk import (
    WRITTEN,
    IdempotentSink,
    Message,
    Outcomes,
    Part,
    Position,
    PositionLost,
    Recovered,
    Refused,
    Rows,
    Sink,
    Source,
    SourceKind,
    Transaction,
    TwoPhaseSink,
)


def _bytes(written: str | None) -> bytes | None:
    return None if written is None else bytes.fromhex(written)


class ScriptSource(Source):
    """A source with the messages of a script."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self.name = declared["name"]
        self.kind = SourceKind(declared["kind"])
        self.chooses_start = "starts" in declared
        self.settled: list[str] = []
        self._starts = {partition: Position(sequence=int(sequence)) for partition, sequence in declared.get("starts", {}).items()}
        self._partitions = declared["partitions"]
        self._messages = {name: [self._message(each) for each in of["messages"]] for name, of in self._partitions.items()}

    def append(self, messages: dict[str, list[dict[str, Any]]]) -> None:
        """More messages have appeared."""
        for partition, more in messages.items():
            self._messages[partition] += [self._message(each) for each in more]

    def partitions(self) -> Sequence[str]:
        return list(self._partitions)

    def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        return {partition: self._starts[partition] for partition in partitions}

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        messages, of = self._messages[partition], self._partitions[partition]
        first = messages[0].sequence if messages else None
        if of.get("pruned") and position is not None and first is not None and position.sequence < first - 1:
            raise PositionLost("pruned", earliest=first)
        at = 0
        while True:
            while at < len(messages):
                at += 1
                message = messages[at - 1]
                waits = self.kind is SourceKind.REDELIVERING and message.token not in self.settled
                follows = self.kind is SourceKind.RESUMABLE and (message.cursor or b"") > ((position and position.cursor) or b"")
                if (
                    waits
                    or follows
                    or (message.sequence is not None and (position is None or message.sequence > position.sequence))
                ):
                    yield message
            if of["then"] == "ends":
                return
            yield None

    def settle(self, partition: str, tokens: Sequence[object]) -> None:
        self.settled += map(str, tokens)

    def _message(self, written: dict[str, Any]) -> Message:
        redelivering = self.kind is SourceKind.REDELIVERING
        counted = self.kind is not SourceKind.REPLAYABLE
        time = written.get("event_time")
        return Message(
            value=_bytes(written["value"]),
            key=_bytes(written.get("key")),
            event_time=None if time is None else int(time),
            sequence=None if counted else int(written["sequence"]),
            message_id=written.get("message_id"),
            headers=[(name, _bytes(value)) for name, value in written["headers"]] if "headers" in written else None,
            cursor=_bytes(written.get("cursor")),
            token=written["value"] if redelivering else None,
        )


class _Memory:
    """The refusals of a sink in memory, and its content."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self.name = declared["name"]
        self.visible: list[str | None] = []
        self._refuses = declared.get("refuses", ())
        self._fails_on = declared.get("fails_on", ())
        self._lock = threading.Lock()

    def _take(self, rows: Iterator[Rows]) -> tuple[list[str | None], Outcomes]:
        """The values that are accepted, and the outcome of each message."""
        values = [None if row.value is None else row.value.hex() for some in rows for row in some.messages()]
        if any(value in self._fails_on for value in values):
            raise OSError("the disk is full")
        outcomes = [Refused("as the script says") if value in self._refuses else WRITTEN for value in values]
        return [value for value in values if value not in self._refuses], outcomes


class ScriptTwoPhaseSink(_Memory, TwoPhaseSink):
    """Stages, and shows what is committed."""

    def __init__(self, declared: dict[str, Any]) -> None:
        super().__init__(declared)
        self._parts: dict[Part, list[str | None]] = {}
        self._prepared: set[Transaction] = set()
        self._committed: dict[str, int] = {}

    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        values, outcomes = self._take(rows)
        with self._lock:
            self._parts[part] = values
        return outcomes

    def drop(self, part: Part) -> None:
        with self._lock:
            self._parts.pop(part, None)

    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        if missing := [part for part in parts if part not in self._parts]:
            raise LookupError(f"{missing} are not here")
        self._keep(transaction, parts)
        self._prepared.add(transaction)

    def commit(self, transaction: Transaction) -> None:
        if transaction in self._prepared:
            for part in sorted(part for part in self._parts if part.transaction == transaction):
                self.visible += self._parts[part]
            self.abort(transaction)
            self._committed[transaction.pipeline] = transaction.batch
        elif self._committed.get(transaction.pipeline, -1) < transaction.batch:
            raise LookupError(f"{transaction} is not here")

    def abort(self, transaction: Transaction) -> None:
        self._prepared.discard(transaction)
        self._keep(transaction, ())

    def recover(self) -> Recovered:
        committed = [Transaction(*last) for last in self._committed.items()]
        return Recovered(sorted(self._parts), sorted(self._prepared), committed)

    def _keep(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        with self._lock:
            self._parts = {p: values for p, values in self._parts.items() if p.transaction != transaction or p in parts}


class ScriptIdempotentSink(_Memory, IdempotentSink):
    """Writes each transaction once."""

    def __init__(self, declared: dict[str, Any]) -> None:
        super().__init__(declared)
        self._written: set[Transaction] = set()

    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> Outcomes:
        values, _ = self._take(rows)
        if transaction not in self._written:
            self.visible += values
            self._written.add(transaction)
        return None


class ScriptSink(_Memory, Sink):
    """Writes at once."""

    def write(self, rows: Rows) -> Outcomes:
        values, outcomes = self._take(iter([rows]))
        self.visible += values
        return outcomes


SINKS = {"two_phase": ScriptTwoPhaseSink, "batch_idempotent": ScriptIdempotentSink, "at_least_once": ScriptSink}
