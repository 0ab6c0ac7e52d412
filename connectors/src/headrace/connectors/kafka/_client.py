"""kafka-python's connections, made so that a client which cannot be made says why, and leaves nothing behind."""

from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

_REFUSED_LOGIN = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)


class Client(KafkaNetClient):  # type: ignore[misc]
    """The connections of a consumer, producer or administrator."""

    def __init__(self, **configs: Any) -> None:
        """As `KafkaNetClient`."""
        net = NetworkSelector(**configs)
        super().__init__(net, _Manager(net, **configs), **configs)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """What makes connections, without some faults of version 3.0.12."""

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        """As `KafkaConnectionManager`."""
        super().__init__(net, **configs)
        self._refusal: BaseException | None = None

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = True) -> None:
        """Looks for a first broker. Who finds none gives up, and would leave a thread and open files behind."""
        try:
            super().bootstrap(timeout_ms, refresh)
        except BaseException:
            self.close()
            self._net.close()
            raise

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """The connection to a node. A first broker that refuses the login would be tried again until time is over."""
        if self._refusal is not None:
            raise self._refusal
        connection = super().get_connection(node_id, *args, **options)
        if self.cluster.is_bootstrap(node_id):
            connection.init_future.add_errback(self._note)
        return connection

    async def _build_transport(self, *args: Any, **options: Any) -> Any:
        """A connection, which hears a broker out that closes it: that a login is refused is the last thing it says."""
        transport = await super()._build_transport(*args, **options)
        receive = transport._sock_recv

        def hear_out() -> tuple[bytes, BaseException | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = hear_out
        return transport

    def _note(self, error: BaseException) -> None:
        """Takes note of why there is no connection, where it is a login that was refused."""
        if isinstance(error, _REFUSED_LOGIN):
            self._refusal = error
