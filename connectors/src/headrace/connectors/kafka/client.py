"""kafka-python's connections, changed so that a client that cannot connect reports why, and leaves no resources behind.

Filters the logs of the client libraries, too: no secrets, and no repetition ten times a second while a broker is unavailable.
"""

import logging
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from headrace.connectors.kafka.internals import HearingManager
from headrace.logs.repeats import Repeats

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


_WITH_SECRETS = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
"""At debug level, these log the configuration of clients, and their credentials."""
_LIBRDKAFKA = "headrace.connectors.kafka.librdkafka"
"""The logger that librdkafka writes to."""
_REPEATING = ("kafka.cluster", "kafka.net.connection", "kafka.net.manager", "kafka.net.transport", _LIBRDKAFKA)
_REPEAT_S = 30.0
_repeats = Repeats(_REPEAT_S)


def _without_secrets(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _seldom(record: logging.LogRecord) -> bool:
    """Returns whether this warning has not been logged recently."""
    if record.levelno < logging.WARNING:
        return True
    return _repeats.admit((record.name, record.lineno)) is not None


for _name in _WITH_SECRETS:
    logging.getLogger(_name).addFilter(_without_secrets)
for _name in _REPEATING:
    logging.getLogger(_name).addFilter(_seldom)
