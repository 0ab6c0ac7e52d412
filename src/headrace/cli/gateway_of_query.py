"""What a gateway knows of the pipelines of a query: whether they run, where their streams end, and what their sinks promise."""

from collections.abc import Mapping, Sequence

from headrace.protocol.v1 import admin_pb2, sink_pb2
from headrace.terminal import CALL_TIMEOUT_S, Connection, Failure, duration_text

SETTLED_MS = 10_000
"""How long a gateway must have run, in milliseconds, before it knows every query that runs: they call again within seconds."""
RECENT_MS = 60_000
"""A query that has called within this time, in milliseconds, may run, although the gateway does not know its positions."""


class NotAsked(Exception):
    """The gateway could not be asked."""


class QueriesAtGateway:
    """The pipelines of one query at a gateway.

    Args:
        connection: How to call the gateway.
        pipelines: The names of the pipelines.
    """

    def __init__(self, connection: Connection, pipelines: Sequence[str]) -> None:
        self._connection, self._pipelines = connection, pipelines

    def check_stopped(self) -> None:
        """Checks that no query runs these pipelines, as far as the gateway knows.

        Raises:
            Failure: One runs, may run, or the gateway does not answer.
        """
        status = self._status()
        if status.gateway.uptime_ms < SETTLED_MS:
            raise Failure(
                f"the gateway at {self._connection.gateway} has just started, and may not know yet that the query runs; repeat "
                f"the command in {duration_text(SETTLED_MS)}"
            )
        for found in status.pipelines:
            if found.pipeline not in self._pipelines:
                continue
            if found.state == admin_pb2.PIPELINE_STATE_ATTACHED:
                raise Failure(f"pipeline {found.pipeline} runs: stop its query, and repeat the command")
            if found.state == admin_pb2.PIPELINE_STATE_AWAY:
                raise Failure(
                    f"pipeline {found.pipeline} has not called for {duration_text(found.idle_ms)}, and may still run: stop its "
                    f"query; if its machine is gone, run headrace forget {found.pipeline} --force, and repeat the command"
                )
            if found.state == admin_pb2.PIPELINE_STATE_AWAITED and 0 < found.idle_ms < RECENT_MS:
                raise Failure(
                    f"pipeline {found.pipeline} called {duration_text(found.idle_ms)} ago, and may still run: "
                    "stop its query, and repeat the command after a minute"
                )

    def latest(self) -> Mapping[str, int]:
        """The sequence of the last message of each stream, as far as its connector has reported it.

        Raises:
            Failure: The gateway does not answer.
        """
        return {each.stream: each.latest_sequence for each in self._status().streams if each.HasField("latest_sequence")}

    def not_two_phase(self, sinks: Sequence[str]) -> list[str]:
        """Those of the sinks that may show a transaction before its micro-batch is committed, or whose mode is not known.

        Raises:
            Failure: The gateway does not answer.
        """
        modes = {sink.sink: sink.mode for sink in self._status().sinks}
        return [name for name in sinks if modes.get(name) != sink_pb2.SINK_MODE_TWO_PHASE]

    def _status(self) -> admin_pb2.GetStatusResponse:
        import grpc

        from headrace.protocol.v1 import admin_pb2_grpc

        with self._connection.channel() as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            try:
                return stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=self._connection.metadata)
            except grpc.RpcError as error:
                failure = self._connection.failure(error)
                raise Failure(
                    f"{failure.message}. It is asked whether the query runs; if you know that it does not, add --offline"
                ) from None
