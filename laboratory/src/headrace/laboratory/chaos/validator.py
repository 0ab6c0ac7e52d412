"""Compares the content of the sinks with what was sent. It imports nothing of the product, and only reads files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headrace.laboratory.chaos.evidence import IDEMPOTENT, SINKS, TWO_PHASE, JournalReader, Layout, VisibleRecords, stored_records
from headrace.laboratory.chaos.workload import (
    REDELIVERING,
    REPLAYABLE,
    STREAMS,
    TIMERS,
    WINDOWS,
    Content,
    Row,
    State,
    due,
    message_id,
    model,
)

LOST = "lost"
DOUBLED = "doubled"
REORDERED = "out of order"
ALTERED = "altered"
FOREIGN = "never sent"
WRONG_STATE = "wrong state"
ACKED_EARLY = "acknowledged before it was committed"
VISIBLE_EARLY = "visible before it was committed"


@dataclass(frozen=True)
class Finding:
    """A violation of a guarantee.

    Attributes:
        what: The violation; one of the constants above.
        where: The sink, or the source for an acknowledgement.
        stream: The stream; empty if the finding concerns the entire sink.
        key: The message's key; empty if the finding concerns no message.
        name: The message's sequence, or its id for a redelivering source; the batch for a finding about a batch.
        detail: The actual and the expected result.
    """

    what: str
    where: str
    stream: str
    key: str
    name: str
    detail: str

    def __str__(self) -> str:
        place = " ".join(part for part in (self.where, self.stream, self.key and f"key {self.key}", self.name) if part)
        return f"{self.what}: {place}: {self.detail}"


def verdict(folder: Path, offered: int) -> list[Finding]:
    """Returns the violations in the folder of a world whose senders have each sent `offered` messages, all visible by now."""
    layout = Layout(folder)
    rows: dict[str, list[Row]] = {}
    findings: list[Finding] = []
    for sink in SINKS:
        rows[sink], unreadable = _rows(layout, sink)
        findings += unreadable
    given = _given(layout)
    for sink, of_sink in rows.items():
        by_stream: dict[str, list[Row]] = defaultdict(list)
        for row in of_sink:
            by_stream[row.stream].append(row)
        for stream in STREAMS:
            expected = list(model(stream, offered))
            if stream.startswith(REPLAYABLE):
                findings += check_replayable(sink, stream, by_stream.pop(stream, []), expected)
            else:
                allowed = given if sink == IDEMPOTENT else Counter()
                findings += _redelivering(sink, stream, by_stream.pop(stream, []), expected, allowed)
        if sink == TWO_PHASE:
            findings += _due(sink, [*by_stream.pop(WINDOWS, []), *by_stream.pop(TIMERS, [])], offered)
        findings += [_finding(FOREIGN, sink, row, "there is no such stream") for rest in by_stream.values() for row in rest]
    findings += _early_acks(layout)
    findings += _early_batches(layout)
    return findings


def _rows(layout: Layout, sink: str) -> tuple[list[Row], list[Finding]]:
    """Returns the rows of a sink in the order in which they became visible, and findings for invalid records."""
    if sink == IDEMPOTENT:
        return _decoded(sink, [(key, value) for _, key, value in stored_records(layout.store)])
    rows, findings = list[Row](), list[Finding]()
    instances = [_decoded(sink, [(None, value) for value in VisibleRecords(folder).new()]) for folder in layout.outputs()]
    for of_instance, unreadable in instances:
        rows += of_instance
        findings += unreadable
    if len(instances) > 1:
        # Each instance shows its batches in order, and the rows of one key in a batch are in one instance.
        for of_instance, _ in instances:
            steps = ((before, after) for before, after in pairwise(of_instance) if before.batch > after.batch)
            findings += [_finding(REORDERED, sink, after, f"it comes after batch {before.batch}") for before, after in steps]
        rows.sort(key=lambda row: row.batch)
    return rows, findings


def _decoded(sink: str, records: Iterable[tuple[bytes | None, bytes]]) -> tuple[list[Row], list[Finding]]:
    """Returns the rows of records, and findings for invalid records."""
    rows, findings = [], []
    for place, (key, value) in enumerate(records):
        try:
            row = Row.decode(value)
        except ValueError as error:
            findings.append(Finding(ALTERED, sink, "", "", f"record {place}", str(error)))
            continue
        rows.append(row)
        if key is not None and key != row.key:
            findings.append(_finding(ALTERED, sink, row, f"it was written with the key {key!r}"))
    return rows, findings


def _given(layout: Layout) -> Counter[str]:
    """Returns how often the queue has delivered each message."""
    entries = JournalReader(layout.journal(REDELIVERING)).new()
    return Counter(message_id(entry["given"]) for entry in entries if "given" in entry)


Expected = Sequence[tuple[str, Content, State]]


def check_replayable(sink: str, stream: str, rows: Sequence[Row], expected: Expected) -> Iterator[Finding]:
    """Checks that every message is there once, byte for byte, in the order of its key, with the state of the model."""
    yield from _contents(sink, stream, rows, expected)
    yield from _copies(sink, rows, Counter())
    states = {name: state for name, _, state in expected}
    for row in rows:
        if row.name in states and row.state != states[row.name]:
            yield _finding(WRONG_STATE, sink, row, f"{row.state}, should be {states[row.name]}")
    first = {row.name: row for row in reversed(rows)}
    for of_key in _by_key(row for row in rows if row.name in states and first[row.name] is row):
        for before, after in pairwise(of_key):
            if int(before.name) > int(after.name):
                yield _finding(REORDERED, sink, after, f"it comes after {before.name}")


def _redelivering(sink: str, stream: str, rows: Sequence[Row], expected: Expected, given: Counter[str]) -> Iterator[Finding]:
    """Checks that every message is there, byte for byte, at most as often as it was delivered, and that states are consistent.

    The order is not guaranteed. If a message is there several times, a run of a batch that was superseded wrote it: the state
    includes the last one.
    """
    yield from _contents(sink, stream, rows, expected)
    yield from _copies(sink, rows, given)
    last = {row.name: row for row in rows}
    for of_key in _by_key(row for row in rows if last[row.name] is row):
        before = State()
        for row in of_key:
            if row.state != (state := before.after(row.value)):
                yield _finding(WRONG_STATE, sink, row, f"{row.state}, should be {state}")
            before = row.state


def _due(sink: str, rows: Sequence[Row], offered: int) -> Iterator[Finding]:
    """Checks that every closed window and every fired timer is there once, with the state of the model, and no others."""
    right = Counter(result for stream in STREAMS if stream.startswith(REPLAYABLE) for result in due(stream, offered))
    found = Counter((row.stream, row.name, row.key, row.state) for row in rows)
    for wrong, detail in (right - found, "is due, and is not there"), (found - right, "is there, and not due"):
        for stream, name, key, state in wrong:
            yield Finding(WRONG_STATE, sink, stream, key.decode(errors="replace"), name, f"{state} {detail}")


def _contents(sink: str, stream: str, rows: Sequence[Row], expected: Expected) -> Iterator[Finding]:
    """Finds messages that are missing, were never sent, or were altered."""
    sent = {name: content for name, content, _ in expected}
    found = {row.name for row in rows}
    for name, content, _ in expected:
        if name not in found:
            yield Finding(LOST, sink, stream, content.key.decode(), name, "it was sent, and is not there")
    for row in rows:
        if row.name not in sent:
            yield _finding(FOREIGN, sink, row, "nothing of this name was sent")
        elif Content(row.key, row.value) != (content := sent[row.name]):
            yield _finding(ALTERED, sink, row, f"{row.value!r}, should be {content.value!r} with the key {content.key!r}")


def _copies(sink: str, rows: Sequence[Row], allowed: Counter[str]) -> Iterator[Finding]:
    """Finds messages that are there more often than allowed."""
    first = {row.name: row for row in reversed(rows)}
    for name, copies in Counter(row.name for row in rows).items():
        most = max(1, allowed[name])
        if copies > most:
            batches = sorted({row.batch for row in rows if row.name == name})
            yield _finding(DOUBLED, sink, first[name], f"{copies} times, from batches {batches}, should be {most}")


def _early_acks(layout: Layout) -> Iterator[Finding]:
    """Finds acknowledgements that were ahead of a query's commit log when they arrived."""
    for source in (REPLAYABLE, REDELIVERING):
        for entry in JournalReader(layout.journal(source)).new():
            if "acked" not in entry:
                continue
            for query, position in entry["committed"].items():
                if position is None or tuple(position) < tuple(entry["acked"]):
                    where, (epoch, sequence) = f"{position[1]} of epoch {position[0]}" if position else "nothing", entry["acked"]
                    detail = f"epoch {epoch}; query {query} had committed {where} then"
                    yield Finding(ACKED_EARLY, source, entry["stream"], "", str(sequence), detail)


def _early_batches(layout: Layout) -> Iterator[Finding]:
    """Finds batches of the two-phase sink that were visible before they were in the commit log."""
    for entry in JournalReader(layout.watched).new():
        batch, last = entry["visible"], entry["committed"]
        if last is None or batch > last:
            yield Finding(VISIBLE_EARLY, TWO_PHASE, "", "", f"batch {batch}", f"the last one in commits/ was {last}")


def _finding(what: str, sink: str, row: Row, detail: str) -> Finding:
    """Returns a finding about a row."""
    return Finding(what, sink, row.stream, row.key.decode(errors="replace"), row.name, detail)


def _by_key(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yields the rows of each key, in their order."""
    keys: dict[bytes, list[Row]] = defaultdict(list)
    for row in rows:
        keys[row.key].append(row)
    return iter(keys.values())
