"""The totals of a run of an application since it started, for the metrics of the gateway."""

from collections.abc import Iterable
from threading import Lock

from headrace.engine.applications.stages.reports import Report, merged
from headrace.pipelines.runtime import StepMeasures
from headrace.protocol.v1 import metrics_pb2 as pb

MAX_STEPS = 200
"""The largest number of steps that are reported."""


class Totals:
    """The sums of the reports of one run. One thread adds to them, others read them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._done = Report()
        self._batches = 0

    def add(self, reports: Iterable[Report]) -> None:
        """Adds the reports of a micro-batch whose results are staged."""
        with self._lock:
            self._done = merged([self._done, *reports])
            self._batches += 1

    def to_proto(self) -> pb.RunMetrics:
        """The sums for the gateway."""
        with self._lock:
            keys: dict[str, int] = {}
            for by_step in self._done.keys.values():
                for step, count in by_step.items():
                    keys[step] = keys.get(step, 0) + count
            steps = [_step(step, done, keys.get(step, 0)) for step, done in self._done.measures.items()]
            return pb.RunMetrics(batches=self._batches, steps=steps[:MAX_STEPS], state_bytes=sum(self._done.sizes.values()))


def _step(step: str, done: StepMeasures, keys: int) -> pb.StepMetrics:
    return pb.StepMetrics(
        step=step,
        received=done.received,
        sent=done.sent,
        failed=done.failed,
        late=done.late,
        ahead=done.ahead,
        violated=done.violated,
        further=done.further,
        fired=done.fired,
        time_us=done.time_ns // 1000,
        keys=keys,
    )
