"""A source that is asked for a time is closed however it answers, in the loop of its calls if it is asynchronous."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.connectors import Implementation, Parameters
from headrace.connectors_cli import time_index
from headrace.connectors_cli.time_index import positions_at
from headrace.sdk import AsyncSource, HeadraceError, Message, Position, Source
from headrace.terminal import Failure

TIME = datetime(2026, 1, 31, tzinfo=UTC)


class Times(Parameters):
    source: str = "s"
    start: str = ""


class Log(Source):
    name = "s"
    chooses_start = True

    def __init__(self) -> None:
        self.closed = 0

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def starts(self, partitions: Sequence[str]) -> Mapping[str, Position | None]:
        return {partition: Position(sequence=7) for partition in partitions}

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        yield Message(b"x", sequence=1)

    def close(self) -> None:
        self.closed += 1


class AsyncLog(AsyncSource):
    name = "s"
    chooses_start = True

    def __init__(self) -> None:
        self.closed = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def partitions(self) -> Sequence[str]:
        self._loop = asyncio.get_running_loop()
        return ["0"]

    async def starts(self, partitions: Sequence[str]) -> Mapping[str, Position | None]:
        return {partition: Position(sequence=7) for partition in partitions}

    async def read(self, partition: str, position: Position | None) -> Any:
        yield Message(b"x", sequence=1)

    async def close(self) -> None:
        assert self._loop in (None, asyncio.get_running_loop())
        self.closed += 1


def asked(source: Any) -> dict[str, Position | None]:
    return dict(positions_at("log", Implementation(Times, lambda parameters: source), Times(), TIME).positions)


LOGS = pytest.mark.parametrize("log", [Log, AsyncLog])


@LOGS
def test_a_source_that_has_found_a_time_is_closed(log: Any) -> None:
    source = log()
    assert asked(source) == {"s/0": Position(sequence=7)}
    assert source.closed == 1


@LOGS
def test_a_source_that_cannot_find_a_time_is_closed(log: Any) -> None:
    source = log()
    source.chooses_start = False
    with pytest.raises(Failure, match="log cannot find a time"):
        asked(source)
    assert source.closed == 1


@LOGS
def test_a_source_that_fails_is_closed(log: Any) -> None:
    def fail(partitions: Sequence[str]) -> Any:
        raise HeadraceError("no such log")

    source = log()
    source.starts = fail
    with pytest.raises(Failure, match="no such log"):
        asked(source)
    assert source.closed == 1


def test_a_source_that_does_not_close_keeps_no_answer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_index, "_CLOSE_S", 0.05)
    source = AsyncLog()
    source.close = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    assert asked(source) == {"s/0": Position(sequence=7)}
