"""Settings of kafka-python that users pass through."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

_CLIENTS = (KafkaConsumer, KafkaProducer, KafkaAdminClient)
_OWN = frozenset(
    {
        "acks", "allow_auto_create_topics", "auto_offset_reset", "bootstrap_servers", "check_crcs", "client_id",
        "compression_type", "enable_auto_commit", "enable_idempotence", "fetch_max_bytes", "group_id", "group_instance_id",
        "isolation_level", "max_partition_fetch_bytes", "max_poll_records", "sasl_mechanism", "sasl_plain_password",
        "sasl_plain_username", "security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password",
        "transaction_timeout_ms", "transactional_id",
    }
)  # fmt: skip
"""What a parameter of the connector sets, or what its guarantees depend on."""
_OWN_OF_LIBRDKAFKA = (
    "acks", "allow.auto.create", "auto.", "batch.size", "bootstrap.", "check.crcs", "client.id", "compression.",
    "delivery.", "enable.", "fetch.m", "fetch.q", "go.", "group.", "isolation.", "message.max", "message.timeout",
    "metadata.broker", "partitioner", "plugin.", "queued.", "request.required", "sasl.mechanism", "sasl.oauthbearer",
    "sasl.password", "sasl.username", "security.", "ssl.ca.", "ssl.cert", "ssl.key", "transaction",
)  # fmt: skip
"""What the connector sets itself, or what its guarantees depend on: the beginnings of names."""
_KINDS: dict[str, type] = {
    "receive_buffer_bytes": int,
    "send_buffer_bytes": int,
    "proxy_url": str,
    "socks5_proxy": str,
    "ssl_ciphers": str,
    "ssl_crlfile": str,
    "sasl_kerberos_domain_name": str,
    "sasl_kerberos_name": str,
}
"""The types of properties whose default is None."""
_BOOLEANS = {"true": True, "false": False}


def parsed(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the values of properties.

    Raises:
        ValueError: kafka-python has no such setting, or the connector does not permit it, or it cannot have the value.
    """
    return {name: _value(name, text) for name, text in properties.items()}


def check_librdkafka(properties: Mapping[str, str]) -> None:
    """Refuses settings of librdkafka that the connector does not permit.

    Raises:
        ValueError: The connector sets it itself.
    """
    for name in properties:
        if name.startswith(_OWN_OF_LIBRDKAFKA) or "_" in name:
            raise ValueError(f"client_properties: the connector sets {name} itself, or librdkafka has no such setting")


def of_client(client: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a client of kafka-python knows."""
    return {name: value for name, value in values.items() if name in client.DEFAULT_CONFIG}  # type: ignore[attr-defined]


def _value(name: str, text: str) -> Any:
    if name in _OWN:
        raise ValueError(f"client_properties: the connector sets {name} itself: use its parameters")
    defaults = [client.DEFAULT_CONFIG[name] for client in _CLIENTS if name in client.DEFAULT_CONFIG]
    kind = _KINDS.get(name) or (type(defaults[0]) if defaults else None)
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind in (int, float, str):
            return kind(text)
    except (ValueError, KeyError):
        what = "true or false" if kind is bool else "a number"
        raise ValueError(f"client_properties: {name}: {text!r} is not {what}") from None
    raise ValueError(f"client_properties: kafka-python has no setting {name} that is a number, a text, or true or false")
