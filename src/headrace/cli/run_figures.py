"""The figures that `headrace run` shows of its streams, by the gateway, for a token that may read the status."""

from headrace.terminal import Connection

REFUSED_FOR_S = 60.0
"""How long a gateway that has refused to answer is not asked again: the token may get the right meanwhile."""


class Figures:
    """Asks a gateway how much of some streams is acknowledged, and how much waits."""

    def __init__(self, connection: Connection, patterns: list[str]) -> None:
        """Takes how to reach the gateway, and the patterns of the streams."""
        self._connection = connection
        self._patterns = patterns
        self._not_before = float("-inf")

    def ask(self, now: float) -> tuple[int, int] | None:
        """Returns the numbers of acknowledged and of waiting messages; None if the gateway does not answer.

        Args:
            now: The time, in seconds on a monotonic clock.
        """
        import grpc

        from headrace.pipelines.runtime import matches
        from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

        if now < self._not_before:
            return None
        try:
            with self._connection.channel() as channel:
                stub = admin_pb2_grpc.AdminServiceStub(channel)
                status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=2, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            refused = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
            if isinstance(error, grpc.Call) and error.code() in refused:
                self._not_before = now + REFUSED_FOR_S
            return None
        own = [stream for stream in status.streams if any(matches(pattern, stream.stream) for pattern in self._patterns)]
        return sum(s.acknowledged_messages for s in own), sum(s.lag_messages for s in own)
