"""Observes a run from outside: the gateway's status, and the results."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headrace.laboratory.demo.gateway import GatewayStatus
from headrace.laboratory.demo.meter import Meter
from headrace.laboratory.demo.progress import RunProgress
from headrace.protocol.v1.admin_pb2 import StreamStatus

_Progress = TypeVar("_Progress", bound=RunProgress)


@dataclass(kw_only=True)
class Observer(ABC, Generic[_Progress]):
    """Observes a run. While the gateway is unavailable, the last known status remains.

    Attributes:
        total: The total number of messages.
        began: When the run began, on the monotonic clock.
    """

    total: int
    began: float
    meter: Meter = field(default_factory=Meter)
    gateway: GatewayStatus = field(default_factory=GatewayStatus)
    _attached: bool = False

    def look(self) -> _Progress:
        """Returns the present progress."""
        now = time.monotonic() - self.began
        status = self.gateway.get()
        if status is not None:
            self._attached |= any(pipeline.attached for pipeline in status.pipelines)
            counts = [self.count(stream) for stream in status.streams]
            self.meter.note(sum(received for received, _ in counts), sum(committed for _, committed in counts), now)
        return self.progress(
            elapsed_s=now,
            total=self.total,
            received=self.meter.received,
            committed=self.meter.committed,
            rate=self.meter.rate(now),
            ack_latency_s=self.meter.recent_latency(),
            attached=self._attached,
        )

    @abstractmethod
    def count(self, stream: StreamStatus) -> tuple[int, int]:
        """Returns how many messages of a stream were received and how many are acknowledged, according to its positions."""

    @abstractmethod
    def progress(self, **known: Any) -> _Progress:
        """Adds the results so far."""
