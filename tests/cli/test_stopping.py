"""Queries that are stopped while they start."""

import sys
import threading
import types

import pytest

from headrace.cli.stopping import stopped_while_starting

DEADLINE_S = 60.0


class Query:
    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


class Streams:
    def __init__(self) -> None:
        self.active: list[Query] = []


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """The streams of the session of this process."""
    streams = Streams()
    session = types.SimpleNamespace(streams=streams)
    spark = types.SimpleNamespace(getActiveSession=lambda: None, _instantiatedSession=session)
    monkeypatch.setitem(sys.modules, "pyspark.sql", types.SimpleNamespace(SparkSession=spark))  # type: ignore[arg-type]
    return streams


def test_a_query_that_starts_after_the_request_to_stop_is_stopped_before_its_start_returns(streams: Streams) -> None:
    stop, query = threading.Event(), Query()
    stop.set()
    with stopped_while_starting(stop):
        streams.active.append(query)
        assert query.stopped.wait(DEADLINE_S)


def test_a_query_is_stopped_by_a_request_during_its_start(streams: Streams) -> None:
    stop, query = threading.Event(), Query()
    streams.active.append(query)
    with stopped_while_starting(stop):
        assert not query.stopped.is_set()
        stop.set()
        assert query.stopped.wait(DEADLINE_S)


def test_a_query_that_has_started_is_left_to_who_has_started_it(streams: Streams) -> None:
    stop, query = threading.Event(), Query()
    streams.active.append(query)
    with stopped_while_starting(stop):
        pass
    stop.set()
    assert not query.stopped.is_set()
