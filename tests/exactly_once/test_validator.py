"""The validator finds each kind of violation in a folder made by hand, and nothing in a right one."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headrace.laboratory.chaos import IDEMPOTENT, TWO_PHASE, Finding, Layout, verdict
from headrace.laboratory.chaos.workload import STREAMS, TIMERS, WINDOWS, Row, State, due, model

OFFERED = 40
BATCH = 3
LOG = "replayable/4"
QUEUE = "redelivering/0"


@dataclass
class Story:
    """The traces of a world, to be told again with a fault in them."""

    rows: dict[str, list[Row]]
    given: list[int] = field(default_factory=lambda: list(range(1, OFFERED + 1)))
    acks: list[tuple[str, str, tuple[int, int], dict[str, tuple[int, int] | None]]] = field(default_factory=list)
    watched: list[tuple[int, int | None]] = field(default_factory=list)
    beside: list[Row] = field(default_factory=list)
    """What the second instance of the two-phase sink shows; it is not there where that is nothing."""

    @classmethod
    def right(cls) -> "Story":
        """Everything is as it should be."""
        rows = [
            Row(stream, name, sent.key, BATCH, state, sent.value)
            for stream in STREAMS
            for name, sent, state in model(stream, OFFERED)
        ]
        timed = [
            Row(kind, name, key, BATCH, state, b"")
            for stream in STREAMS
            if stream.startswith("replayable")
            for kind, name, key, state in due(stream, OFFERED)
        ]
        acks = [("replayable", LOG, (0, 7), {TWO_PHASE: (0, 7), IDEMPOTENT: (0, 9)})]
        return cls({TWO_PHASE: [*rows, *timed], IDEMPOTENT: rows[:]}, acks=acks, watched=[(BATCH, BATCH)])

    def place(self, sink: str, stream: str, nth: int) -> int:
        """Where the n-th row of a stream is among the rows of a sink."""
        return [place for place, row in enumerate(self.rows[sink]) if row.stream == stream][nth]

    def change(self, sink: str, stream: str, nth: int, how: Callable[[Row], Row]) -> Row:
        """Changes a row; returns it as it was."""
        place = self.place(sink, stream, nth)
        before = self.rows[sink][place]
        self.rows[sink][place] = how(before)
        return before

    def tell(self, folder: Path) -> list[Finding]:
        """Writes everything down, and has it judged."""
        layout = Layout(folder)
        layout.output.mkdir()
        records = [row.encode() for row in self.rows[TWO_PHASE]]
        framed = b"".join(len(record).to_bytes(4, "big") + record for record in records)
        # A file that is complete ends with a record; the last one may be growing.
        middle = sum(4 + len(record) for record in records[: len(records) // 2])
        (layout.output / "two-phase-000001.bin").write_bytes(framed[:middle])
        (layout.output / "two-phase-000002.bin").write_bytes(framed[middle:] + (1000).to_bytes(4, "big") + b"half a rec")
        if self.beside:
            layout.output_of(2).mkdir()
            others = [row.encode() for row in self.beside]
            framed = b"".join(len(record).to_bytes(4, "big") + record for record in others)
            (layout.output_of(2) / "two-phase-000001.bin").write_bytes(framed)
        with closing(sqlite3.connect(layout.store)) as store, store:
            store.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, key BLOB, value BLOB)")
            rows = [(row.key, row.encode()) for row in self.rows[IDEMPOTENT]]
            store.executemany("INSERT INTO rows (key, value) VALUES (?, ?)", rows)
        entries: dict[Path, list[object]] = {layout.journal("redelivering"): [], layout.journal("replayable"): []}
        entries[layout.journal("redelivering")] += [{"stream": QUEUE, "given": number} for number in self.given]
        for source, stream, acked, committed in self.acks:
            entries[layout.journal(source)].append({"stream": stream, "acked": acked, "committed": committed})
        entries[layout.watched] = [{"visible": batch, "committed": last} for batch, last in self.watched]
        for path, lines in entries.items():
            path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half a li')
        return verdict(folder, OFFERED)


@pytest.fixture
def story() -> Story:
    return Story.right()


def _key(row: Row) -> str:
    return row.key.decode()


def test_a_right_world_passes(story: Story, tmp_path: Path) -> None:
    assert story.tell(tmp_path) == []


def test_what_two_instances_show_belongs_together_by_its_batches(story: Story, tmp_path: Path) -> None:
    for stream in STREAMS:
        for _ in range(OFFERED // 2):
            first = story.rows[TWO_PHASE].pop(story.place(TWO_PHASE, stream, 0))
            story.beside.append(replace(first, batch=BATCH - 1))
    assert story.tell(tmp_path) == []


def test_an_instance_that_shows_a_batch_too_late_is_found(story: Story, tmp_path: Path) -> None:
    first = story.rows[TWO_PHASE].pop(story.place(TWO_PHASE, LOG, 0))
    last = story.rows[TWO_PHASE].pop(story.place(TWO_PHASE, LOG, -1))
    story.beside += [last, replace(first, batch=BATCH - 1)]
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.name) == ("out of order", TWO_PHASE, first.name)
    assert f"it comes after batch {BATCH}" in str(finding)


@pytest.mark.parametrize("sink", [TWO_PHASE, IDEMPOTENT])
@pytest.mark.parametrize("stream", [LOG, QUEUE])
def test_a_lost_message_is_found(story: Story, tmp_path: Path, sink: str, stream: str) -> None:
    lost = story.rows[sink].pop(story.place(sink, stream, -1))
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.stream) == ("lost", sink, stream)
    assert (finding.key, finding.name) == (_key(lost), lost.name)


@pytest.mark.parametrize(("sink", "stream"), [(TWO_PHASE, LOG), (IDEMPOTENT, LOG), (TWO_PHASE, QUEUE), (IDEMPOTENT, QUEUE)])
def test_a_doubled_message_is_found(story: Story, tmp_path: Path, sink: str, stream: str) -> None:
    place = story.place(sink, stream, 5)
    story.rows[sink].insert(place, story.rows[sink][place])
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.name) == ("doubled", sink, story.rows[sink][place].name)
    assert "2 times, from batches [3], should be 1" in str(finding)


def test_a_batch_that_is_visible_twice_is_found(story: Story, tmp_path: Path) -> None:
    story.rows[IDEMPOTENT] += [row for row in story.rows[IDEMPOTENT] if row.stream == LOG]
    findings = story.tell(tmp_path)
    assert [finding.what for finding in findings].count("doubled") == OFFERED


def test_what_the_queue_gave_twice_may_be_twice_in_the_idempotent_sink_and_not_in_the_other(story: Story, tmp_path: Path) -> None:
    story.given.append(6)
    for sink in (TWO_PHASE, IDEMPOTENT):
        row = next(row for row in story.rows[sink] if row.name == "m6")
        # An earlier run of its batch, when less was known of the key.
        story.rows[sink].insert(story.place(sink, QUEUE, 0), replace(row, batch=BATCH - 1, state=State().after(row.value)))
    assert [(f.what, f.where, f.name) for f in story.tell(tmp_path)] == [("doubled", TWO_PHASE, "m6")]


@pytest.mark.parametrize("sink", [TWO_PHASE, IDEMPOTENT])
def test_messages_of_a_key_in_another_order_are_found(story: Story, tmp_path: Path, sink: str) -> None:
    places = [place for place, row in enumerate(story.rows[sink]) if row.stream == LOG]
    key = story.rows[sink][places[0]].key
    first, second = [place for place in places if story.rows[sink][place].key == key][:2]
    rows = story.rows[sink]
    rows[first], rows[second] = rows[second], rows[first]
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.key) == ("out of order", sink, key.decode())


def test_other_keys_and_streams_may_come_in_any_order(story: Story, tmp_path: Path) -> None:
    story.rows[TWO_PHASE].sort(key=lambda row: row.key, reverse=True)
    assert story.tell(tmp_path) == []


@pytest.mark.parametrize("stream", [LOG, QUEUE])
def test_one_altered_bit_is_found(story: Story, tmp_path: Path, stream: str) -> None:
    before = story.change(TWO_PHASE, stream, -1, lambda row: replace(row, value=bytes([row.value[0] ^ 1]) + row.value[1:]))
    findings = story.tell(tmp_path)
    assert ("altered", before.name) in [(finding.what, finding.name) for finding in findings]
    assert any(repr(before.value) in finding.detail for finding in findings)


def test_another_key_is_found(story: Story, tmp_path: Path) -> None:
    before = story.change(IDEMPOTENT, LOG, -1, lambda row: replace(row, key=b"another"))
    findings = story.tell(tmp_path)
    assert [(finding.what, finding.name) for finding in findings] == [("altered", before.name)]


def test_what_nobody_sent_is_found(story: Story, tmp_path: Path) -> None:
    row = story.rows[TWO_PHASE][0]
    story.rows[TWO_PHASE] += [replace(row, name="8"), replace(row, stream="elsewhere/0")]
    findings = [finding for finding in story.tell(tmp_path) if finding.what == "never sent"]
    assert [(finding.stream, finding.name) for finding in findings] == [("replayable/0", "8"), ("elsewhere/0", "1")]


def test_a_record_that_is_no_row_is_found(story: Story, tmp_path: Path) -> None:
    class Garbage(Row):
        def encode(self) -> bytes:
            return b"\xff garbage"

    story.change(TWO_PHASE, LOG, -1, lambda row: Garbage(**{name: getattr(row, name) for name in Row.__slots__}))
    assert {finding.what for finding in story.tell(tmp_path)} == {"altered", "lost"}


@pytest.mark.parametrize("sink", [TWO_PHASE, IDEMPOTENT])
@pytest.mark.parametrize("stream", [LOG, QUEUE])
def test_a_lost_update_of_the_state_is_found(story: Story, tmp_path: Path, sink: str, stream: str) -> None:
    places = [place for place, row in enumerate(story.rows[sink]) if row.stream == stream]
    key = story.rows[sink][places[0]].key
    before, _, *after = [place for place in places if story.rows[sink][place].key == key]
    state = story.rows[sink][before].state
    for place in after:
        row = story.rows[sink][place]
        state = state.after(row.value)
        story.rows[sink][place] = replace(row, state=state)
    findings = story.tell(tmp_path)
    assert {(finding.what, finding.where, finding.key) for finding in findings} == {("wrong state", sink, key.decode())}
    assert findings[0].name == story.rows[sink][after[0]].name


@pytest.mark.parametrize("kind", [WINDOWS, TIMERS])
def test_a_window_or_a_timer_that_is_lost_or_doubled_or_wrong_is_found(story: Story, tmp_path: Path, kind: str) -> None:
    rows = story.rows[TWO_PHASE]
    lost = rows.pop(story.place(TWO_PHASE, kind, 3))
    doubled = rows[story.place(TWO_PHASE, kind, 5)]
    rows.append(doubled)
    before = story.change(TWO_PHASE, kind, 7, lambda row: replace(row, state=State(row.state.count + 1, 0)))
    findings = story.tell(tmp_path)
    assert {(finding.what, finding.where, finding.stream) for finding in findings} == {("wrong state", TWO_PHASE, kind)}
    assert sorted(finding.name for finding in findings) == sorted([lost.name, doubled.name, before.name, before.name])


@pytest.mark.parametrize("behind", [(0, 6), None])
def test_an_acknowledgement_ahead_of_a_commit_is_found(story: Story, tmp_path: Path, behind: tuple[int, int] | None) -> None:
    story.acks.append(("replayable", LOG, (0, 7), {TWO_PHASE: (0, 7), IDEMPOTENT: behind}))
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.stream) == ("acknowledged before it was committed", "replayable", LOG)
    assert "query idempotent had committed" in finding.detail


def test_an_acknowledgement_of_a_newer_epoch_is_ahead_of_any_older_one(story: Story, tmp_path: Path) -> None:
    story.acks.append(("redelivering", QUEUE, (2, 1), {TWO_PHASE: (1, 30), IDEMPOTENT: (2, 4)}))
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.name) == ("acknowledged before it was committed", "1")


@pytest.mark.parametrize("last", [BATCH, None])
def test_a_batch_that_is_visible_before_its_commit_is_found(story: Story, tmp_path: Path, last: int | None) -> None:
    story.watched.append((BATCH + 1, last))
    (finding,) = story.tell(tmp_path)
    assert (finding.what, finding.where, finding.name) == ("visible before it was committed", TWO_PHASE, f"batch {BATCH + 1}")
