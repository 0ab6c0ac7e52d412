"""The file sink crashes at every step: what is committed is visible exactly once, in order, and visible bytes never change."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.crashing_disk import Crashed, CrashingDisk
from tests.fake_gateway.sinks import frame_of

from headrace.connectors import FileSink, Rotation, SinkFormat
from headrace.sdk import Part, Rows, Transaction


class Engine:
    """What Spark and the gateway do: run batches, keep a commit log, and settle what a crash has left open."""

    def __init__(self, folder: Path, batches: int, pipeline: str = "p.1") -> None:
        self.folder = folder
        self.pipeline = pipeline
        self.batches = batches
        self.log: set[int] = set()
        self.confirmed = 0
        """How many batches the sink has said to be visible."""
        self.seen = b""
        self._attempts = itertools.count()

    def run(self, disk: CrashingDisk) -> None:
        """Goes on from whatever there is, to the end."""
        sink = FileSink("s", self.folder, SinkFormat.LINES, rotation=Rotation(bytes=40), disk=disk)
        try:
            found = sink.recover()
            for transaction in {*found.prepared, *(part.transaction for part in found.staged)}:
                if transaction.batch in self.log:
                    self._commit(sink, transaction)
                else:
                    sink.abort(transaction)
            for batch in range(self.batches):
                if batch not in self.log:
                    self._write(sink, Transaction(self.pipeline, batch))
                elif batch >= self.confirmed:
                    self._commit(sink, Transaction(self.pipeline, batch))
        finally:
            sink.close()

    def _write(self, sink: FileSink, transaction: Transaction) -> None:
        """A batch of three tasks, one of them tried twice, and one without rows."""
        parts = [Part(transaction, n, f"try.{next(self._attempts)}") for n in (1, 0, 1, 2)]
        for part in parts:
            sink.stage(part, iter(rows(part)))
        winners = [parts[1], parts[2], parts[3]]
        sink.prepare(transaction, winners)
        self.log.add(transaction.batch)
        self._commit(sink, transaction)

    def _commit(self, sink: FileSink, transaction: Transaction) -> None:
        sink.commit(transaction)
        sink.rotate()
        self.confirmed = max(self.confirmed, transaction.batch + 1)

    def expected(self, batches: int) -> bytes:
        return b"".join(
            value + b"\n"
            for batch in range(batches)
            for n in (0, 1)
            for value in values_of(Part(Transaction(self.pipeline, batch), n, ""))
        )

    def check(self, *, power: bool) -> None:
        """The visible lines are right, also in the middle of everything."""
        seen = visible(self.folder)
        assert self.expected(len(self.log)).startswith(seen)
        assert seen.startswith(self.expected(self.confirmed))
        if not power:
            assert seen.startswith(self.seen)
        self.seen = seen


def values_of(part: Part) -> list[bytes]:
    return [b"%d %d %d" % (part.transaction.batch, part.partition, n) for n in range(2)] if part.partition < 2 else []


def rows(part: Part) -> Iterator[Rows]:
    values = values_of(part)
    for place, value in enumerate(values):
        yield Rows(frame_of([value], first=place))


def visible(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("s-*.lines")))


def crash(engine: Engine, at: int, *, halfway: bool, power: bool) -> bool:
    """Runs until a step; returns False where there is no such step."""
    disk = CrashingDisk(engine.folder, at, halfway=halfway)
    try:
        engine.run(disk)
    except Crashed:
        if power:
            disk.lose_power()
        engine.check(power=power)
        return True
    finally:
        disk.close()
    return False


def finish(engine: Engine) -> None:
    """Goes on to the end, and sees that all is there and nothing is left over."""
    disk = CrashingDisk(engine.folder)
    engine.run(disk)
    disk.close()
    assert visible(engine.folder) == engine.expected(engine.batches)
    sink = FileSink("s", engine.folder, SinkFormat.LINES)
    recovered = sink.recover()
    sink.close()
    assert (recovered.staged, recovered.prepared) == ([], [])
    assert recovered.committed == [Transaction(engine.pipeline, engine.batches - 1)]
    hidden = engine.folder / ".headrace" / "s"
    assert {path.name for path in hidden.rglob("*")} == {"lock", "state.json", "staged"}


def prepared(folder: Path, batches: int, pipeline: str = "p.1") -> Engine:
    """A folder that was used before, so that its own folders are durable."""
    folder.mkdir()
    FileSink("s", folder).close()
    return Engine(folder, batches, pipeline)


CRASHES = pytest.mark.parametrize(
    ("halfway", "power"),
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["killed before", "killed in", "power lost before", "power lost in"],
)


@pytest.mark.each_value
@CRASHES
def test_a_crash_at_every_step(tmp_path, halfway, power):
    for at in itertools.count(1):
        engine = prepared(tmp_path / str(at), 3)
        crashed = crash(engine, at, halfway=halfway, power=power)
        finish(engine)
        if not crashed:
            break
    assert at > 100
    assert len(list((tmp_path / str(at)).glob("s-*"))) > 1


@pytest.mark.each_value
@CRASHES
def test_a_crash_at_every_step_with_names_that_are_too_long_for_files(tmp_path, halfway, power):
    for at in itertools.count(1):
        engine = prepared(tmp_path / str(at), 3, "p" * 255)
        crashed = crash(engine, at, halfway=halfway, power=power)
        finish(engine)
        if not crashed:
            break
    assert at > 100


@pytest.mark.each_value
@CRASHES
def test_a_second_crash_at_every_step_after_the_first(tmp_path, halfway, power):
    names = itertools.count()
    for at in itertools.count(1):
        for again in itertools.count(1):
            engine = prepared(tmp_path / str(next(names)), 1)
            if not crash(engine, at, halfway=halfway, power=power):
                return
            # Far enough to have settled what the first has left, and to have begun anew.
            crashed = again < 20 and crash(engine, again, halfway=halfway, power=power)
            finish(engine)
            if not crashed:
                break


def test_rotation_and_appending_both_happen(tmp_path):
    engine = prepared(tmp_path / "out", 3)
    finish(engine)
    files = sorted(path.name for path in engine.folder.glob("s-*"))
    assert files == ["s-000001.lines", "s-000002.lines"]
