"""`headrace bench sdks` has the figures of a program as soon as it has run, and begins no further one when its time is over."""

import time
from collections.abc import Sequence

import pytest

from headrace.laboratory.bench.figures import Progress
from headrace.laboratory.bench.sdks import run as sdks
from headrace.laboratory.bench.sdks.measure import Measured

PROGRAMS = {"python": ["python"], "go": ["go"], "rust": ["rust"]}
ORDER = ["python_messages", "go_messages", "rust_messages", "python_batches"]


class Programs:
    """Programs that are not run: each is twice as fast as the one before it."""

    def __init__(self, progress: Progress) -> None:
        self.seen: list[list[str]] = []
        """Which figures there were when each program began."""
        self._progress = progress

    def measure(self, language: str, command: Sequence[str], total: int, *arguments: str, every_s: float = 0.0) -> Measured:
        self.seen.append([figure.name for figure in self._progress.figures if figure.name in ORDER])
        return Measured(100.0 * 2 ** len(self.seen), 1.0, 0.5, 0.5, 10.0, {"ack_p50_ms": 5.0})


def run(progress: Progress, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(progress)
    monkeypatch.setattr(sdks, "build", lambda languages, say: ({name: PROGRAMS[name] for name in languages}, {}))
    monkeypatch.setattr(sdks, "measure", programs.measure)
    sdks.run(list(PROGRAMS), True, progress)
    return programs


def test_each_program_has_its_figures_before_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(lambda line: None)
    programs = run(progress, monkeypatch)
    speeds = programs.seen[: len(ORDER)]
    assert speeds == [ORDER[:count] for count in range(len(ORDER))]
    figures = {figure.name: figure for figure in progress.figures}
    assert figures["rust_messages"].baseline == figures["python_messages"].value
    assert figures["go_ack_p50"].baseline == figures["python_ack_p50"].value
    assert progress.not_begun == []


def test_the_first_round_is_due_however_long_the_builds_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(lambda line: None, ends_at=time.monotonic())
    run(progress, monkeypatch)
    assert [figure.name for figure in progress.figures if figure.name in ORDER] == ORDER


def test_no_program_begins_once_the_first_round_takes_too_long_and_those_left_out_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sdks, "_FIRST_ROUND_S", -1.0)
    progress = Progress(lambda line: None, ends_at=time.monotonic())
    run(progress, monkeypatch)
    assert progress.not_begun == ORDER
    assert not [figure for figure in progress.figures if figure.name in ORDER]
