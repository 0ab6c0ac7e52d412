"""The parameters of the RabbitMQ connectors."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from headrace.configuration import Duration, Size
from headrace.connectors._parameters import SystemParameters
from headrace.connectors.bad_records import BadRecordParameters, BadRecords
from headrace.connectors.rabbitmq.outgoing import RoutingKey
from headrace.contract.names import NAME

_NAMES = f"^{NAME}$"
_FORM = "write amqp://USER:PASSWORD@HOST:PORT/VHOST, with special characters of each percent-encoded"


class RabbitMQConnection(SystemParameters):
    """How to reach a broker."""

    url: SecretStr = Field(
        SecretStr("amqp://guest:guest@127.0.0.1:5672/%2F"),
        description="The broker: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS; percent-encode special "
        "characters. Default: amqp://guest:guest@127.0.0.1:5672/%2F.",
        examples=["amqp://headrace@127.0.0.1/%2F"],
    )
    password: SecretStr | None = Field(None, description="The password, if the URL has none.")
    nodes: tuple[str, ...] = Field((), description="Further nodes, HOST or HOST:PORT, tried after the URL's.")
    tls_ca: Path | None = Field(None, description="Trusted certificates, PEM; default: the system's.")
    tls_certificate: Path | None = Field(None, description="The client certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="Its private key, PEM.")
    connect_seconds: Duration = Field(10.0, gt=0, description="How long a node may take to answer.")
    heartbeat_seconds: Duration = Field(
        30, ge=2, le=600, description="How long a broker may be silent until it counts as unavailable."
    )

    @field_validator("url")
    @classmethod
    def _is_amqp(cls, value: SecretStr) -> SecretStr:
        """Checks that the URL can be parsed. Errors do not show it, because it may contain a password."""
        try:
            parts = urlsplit(value.get_secret_value())
            complete = parts.scheme in ("amqp", "amqps") and parts.hostname and parts.port != 0 and parts.path.count("/") < 2
        except ValueError:
            complete = False
        if not complete or parts.fragment or (parts.password and not parts.username):
            raise ValueError(_FORM)
        if parts.query:
            raise ValueError("the URL has options after a question mark; give them as separate parameters")
        return value

    @field_validator("nodes")
    @classmethod
    def _are_hosts(cls, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Checks that nodes have no more than a host and a port; everything else is in the URL."""
        for node in nodes:
            try:
                parts = urlsplit(f"//{node}")
                complete = parts.hostname and parts.port != 0 and parts.netloc == node and "@" not in node
            except ValueError:
                complete = False
            if not complete:
                raise ValueError("write each node as HOST or HOST:PORT; user, password and virtual host come from the URL")
        return nodes

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        parts = urlsplit(self.url.get_secret_value())
        if bool(parts.username) != bool(parts.password or self.password):
            raise ValueError("a user and a password go together: give both, in the URL or with password, or neither")
        if any((self.tls_ca, self.tls_certificate, self.tls_key)) and parts.scheme != "amqps":
            raise ValueError("tls_ca, tls_certificate and tls_key require TLS: begin the URL with amqps://")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: give both, or neither")
        return self


class RabbitMQQueues(RabbitMQConnection):
    """The parameters that both sources share."""

    source: str = Field(pattern=_NAMES, description="Streams are named SOURCE/<queue>.", examples=["orders"])
    queue: tuple[str, ...] = Field(min_length=1, description="The queues to read, which must exist.", examples=["orders"])
    key: str = Field(
        "routing-key",
        pattern=r"^(routing-key|none|header:.+)$",
        description="The key of a message: routing-key, none, or header:NAME.",
    )
    missing_queue: Literal["fail", "wait"] = Field("fail", description="What to do if a queue does not exist, or is deleted.")


class RabbitMQParameters(RabbitMQQueues, BadRecordParameters):
    """Stream classic and quorum queues; each is a partition.

    Messages are acknowledged once they are in the checkpoint. Unacknowledged messages are redelivered after a connection is lost.
    """

    broker_keeps: ClassVar[bool] = True

    bad_records: BadRecords = Field(
        BadRecords.DEAD_LETTER,
        description="What to do with a message that cannot be sent, such as one above the gateway's max_frame_bytes."
        " Without dead_letters, dead-letter rejects it to the dead-letter exchange of its queue, if "
        "there is one.",
    )

    prefetch: int = Field(
        20_000,
        ge=1,
        le=65_535,
        description="The most unacknowledged messages of a queue, which the broker holds in memory.",
    )
    temporary_queue: Literal["refuse", "accept"] = Field(
        "refuse",
        description="What to do with a queue that the broker deletes once nobody consumes it (auto-delete, "
        "x-expires): refuse to read it, or accept, and be degraded.",
    )
    exclusive: bool = Field(False, description="Be the only consumer of each queue, and wait for that.")
    reject_above_bytes: Size | None = Field(
        None,
        ge=1,
        description="Reject larger messages to the dead-letter exchange of their queue, if there is one.",
    )


class RabbitMQStreamParameters(RabbitMQQueues, BadRecordParameters):
    """Stream stream queues; each is a partition.

    The offset is stored only in the query's checkpoint.
    """

    start: str = Field(
        "first",
        description="Where a new query begins: first, an offset, or a time such as 2026-01-31T12:00:00Z.",
    )
    prefetch: int = Field(10_000, ge=1, le=65_535, description="The most messages of a queue in flight.")

    @field_validator("start")
    @classmethod
    def _can_be_repeated(cls, value: str) -> str:
        """Ensures that a batch that runs again begins at the same place."""
        if value in ("last", "next"):
            raise ValueError("a batch that runs again must begin at the same place: write first, an offset, or a time")
        start_of(value)
        return value


class RabbitMQSinkParameters(RabbitMQConnection):
    """Publish to an exchange, or directly to queues, at least once, with publisher confirms.

    A message that reaches no queue is refused, and becomes a dead letter.
    """

    sink: str = Field(
        pattern=_NAMES, description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"]
    )
    exchange: str = Field("", description="The exchange, which must exist; without one, the routing key names a queue.")
    routing_key: str = Field(
        description="The routing key; {key}, {message_id} and {header:NAME} stand for values of the message.",
        examples=["alerts.{key}"],
    )
    mandatory: bool = Field(True, description="Refuse messages that reach no queue, which the broker drops otherwise.")
    persistent: bool = Field(True, description="Make the broker store messages on disk.")
    window: int = Field(2_000, ge=1, description="Maximum number of unconfirmed messages.")
    wait_seconds: Duration = Field(
        240.0,
        gt=0,
        description="How long a micro-batch waits for an unavailable broker or a full queue before it fails.",
    )

    @field_validator("routing_key")
    @classmethod
    def _can_be_made(cls, value: str) -> str:
        """Checks that the placeholders exist."""
        RoutingKey(value)
        return value


def start_of(text: str) -> str | int | datetime:
    """Parses where to begin; returns it in the form that the broker expects.

    Raises:
        ValueError: The text is neither `first` nor an offset nor a time.
    """
    if text == "first":
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write first, an offset, or a time such as 2026-01-31T12:00:00Z") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
