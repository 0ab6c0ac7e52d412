"""The parameters of the NATS connectors."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from headrace.configuration import Duration, Size
from headrace.connectors._parameters import Parameters, SystemParameters, start_of
from headrace.connectors.bad_records import BadRecordParameters, BadRecords
from headrace.contract.names import to_name

_NAME = r"^[^\s.*>/\\]+$"
_KEY = r"^(subject|none|header:.+)$"
_HEADER = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

Subject = Annotated[str, StringConstraints(pattern=r"^[^\s.]+(\.[^\s.]+)*$")]
"""A subject, or a pattern of subjects."""


def partition_name(text: str) -> str:
    """Returns the name of the partition for a stream or a subject."""
    return to_name(text)


class NatsConnection(SystemParameters):
    """How to reach a NATS server."""

    servers: tuple[str, ...] = Field(
        ("nats://127.0.0.1:4222",),
        min_length=1,
        description="Initial servers, nats://HOST:PORT, or tls://HOST:PORT; others are discovered.",
    )
    user: str | None = Field(None, description="The user name.")
    password: SecretStr | None = Field(None, description="The password.")
    token: SecretStr | None = Field(None, description="Authenticate with a token instead.")
    credentials_file: Path | None = Field(None, description="Authenticate with a JWT and an NKEY instead: a .creds file.")
    nkey_file: Path | None = Field(None, description="Authenticate with an NKEY instead: a file with its seed.")
    tls_ca: Path | None = Field(None, description="Trusted certificates, PEM; default: the system's.")
    tls_certificate: Path | None = Field(None, description="The client certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="Its private key, PEM.")
    tls_server_name: str | None = Field(None, description="The name in the servers' certificate, if not their host name.")
    tls_first: bool = Field(False, description="Start with TLS, for servers with handshake_first.")
    client_name: str = Field("headrace", description="The client's name in the servers' monitoring.")
    connect_seconds: Duration = Field(5.0, gt=0, description="How long a server may take to answer.")

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for server in servers:
            try:
                parts = urlsplit(server)
                complete = parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0 and not parts.path.strip("/")
            except ValueError:
                complete = False
            if not complete:
                raise ValueError("write each server as nats://HOST:PORT or tls://HOST:PORT")
            if "@" in parts.netloc:
                raise ValueError("set user and password as separate parameters: unlike addresses, they are never shown")
        return servers

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together: give both, or neither")
        logins = {
            "user": self.user,
            "token": self.token,
            "credentials_file": self.credentials_file,
            "nkey_file": self.nkey_file,
        }
        given = [name for name, value in logins.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are different ways to authenticate: give only one of them")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: give both, or neither")
        return self

    @property
    def encrypted(self) -> bool:
        """Whether TLS is required."""
        told = self.tls_ca or self.tls_certificate or self.tls_server_name or self.tls_first
        return bool(told) or any(server.startswith("tls:") for server in self.servers)


class ShapeParameters(Parameters):
    """How the parts of a NATS message are mapped."""

    key: str = Field("subject", pattern=_KEY, description="The key of a message: subject, header:NAME, or none.")
    subject_header: str | None = Field(None, min_length=1, description="The message header to store the subject in.")


class JetStreamParameters(Parameters):
    """Which stream to read, and how far ahead of Spark."""

    stream: str = Field(pattern=_NAME, description="The JetStream stream, which must exist.", examples=["ORDERS"])
    domain: str | None = Field(None, pattern=_NAME, description="The JetStream domain, if it is not the server's own.")
    prefetch_messages: int = Field(4000, ge=1, description="Messages to request in advance, for each partition.")
    prefetch_bytes: Size = Field(8 << 20, ge=1024, description="Bytes to request in advance, for each partition.")

    @property
    def partition(self) -> str:
        """The name of the partition for the stream."""
        return partition_name(self.stream)


class NatsParameters(NatsConnection, ShapeParameters, JetStreamParameters, BadRecordParameters):
    """Stream a JetStream stream with limits retention by its sequences, exactly once.

    The position is stored only in Spark's checkpoint: nothing is acknowledged, and no durable consumer is needed.
    """

    source: str = Field(description="Streams are named SOURCE/<stream>.", examples=["orders"])
    subjects: tuple[Subject, ...] = Field(
        (), description="Read only these subjects; wildcards are allowed.", examples=["orders.eu.>"]
    )
    start: str = Field(
        "earliest",
        description="Where a new query begins: earliest; latest, after the last message; or the first message since "
        "a time such as 2026-01-31T12:00:00Z.",
    )
    partition_by_subject: bool = Field(
        False,
        description="Make each subject a partition, SOURCE/<subject>, read concurrently.",
    )

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, start: str) -> str:
        start_of(start)
        return start

    @model_validator(mode="after")
    def _has_partitions(self) -> Self:
        if self.partition_by_subject and not self.subjects:
            raise ValueError("partition_by_subject needs subjects: each of them becomes a partition")
        if len(set(map(partition_name, self.subjects))) < len(self.subjects) and self.partition_by_subject:
            raise ValueError("two of the subjects would be the same partition (* and > become _): use two sources")
        return self

    @property
    def partitions(self) -> dict[str, tuple[str, ...]]:
        """The subjects that each partition reads; an empty tuple means all subjects."""
        if self.partition_by_subject:
            return {partition_name(subject): (subject,) for subject in self.subjects}
        return {self.partition: self.subjects}


class NatsConsumerParameters(NatsConnection, ShapeParameters, JetStreamParameters, BadRecordParameters):
    """Stream a JetStream stream with work-queue or interest retention by a durable consumer, at least once.

    Messages are acknowledged once they are in the checkpoint. Unacknowledged messages are redelivered after a connection is lost.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be sent, such as one above the gateway's max_frame_bytes."
        " skip and dead-letter tell the server to stop redelivering it.",
    )
    source: str = Field(description="Streams are named SOURCE/<stream>.", examples=["jobs"])
    consumer: str = Field(pattern=_NAME, description="The name of the durable pull consumer.", examples=["headrace"])
    subjects: tuple[Subject, ...] = Field((), description="Read only these subjects; wildcards are allowed.", examples=["jobs.>"])
    create: bool = Field(True, description="Create the consumer if it does not exist.")
    new_consumer: Literal["refuse", "accept"] = Field(
        "refuse",
        description="What to do if a checkpoint has messages of a former consumer, deleted while nobody read it: "
        "refuse to read, or accept what the present one delivers.",
    )
    ack_wait_seconds: Duration = Field(
        30.0,
        ge=1,
        description="For a created consumer: how soon messages of a killed reader are redelivered. A live reader extends it.",
    )
    max_ack_pending: int | None = Field(
        None,
        ge=1,
        description="For a created consumer: the most unacknowledged messages; default: 20000, or what the stream's "
        "consumer_limits allow.",
    )


class NatsCoreParameters(NatsConnection, ShapeParameters, BadRecordParameters):
    """Stream subjects of core NATS, by best effort.

    Messages that arrive while the connector is unavailable, or faster than it can read, are lost.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be sent, such as one above the gateway's max_frame_bytes.",
    )
    source: str = Field(description="The stream is named SOURCE/0.", examples=["metrics"])
    subjects: tuple[Subject, ...] = Field(
        min_length=1, description="The subjects to subscribe to; wildcards are allowed.", examples=["metrics.>"]
    )
    queue_group: str | None = Field(None, pattern=r"^\S+$", description="Share the messages with the subscribers of this group.")
    buffer_messages: int = Field(100_000, ge=1, description="The most messages that wait for Spark; further ones are dropped.")
    buffer_bytes: Size = Field(64 << 20, ge=1024, description="The most bytes that wait for Spark; further messages are dropped.")


class NatsSinkParameters(NatsConnection):
    """Publish to JetStream, at least once; exactly once if Spark redelivers within the stream's duplicate window."""

    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    subject: str = Field(
        description="The subject to publish to. {key} is replaced by the key, {header:NAME} by a header.",
        examples=["alerts.{key}"],
    )
    stream: str | None = Field(None, pattern=_NAME, description="The stream that must store the messages; default: any stream.")
    domain: str | None = Field(None, pattern=_NAME, description="The JetStream domain, if it is not the server's own.")
    key_header: str | None = Field(None, pattern=_HEADER, description="The header to store the key in.")
    deduplicate: Literal["all", "given", "none"] = Field(
        "all",
        description="Which messages get a Nats-Msg-Id: all, by a derived one if necessary; given, with a message_id; or none.",
    )
    nats_headers: bool = Field(
        False,
        description="Also send headers Nats-*, which the server takes as instructions, such as Nats-TTL.",
    )
    max_in_flight: int = Field(4000, ge=1, description="The most messages that wait for their acknowledgement.")
    max_in_flight_bytes: Size = Field(16 << 20, ge=1024, description="The most bytes that wait for their acknowledgement.")
    retry_seconds: Duration = Field(
        60.0,
        ge=0,
        description="How long to retry, before Spark's task fails.",
    )
    full_subject: Literal["refuse", "fail"] = Field(
        "refuse",
        description="What to do if a subject is still full (max_msgs_per_subject) after retry_seconds: refuse its "
        "messages, or fail Spark's task.",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, subject: str) -> str:
        plain = _PLACEHOLDER.sub("x", subject)
        if re.search(r"[\s{}*>]", plain) or not all(plain.split(".")):
            raise ValueError("write a subject without spaces and wildcards, such as alerts.eu or alerts.{key}")
        for name in _PLACEHOLDER.findall(subject):
            if name != "key" and not re.fullmatch(r"header:.+", name):
                raise ValueError(f"{{{name}}} is not a placeholder: write {{key}} or {{header:NAME}}")
        return subject
