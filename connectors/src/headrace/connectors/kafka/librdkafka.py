"""librdkafka, by the package confluent-kafka: its configuration, its TLS files and its errors."""

import logging
import ssl
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from kafka import errors as kafka_errors

from headrace.connectors.kafka import _connection
from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, login_refused, translate, untrusted
from headrace.connectors.kafka.oauth import FileTokens, RequestedTokens
from headrace.contract.certificates import Stamp, stamp_of
from headrace.sdk import HeadraceError, Message

log = logging.getLogger(__name__)
LIBRARY = "librdkafka"
_RETRY_TOKEN_S = 10.0


class TlsFiles:
    """The TLS files of a client, as they were when it was created."""

    def __init__(self, connection: KafkaConnection) -> None:
        """Remembers the files as they are now."""
        self._connection = connection
        self._last_stamps = self._stamps()

    def are_replaced(self) -> bool:
        """Returns whether the files are others now, and can be used; they are usually replaced one by one."""
        stamps = self._stamps()
        if stamps == self._last_stamps or not self._can_be_used():
            return False
        self._last_stamps = stamps
        log.info("TLS files replaced: connecting to %s anew", self._connection.servers)
        return True

    def _stamps(self) -> list[Stamp]:
        connection = self._connection
        paths = (connection.tls_ca, connection.tls_certificate, connection.tls_key)
        return [stamp_of(path) for path in paths if path is not None]

    def _can_be_used(self) -> bool:
        connection = self._connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        password = connection.tls_key_password.get_secret_value() if connection.tls_key_password else ""
        try:
            if connection.tls_ca is not None:
                context.load_verify_locations(connection.tls_ca)
            if connection.tls_certificate is not None:
                context.load_cert_chain(connection.tls_certificate, connection.tls_key, password)
        except (OSError, ValueError):
            return False
        return True


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


def connect(kind: str, settings: Mapping[str, Any], connection: KafkaConnection) -> Any:
    """Creates a client.

    Args:
        kind: `Consumer` or `Producer`.
        settings: Those that not all clients share.
        connection: How to reach the cluster.

    Raises:
        KafkaFailed: A setting is not permitted, or the token endpoint refuses the client.
        KafkaUntrusted: An earlier client has reached the cluster, and the TLS files cannot be used now.
        KafkaAway: The token endpoint cannot be reached.
    """
    library = imported()
    tokens = connection.tokens()
    login = {} if tokens is None else {"oauth_cb": _Tokens(tokens, connection).next}
    try:
        return getattr(library, kind)({**_configs(connection), **login, **settings, **connection.client_properties})
    except (library.KafkaException, ValueError, TypeError) as error:
        raise untrusted(connection, LIBRARY, f"Kafka at {connection.servers}: {error}") from error


class _Tokens:
    """Gives librdkafka its tokens.

    confluent-kafka runs on with an error set if this fails. So the first token is requested before there is a client, and the
    last one is given while there is no other.
    """

    def __init__(self, tokens: FileTokens | RequestedTokens, connection: KafkaConnection) -> None:
        """Requests the first token.

        Raises:
            KafkaFailed: The client is refused.
            KafkaAway: The endpoint cannot be reached.
        """
        self._tokens = tokens
        try:
            self._last = self._tokens.token()
        except kafka_errors.KafkaError as error:
            raise translate(error, connection, LIBRARY) from error

    def next(self, _: object) -> tuple[str, float]:
        """Returns a token, and until when to use it, in seconds since 1970."""
        seconds = _RETRY_TOKEN_S
        try:
            self._last = self._tokens.token()
            seconds = self._tokens.seconds()
        except kafka_errors.KafkaError as error:
            log.warning("no new token, the last one is used: %s", error)
        return self._last, time.time() + seconds


def _configs(connection: KafkaConnection) -> dict[str, Any]:
    """Returns the configuration that all clients share."""
    settings: dict[str, Any] = {
        "logger": log,
        "log.connection.close": False,
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "client.id": connection.client_id,
        "security.protocol": connection.protocol,
        "socket.timeout.ms": int(_connection.REQUEST_TIMEOUT_S * 1000),
        "reconnect.backoff.ms": int(_connection.MAX_BACKOFF_S * 100),
        "reconnect.backoff.max.ms": int(_connection.MAX_BACKOFF_S * 1000),
    }
    paths = {
        "ssl.ca.location": connection.tls_ca,
        "ssl.certificate.location": connection.tls_certificate,
        "ssl.key.location": connection.tls_key or connection.tls_certificate,
    }
    settings |= {name: str(path) for name, path in paths.items() if path is not None}
    if connection.tls_key_password is not None:
        settings["ssl.key.password"] = connection.tls_key_password.get_secret_value()
    if connection.sasl_mechanism is not None:
        settings["sasl.mechanism"] = connection.sasl_mechanism
    if connection.password is not None:
        settings["sasl.username"] = connection.username
        settings["sasl.password"] = connection.password.get_secret_value()
    return settings


def told_by_librdkafka(error: Any, connection: KafkaConnection) -> HeadraceError:
    """Translates an error of librdkafka: to `KafkaAway` if a retry may help, or else to `KafkaFailed`."""
    errors = imported().KafkaError
    where = f"Kafka at {connection.servers}"
    user = f"user {connection.username}" if connection.username else "this client"
    match error.code():
        case errors._AUTHENTICATION | errors.SASL_AUTHENTICATION_FAILED:
            return login_refused(connection, LIBRARY, error.str())
        case errors._SSL if "Disconnected" not in error.str():  # a broker that stops ends the handshakes that have begun
            text = f"{where}: TLS fails: {error.str()}; check tls_ca, tls_certificate and tls_key"
            return untrusted(connection, LIBRARY, text)
        case errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return KafkaFailed(f"{where} does not permit the transactional id to {user}; grant WRITE on it")
        case errors.TOPIC_AUTHORIZATION_FAILED | errors.GROUP_AUTHORIZATION_FAILED | errors.CLUSTER_AUTHORIZATION_FAILED:
            return KafkaFailed(f"{where} does not permit this to {user}: {error.str()}; grant READ, or WRITE for a sink")
        case errors.MSG_SIZE_TOO_LARGE | errors.RECORD_LIST_TOO_LARGE | errors.INVALID_RECORD | errors.INVALID_TIMESTAMP:
            return KafkaFailed(f"{where} refuses a record: {error.str()}")
        case errors._TRANSPORT | errors._ALL_BROKERS_DOWN | errors._RESOLVE | errors._TIMED_OUT | errors._SSL:
            return KafkaAway(f"{where} cannot be reached: {error.str()}")
        case _ if error.fatal():
            return KafkaFailed(f"{where}: {error.str()}")
        case _:
            return KafkaAway(f"{where} cannot process the request now: {error.str()}")


def why_not_written(message: Message) -> str | None:
    """Returns the reason why librdkafka would write something else than a message; None if it would not."""
    if isinstance(message.event_time, int) and 0 <= message.event_time < 1000:
        return "its event time is the start of 1970, in place of which librdkafka writes the current time: use kafka-python"
    if message.headers and any("\0" in name for name, _ in message.headers):
        return "the name of a header contains a NUL character, where librdkafka cuts it: use kafka-python"
    return None
