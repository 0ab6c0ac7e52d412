"""kafka-python's connections, changed so that a client that cannot connect reports why, and leaves no resources behind."""

from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from headrace.connectors.kafka.internals import HearingManager

_REFUSED_LOGIN = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)


class Client(KafkaNetClient):  # type: ignore[misc]
    """The connections of a consumer, producer or administrator."""

    def __init__(self, **configs: Any) -> None:
        """As `KafkaNetClient`."""
        net = NetworkSelector(**configs)
        super().__init__(net, _Manager(net, **configs), **configs)
        if "allow_auto_create_topics" in configs:
            # Consumers and producers do not pass this setting on: a request for a topic's metadata would create the topic.
            self.cluster.config["allow_auto_create_topics"] = configs["allow_auto_create_topics"]


class _Manager(HearingManager):
    """A connection manager without some bugs of version 3.0.12."""

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        """As `KafkaConnectionManager`."""
        super().__init__(net, **configs)
        self._selector = net
        self._refusal: BaseException | None = None

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = True) -> None:
        """Looks for a first broker.

        If there is none, closes everything: kafka-python would leave a thread and open files behind.
        """
        try:
            super().bootstrap(timeout_ms, refresh)
        except BaseException:
            self.close()
            self._selector.close()
            raise

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """Returns the connection to a node. If the first broker rejects the credentials, kafka-python would retry needlessly."""
        if self._refusal is not None:
            raise self._refusal
        connection = super().get_connection(node_id, *args, **options)
        if self.cluster.is_bootstrap(node_id):
            connection.init_future.add_errback(self._note)
        return connection

    def _note(self, error: BaseException) -> None:
        """Notes the error if authentication failed."""
        if isinstance(error, _REFUSED_LOGIN):
            self._refusal = error
