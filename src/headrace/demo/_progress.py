"""How far the run is: what the gateway's status and the pipeline's table say."""

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from headrace.demo._airlines import Airline, Table, read_table
from headrace.demo._flights import FlightFile
from headrace.protocol.v1.admin_pb2 import GetStatusRequest, GetStatusResponse, StreamStatus
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_CALL_TIMEOUT_S = 1.0
_RATE_OVER_S = 2.0
_RECENT_LATENCIES = 20
# A gateway that was killed is back within a second; gRPC's own backoff would look for it much later.
_CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]


@dataclass(frozen=True)
class Progress:
    """The run at one moment. Counts are of messages, taken from positions, so that a gateway's restart loses none."""

    elapsed_s: float
    total: int
    received: int
    committed: int
    rate: float
    """Messages committed each second, lately."""
    ack_latency_s: float | None
    """From a message's arrival at the gateway to its acknowledgement: the median of the latest measurements."""
    airlines: tuple[Airline, ...]
    attached: bool
    """True once a pipeline has been attached."""


@dataclass
class Observer:
    """Looks at the gateway and at the table, again and again; a gateway that is away leaves what was known."""

    flights: FlightFile
    stream: str
    table: Path
    began: float = field(default_factory=time.monotonic)
    first_received_s: float | None = None
    last_committed_s: float = 0.0
    latencies: list[float] = field(default_factory=list)
    _channel: grpc.Channel | None = None
    _received: int = 0
    _committed: int = 0
    _attached: bool = False
    _table: Table | None = None
    _arrivals: deque[tuple[float, int]] = field(default_factory=deque)
    _commits: deque[tuple[float, int]] = field(default_factory=deque)

    def connect(self, address: str) -> None:
        """Where the gateway is, also after its restarts."""
        self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)

    def close(self) -> None:
        """Leaves the gateway."""
        if self._channel is not None:
            self._channel.close()

    def look(self) -> Progress:
        """How far the run is now."""
        now = time.monotonic() - self.began
        status = self._status()
        if status is not None:
            self._attached |= any(pipeline.attached for pipeline in status.pipelines)
            for stream in status.streams:
                if stream.stream == self.stream:
                    self._note(stream, now)
        self._table = read_table(self.table) or self._table
        return Progress(
            elapsed_s=now,
            total=self.flights.lines,
            received=self._received,
            committed=self._committed,
            rate=self._rate(now),
            ack_latency_s=_median(self.latencies[-_RECENT_LATENCIES:]),
            airlines=self._table.airlines if self._table is not None else (),
            attached=self._attached,
        )

    def latency(self, share: float) -> float | None:
        """The latency that a share of all measurements did not exceed, in seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None

    def _status(self) -> GetStatusResponse | None:
        if self._channel is None:
            return None
        try:
            return AdminServiceStub(self._channel).GetStatus(GetStatusRequest(), timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError:
            return None

    def _note(self, stream: StreamStatus, now: float) -> None:
        received = self.flights.lines_through(stream.received.sequence)
        committed = self.flights.lines_through(stream.acknowledged.sequence)
        if received > self._received:
            if self.first_received_s is None:
                self.first_received_s = now
                self._commits.append((now, 0))
            self._received = received
            self._arrivals.append((now, received))
        if committed > self._committed:
            self._committed = committed
            self.last_committed_s = now
            self._commits.append((now, committed))
            while self._arrivals and self._arrivals[0][1] <= committed:
                self.latencies.append(now - self._arrivals.popleft()[0])

    def _rate(self, now: float) -> float:
        while len(self._commits) > 1 and self._commits[1][0] < now - _RATE_OVER_S:
            self._commits.popleft()
        if not self._commits:
            return 0.0
        began, count = self._commits[0]
        return (self._committed - count) / max(now - began, 0.001)


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
