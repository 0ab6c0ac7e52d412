"""The file sink on a disk that is full for a while: at any step, and once there is room, the same process continues."""

import errno
import itertools
import os
from collections.abc import Callable

import pytest
from tests.connectors.crashing_disk import CrashingDisk
from tests.connectors.test_file_sink_crashes import Engine, finish, prepared, rows

from headrace.connectors import FileSink, Rotation, SinkFormat
from headrace.sdk import Part, Transaction

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES)


class FullDisk(CrashingDisk):
    """Has no room at a step, and at some after it; of a write, the first half has room."""

    def __init__(self, root, at: int, steps: int, error: int) -> None:
        super().__init__(root)
        self._full = range(at, at + steps)
        self._error = error

    def remove(self, path):
        # Needs no room.
        return super(CrashingDisk, self).remove(path)

    def _step(self, do, *arguments, instead=None):
        self.steps += 1
        if self.steps not in self._full:
            return do(*arguments)
        if instead is not None:
            instead()
        raise OSError(self._error, os.strerror(self._error))


class PatientEngine(Engine):
    """Tries again what fails, with the same sink: as the gateway and Spark do."""

    failures = 0

    def run(self, disk: CrashingDisk) -> None:
        sink = FileSink("s", self.folder, SinkFormat.LINES, rotation=Rotation(bytes=40), disk=disk)
        try:
            self._tried(sink.recover)
            for batch in [batch for batch in range(self.batches) if batch not in self.log]:
                self._write(sink, Transaction(self.pipeline, batch))
        finally:
            sink.close()

    def _write(self, sink: FileSink, transaction: Transaction) -> None:
        winners = []
        for number in (0, 1, 2):
            while True:
                part = Part(transaction, number, f"try.{next(self._attempts)}")
                try:
                    sink.stage(part, iter(rows(part)))
                except OSError:
                    self.failures += 1
                    sink.drop(part)
                else:
                    break
            winners.append(part)
        self._tried(lambda: sink.prepare(transaction, winners))
        self.log.add(transaction.batch)
        self._tried(lambda: sink.commit(transaction))
        self._tried(sink.rotate)
        self.confirmed = max(self.confirmed, transaction.batch + 1)
        self.check(power=False)

    def _tried(self, call: Callable[[], object]) -> None:
        for _ in range(20):
            try:
                call()
            except OSError:
                self.failures += 1
                self.check(power=False)
            else:
                return
        raise AssertionError("it fails although there is room")


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.behaviour(
    "file",
    "a full disk, inodes, a quota or a permission that lack, at the sink",
    "fails the part, vote or commit, shows nothing twice, and continues once it can",
)
def test_a_disk_that_is_full_for_a_while_at_any_step(tmp_path, steps):
    for at in itertools.count(1):
        engine = prepared(tmp_path / str(at), 2)
        engine = PatientEngine(engine.folder, 2)
        disk = FullDisk(engine.folder, at, steps, ERRORS[at % 3])
        engine.run(disk)
        disk.close()
        finish(engine)
        if not engine.failures:
            break
    assert at > 40
