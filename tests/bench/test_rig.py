"""What a benchmark learns from a connector: its measurements, and the rate of its acknowledgements."""

import subprocess
import sys
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.rig import RunningConnector, acknowledged_rate
from headrace.laboratory.bench.sources import Acknowledgements


def test_the_rate_counts_after_the_first_quarter() -> None:
    assert acknowledged_rate([(10.0, 0), (20.0, 100), (21.0, 250), (22.0, 400)]) == 150


def test_a_single_acknowledgement_counts_from_the_first_message() -> None:
    assert acknowledged_rate([(10.0, 0), (14.0, 400)]) == 100


def test_the_beginning_is_recorded_once() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin()
    acknowledgements.note(5)
    acknowledgements.begin()
    assert [messages for _, messages in acknowledgements.moments] == [0, 5]


class FailedQuery:
    """Stands for a query that has failed."""

    def exception(self) -> Exception:
        return ValueError("a function of the application failed")


def test_a_connector_is_not_waited_for_once_its_query_has_failed() -> None:
    waiting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdout=subprocess.PIPE)
    try:
        with pytest.raises(ValueError, match="a function of the application failed"):
            RunningConnector(waiting).result(timeout_s=200, query=cast(StreamingQuery, FailedQuery()))
    finally:
        waiting.kill()
        waiting.wait()


def test_the_measurements_of_a_connector_are_what_it_prints() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "print('{\"messages\": 3}')"], stdout=subprocess.PIPE)
    assert RunningConnector(ended).result(timeout_s=60) == {"messages": 3}
