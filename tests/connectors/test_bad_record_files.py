"""The file of dead letters of a source contains whole lines only, whatever its disk does."""

import errno
import os
from pathlib import Path

import pytest
from tests.disks import room

from headrace.connectors.bad_records import BadRecordPolicy, BadRecords
from headrace.sdk import Message


def test_a_dead_letter_that_does_not_fit_leaves_nothing_before_the_next_one(tmp_path: Path) -> None:
    policy = BadRecordPolicy("orders", BadRecords.DEAD_LETTER, tmp_path)
    message, reason = Message(b"a value", sequence=1), ValueError("odd")
    policy.take("0", message, reason)
    (file,) = tmp_path.iterdir()
    first = file.read_bytes()
    for more in range(len(first)):
        with room(len(first) + more), pytest.raises(OSError, match="File too large"):
            policy.take("0", message, reason)
        assert file.read_bytes() == first
    policy.take("0", message, reason)
    assert file.read_bytes() == first * 2
    assert policy.total == 2


def test_a_dead_letter_after_one_that_cannot_be_taken_back_goes_to_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = BadRecordPolicy("orders", BadRecords.DEAD_LETTER, tmp_path)
    message, reason = Message(b"a value", sequence=1), ValueError("odd")
    policy.take("0", message, reason)
    (file,) = tmp_path.iterdir()
    first = file.read_bytes()

    class Stuck:
        """A file whose disk is gone."""

        def write(self, _: memoryview) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        truncate = write

        def tell(self) -> int:
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(policy, "_file", Stuck())
    with pytest.raises(OSError, match="Input/output error"):
        policy.take("0", message, reason)
    policy.take("0", message, reason)
    assert sorted(one.read_bytes() for one in tmp_path.iterdir()) == [first, first]
