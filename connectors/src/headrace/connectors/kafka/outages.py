"""An outage of the brokers, as the sink meets it: it reports that it waits, and tries again for a limited time."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from headrace.connectors.kafka._errors import KafkaAway, why_unreachable
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.retry import FIRST_S, MAX_BACKOFF_S, ThrottledLog, gave_up
from headrace.connectors.waiting import Reporting, goes_on
from headrace.contract.backoff import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")
_PART = "brokers"
_LOOK_S = 1.0
"""How long work takes before somebody looks whether brokers answer, and how long after that again, in seconds."""


class Outages:
    """The rules of the sink for the time in which no broker can be reached. Only one thread calls it, but for `close`."""

    def __init__(self, connector: Reporting, parameters: KafkaSinkParameters) -> None:
        """Creates the object; `connector` reports that it waits."""
        self._connector = connector
        self._parameters = parameters
        self._log = ThrottledLog(log, connector, _PART)
        self._reports = threading.Lock()
        self._closed = threading.Event()

    def keep_trying(self, work: Callable[[], T]) -> T:
        """Does work, and repeats it while no broker can be reached, for at most `retry_seconds`.

        Raises:
            KafkaAway: No broker could be reached in that time.
            KafkaFailed: The brokers reject the work.
        """
        try:
            return work()
        except KafkaAway as away:
            self._report(away)
        deadline = time.monotonic() + self._parameters.retry_seconds
        backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        try:
            while True:
                over = self._closed.wait(backoff.next()) or time.monotonic() >= deadline
                try:
                    result = work()
                except KafkaAway as away:
                    if self._closed.is_set():
                        raise
                    if over:
                        seconds = self._parameters.retry_seconds
                        raise type(away)(gave_up(away, seconds, "retry_seconds")) from away
                    self._report(away)
                else:
                    self._log.over("brokers answer again")
                    return result
        finally:
            goes_on(self._connector, _PART)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Reports whether brokers answer, from time to time while the block lasts: a client tries again and tells nobody."""
        over = threading.Event()
        threading.Thread(target=self._watch, args=(over,), name="headrace kafka outages", daemon=True).start()
        try:
            yield
        finally:
            with self._reports:
                over.set()
                goes_on(self._connector, _PART)

    def close(self) -> None:
        """Ends the wait for brokers that cannot be reached."""
        self._closed.set()

    def _watch(self, over: threading.Event) -> None:
        """Looks until `over` is set."""
        while not over.wait(_LOOK_S):
            why = why_unreachable(self._parameters)
            with self._reports:
                if over.is_set():
                    return
                if why:
                    self._report(why)
                else:
                    self._log.over("brokers answer again")

    def _report(self, problem: object) -> None:
        self._log.report(f"sink {self._parameters.sink}: {problem}; retrying")
