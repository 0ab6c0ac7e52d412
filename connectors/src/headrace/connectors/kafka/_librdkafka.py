"""librdkafka, by the package confluent-kafka: its configuration and its errors."""

import time
from importlib import import_module
from typing import Any

from headrace.connectors.kafka import _connection
from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.sdk import HeadraceError

_TOKEN_SECONDS = 60.0
"""How long librdkafka uses a token before it asks for one again: the provider knows its age, in seconds."""


def imported() -> Any:
    """Returns the package.

    Raises:
        KafkaFailed: It is not installed.
    """
    try:
        return import_module("confluent_kafka")
    except ImportError as error:
        raise KafkaFailed(
            f"client = librdkafka needs a package: pip install 'headrace-connectors[kafka-librdkafka]' ({error})"
        ) from error


def configs(connection: KafkaConnection) -> dict[str, Any]:
    """Returns the configuration that all clients share."""
    settings: dict[str, Any] = {
        **connection.client_properties,
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "client.id": connection.client_id,
        "security.protocol": connection.protocol,
        "socket.timeout.ms": int(_connection.REQUEST_TIMEOUT_SECONDS * 1000),
        "reconnect.backoff.max.ms": int(_connection.MAX_BACKOFF_SECONDS * 1000),
    }
    paths = {
        "ssl.ca.location": connection.tls_ca,
        "ssl.certificate.location": connection.tls_certificate,
        "ssl.key.location": connection.tls_key,
    }
    settings |= {name: str(path) for name, path in paths.items() if path is not None}
    if connection.tls_key_password is not None:
        settings["ssl.key.password"] = connection.tls_key_password.get_secret_value()
    if connection.sasl_mechanism is not None:
        settings["sasl.mechanism"] = connection.sasl_mechanism
    if connection.password is not None:
        settings["sasl.username"] = connection.username
        settings["sasl.password"] = connection.password.get_secret_value()
    if connection.sasl_mechanism == "OAUTHBEARER":
        tokens = connection.tokens()
        settings["oauth_cb"] = lambda _: (tokens.token(), time.time() + _TOKEN_SECONDS)
    return settings


def told_by_librdkafka(error: Any, connection: KafkaConnection) -> HeadraceError:
    """Translates an error of librdkafka: to `KafkaAway` if a retry may help, or else to `KafkaFailed`."""
    errors = imported().KafkaError
    where = f"Kafka at {connection.servers}"
    user = f"user {connection.username}" if connection.username else "this client"
    match error.code():
        case errors._AUTHENTICATION | errors.SASL_AUTHENTICATION_FAILED:
            return KafkaFailed(f"{where} rejects {user} with {connection.sasl_mechanism}: check its credentials: {error.str()}")
        case errors._SSL:
            return KafkaFailed(f"{where}: TLS fails: {error.str()}; check tls_ca, tls_certificate and tls_key")
        case errors.TOPIC_AUTHORIZATION_FAILED | errors.GROUP_AUTHORIZATION_FAILED | errors.CLUSTER_AUTHORIZATION_FAILED:
            return KafkaFailed(f"{where} does not permit this to {user}: {error.str()}; grant READ")
        case _ if error.fatal():
            return KafkaFailed(f"{where}: {error.str()}")
        case _:
            return KafkaAway(f"{where} cannot be reached: {error.str()}")
