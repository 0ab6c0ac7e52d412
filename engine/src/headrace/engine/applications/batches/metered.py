"""The counters and histograms of an application, as of a committed micro-batch, for the metrics of the gateway.

Their sums are in the manifest of each micro-batch, as its states are: a micro-batch that is repeated continues from the sums
before it, and a driver that was replaced changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from threading import Lock

from headrace.engine.applications.stages.reports import Report, merged
from headrace.pipelines.runtime import BILLION, Meter, Metered, metered
from headrace.protocol.v1 import metrics_pb2 as pb

_MAX = 2**64 - 1


class MeteredRun:
    """The sums of one run. The thread of the query changes them, others read them.

    Args:
        meters: The counters and histograms.
    """

    def __init__(self, meters: Sequence[Meter]) -> None:
        self._meters = meters
        self._lock = Lock()
        self._batch = -1
        self._before = self._now = metered(meters, {}, {})

    def resume(self, stored: Mapping[str, Metered]) -> None:
        """Begins with the sums of the last committed micro-batch."""
        with self._lock:
            self._before = self._now = metered(self._meters, stored, {})

    def after(self, stored: Mapping[str, Metered], reports: Iterable[Report]) -> Mapping[str, Metered]:
        """The sums after a micro-batch, for its manifest.

        Args:
            stored: The sums before it.
            reports: What its tasks report.
        """
        if not self._meters:
            return {}
        more = {step: done.series for step, done in merged(reports).measures.items() if done.series}
        return metered(self._meters, stored, more)

    def noted(self, batch: int, sums: Mapping[str, Metered]) -> None:
        """The manifest of a micro-batch is written, and Spark is about to commit it. The ones before it are committed."""
        with self._lock:
            self._batch, self._before, self._now = batch, self._now, dict(sums)

    def to_proto(self, committed: int | None) -> list[pb.MetricSeries]:
        """The sums for the gateway, without a micro-batch that is not committed yet.

        Args:
            committed: The last micro-batch in the commit log; None if there is none.
        """
        with self._lock:
            sums = self._now if committed is not None and committed >= self._batch else self._before
        return [
            _series(name, of_step.bounds, value, numbers)
            for name, of_step in sums.items()
            for value, numbers in of_step.series.items()
        ]


def _series(name: str, bounds: Sequence[float] | None, value: str, numbers: Sequence[int]) -> pb.MetricSeries:
    if bounds is None:
        return pb.MetricSeries(metric=name, value=value, count=min(numbers[0], _MAX))
    counts = [min(count, _MAX) for count in accumulate(numbers[:-1])]
    return pb.MetricSeries(
        metric=name, value=value, count=counts[-1], sum=numbers[-1] / BILLION, bounds=bounds, buckets=counts[:-1]
    )
