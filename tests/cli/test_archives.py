"""`headrace run` starts to archive Spark's classes, once, when the first micro-batch is committed."""

from types import SimpleNamespace
from typing import Any

import pytest

import headrace.preparation
from headrace.cli.prepare import Archives


def test_the_archive_waits_for_the_first_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []
    monkeypatch.setattr(headrace.preparation, "prepare_in_background", began.append)
    query: Any = SimpleNamespace(lastProgress=None)
    archives = Archives("local[2]")
    archives.look(query)
    assert began == []
    query.lastProgress = object()
    for _ in range(3):
        archives.look(query)
    assert began == ["local[2]"]
