"""The gateway of a deployment: its address, and which processes it knows."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import grpc

from headrace.contract.redial import Redial
from headrace.deploy.errors import CannotStart
from headrace.protocol.v1.admin_pb2 import GetStatusRequest, GetStatusResponse, StreamState, StreamStatus
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_CALL_TIMEOUT_S = 1.0
REFUSED_FOR_S = 60.0
"""How long a gateway that has refused a call is not called again with the same token."""
Metadata = tuple[tuple[str, str], ...]
_FORBIDDEN = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_TROUBLE = (StreamState.STREAM_STATE_LOST, StreamState.STREAM_STATE_DETACHED)


@dataclass(frozen=True, slots=True)
class Flow:
    """The throughput of one or more streams.

    Attributes:
        streams: Number of streams.
        acknowledged: Messages acknowledged since the gateway started.
        lag: Messages not yet processed.
        trouble: The problem of one of the streams; None if there is none.
    """

    streams: int = 0
    acknowledged: int = 0
    lag: int = 0
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A gateway's report about its clients.

    Attributes:
        permitted: Whether the caller may read the status.
        connected: The instances of sources that are connected.
        flows: The throughput of each source, by instance.
        sinks: The connected instances of each sink, by sink.
        refused: The number of messages that each sink has refused.
        pipelines: The attached pipelines.
        silent_s: How long ago each of them has last called, in seconds; one that is not here has called just now.
    """

    permitted: bool = True
    connected: frozenset[str] = frozenset()
    flows: Mapping[str, Flow] = field(default_factory=dict)
    sinks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    pipelines: frozenset[str] = frozenset()
    silent_s: Mapping[str, float] = field(default_factory=dict)

    def within(self, seconds: float) -> "Known":
        """Returns it without the pipelines that last called earlier: the process before may have attached them."""
        called = frozenset(name for name in self.pipelines if self.silent_s.get(name, 0.0) <= seconds)
        return self if called == self.pipelines else replace(self, pipelines=called)

    @property
    def acknowledged(self) -> int:
        """Messages acknowledged since the gateway started."""
        return sum(flow.acknowledged for flow in self.flows.values())

    @property
    def lag(self) -> int:
        """Messages not yet processed."""
        return sum(flow.lag for flow in self.flows.values())


class GatewayProbe(Protocol):
    """Asks a gateway for its status."""

    def ask(self) -> Known | None:
        """Its report; None while it is away."""

    def close(self) -> None:
        """Closes the probe."""


class StatusProbe:
    """A probe that calls `GetStatus`, and after a refusal not again for a minute."""

    def __init__(
        self, dial: Callable[[], grpc.Channel], metadata: Callable[[], Metadata], may_ask: Callable[[], bool] = lambda: True
    ) -> None:
        """Calls nobody yet.

        Args:
            dial: Opens a channel, which the probe closes.
            metadata: Returns what to send with the next call.
            may_ask: Returns whether the gateway would answer, as far as is known.
        """
        self._channel = Redial(dial)
        self._metadata = metadata
        self._may_ask = may_ask
        self._refused: tuple[float, Metadata] | None = None

    def ask(self) -> Known | None:
        """Its report; None while it is away."""
        metadata, now = self._metadata(), time.monotonic()
        # Another token may be permitted at once.
        if self._refused is not None and now < self._refused[0] and metadata == self._refused[1]:
            return Known(permitted=False)
        self._refused = None
        if not self._may_ask():
            self._refused = now + REFUSED_FOR_S, metadata
            return Known(permitted=False)
        try:
            stub = AdminServiceStub(self._channel.current())
            status = stub.GetStatus(GetStatusRequest(), timeout=_CALL_TIMEOUT_S, metadata=metadata)
        except grpc.RpcError as error:
            code = error.code() if isinstance(error, grpc.Call) else None
            if code not in _FORBIDDEN:
                if (replaced := self._channel.failed()) is not None:
                    replaced.close()
                return None
            self._refused = now + REFUSED_FOR_S, metadata
            return Known(permitted=False)
        return _view_of(status)

    def close(self) -> None:
        """Closes the channel."""
        if (channel := self._channel.forget()) is not None:
            channel.close()


class NoProbe:
    """The probe of a gateway that uses TLS while no trusted authority is configured, so that it cannot be asked."""

    def ask(self) -> Known | None:
        """Returns a `Known` that knows nothing."""
        return Known(permitted=False)

    def close(self) -> None:
        """Does nothing."""


def _view_of(status: GetStatusResponse) -> Known:
    owners = {stream.instance for stream in status.streams}
    return Known(
        connected=frozenset(session.instance for session in status.sessions),
        flows={owner: _flow(stream for stream in status.streams if stream.instance == owner) for owner in owners},
        sinks={sink.sink: frozenset(sink.instances) for sink in status.sinks},
        refused={sink.sink: sink.refused_messages for sink in status.sinks},
        pipelines=frozenset(pipeline.pipeline for pipeline in status.pipelines if pipeline.attached),
        silent_s={pipeline.pipeline: pipeline.idle_ms / 1000 for pipeline in status.pipelines},
    )


def _flow(streams: Iterable[StreamStatus]) -> Flow:
    own = list(streams)
    trouble = next((f"stream {s.stream}: {s.detail}" for s in own if s.state in _TROUBLE and s.detail), None)
    return Flow(len(own), sum(s.acknowledged_messages for s in own), sum(s.lag_messages for s in own), trouble)


class ReadyFile:
    """A file in memory, which the gateway inherits.

    Attributes:
        descriptor: The descriptor that the gateway inherits.
    """

    def __init__(self) -> None:
        """Makes the file.

        Raises:
            CannotStart: The system has no room for it.
        """
        try:
            self.descriptor = os.memfd_create("gateway.address")
        except OSError as error:
            raise CannotStart(f"the gateway cannot tell its address, for lack of a file in memory: {error.strerror}") from None

    @property
    def options(self) -> list[str]:
        """The options of the gateway that make it write the address."""
        return ["--ready-file", f"/dev/fd/{self.descriptor}"]

    def address(self) -> str | None:
        """Returns the address; None until the gateway has written it.

        Raises:
            OSError: It cannot be read.
        """
        written = os.pread(self.descriptor, 1 << 10, 0)
        return written.decode().strip() if written.endswith(b"\n") else None

    def close(self) -> None:
        """Gives the memory back."""
        os.close(self.descriptor)
