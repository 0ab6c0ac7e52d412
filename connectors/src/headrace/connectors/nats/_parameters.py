"""What the NATS connectors can be told."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from headrace.connectors._bad_records import BadRecordParameters, BadRecords
from headrace.connectors._parameters import Parameters

_NAME = r"^[^\s.*>/\\]+$"
_KEY = r"^(subject|none|header:.+)$"
_HEADER = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

Subject = Annotated[str, StringConstraints(pattern=r"^[^\s.]+(\.[^\s.]+)*$")]
"""A subject, or a pattern of subjects."""


def partition_name(text: str) -> str:
    """What a partition is called that stands for a stream or a subject."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


class NatsConnection(Parameters):
    """How to reach a NATS server."""

    servers: tuple[str, ...] = Field(
        ("nats://127.0.0.1:4222",),
        min_length=1,
        description="Servers to begin with, nats://HOST:PORT, or tls://HOST:PORT for TLS; they tell of the others.",
    )
    user: str | None = Field(None, description="Who logs in.")
    password: SecretStr | None = Field(None, description="Their password.")
    token: SecretStr | None = Field(None, description="Log in with a token instead.")
    credentials_file: Path | None = Field(None, description="Log in with a JWT and an NKEY instead: a .creds file.")
    nkey_file: Path | None = Field(None, description="Log in with an NKEY instead: a file with its seed.")
    tls_ca: Path | None = Field(None, description="Certificates to trust, PEM; those of the system where not given.")
    tls_certificate: Path | None = Field(None, description="This client's own certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="The private key that belongs to it, PEM.")
    tls_server_name: str | None = Field(None, description="The name in the servers' certificate, where it is not their host.")
    tls_first: bool = Field(False, description="Begin with TLS, for servers with handshake_first.")
    client_name: str = Field("headrace", description="What the servers' monitoring calls this client.")
    connect_seconds: float = Field(5.0, gt=0, description="How long a server may take to answer.")

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
                raise ValueError("write user and password as parameters of their own: unlike addresses, they are never shown")
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
            raise ValueError(f"{' and '.join(given)} are different ways to log in: give one of them")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: give both, or neither")
        return self

    @property
    def encrypted(self) -> bool:
        """Whether a connection without TLS is refused."""
        told = self.tls_ca or self.tls_certificate or self.tls_server_name or self.tls_first
        return bool(told) or any(server.startswith("tls:") for server in self.servers)


class ShapeParameters(Parameters):
    """What becomes of the parts of a NATS message."""

    key: str = Field("subject", pattern=_KEY, description="What is the key of a message: subject, header:NAME, or none.")
    subject_header: str | None = Field(None, min_length=1, description="A header that shall hold the subject.")


class JetStreamParameters(Parameters):
    """Which stream, and how far ahead of Spark to read it."""

    stream: str = Field(pattern=_NAME, description="The JetStream stream, which must exist.", examples=["ORDERS"])
    domain: str | None = Field(None, pattern=_NAME, description="The JetStream domain, where it is not the server's own.")
    prefetch_messages: int = Field(4000, ge=1, description="How many messages to ask for ahead of need, for each partition.")
    prefetch_bytes: int = Field(8 << 20, ge=1024, description="How many bytes to ask for ahead of need, for each partition.")

    @property
    def partition(self) -> str:
        """The stream, as the name of a partition."""
        return partition_name(self.stream)


class NatsParameters(NatsConnection, ShapeParameters, JetStreamParameters, BadRecordParameters):
    """Stream a JetStream stream of limits retention by its sequences, exactly once.

    Where to go on is in Spark's checkpoint alone: nothing is acknowledged, and no durable consumer is needed.
    """

    source: str = Field(description="Streams are called SOURCE/<stream>.", examples=["orders"])
    subjects: tuple[Subject, ...] = Field((), description="Read only these; wildcards are fine.", examples=["orders.eu.>"])
    partition_by_subject: bool = Field(
        False,
        description="Make each of the subjects a partition, SOURCE/<subject>; they are read at the same time.",
    )

    @model_validator(mode="after")
    def _has_partitions(self) -> Self:
        if self.partition_by_subject and not self.subjects:
            raise ValueError("partition_by_subject needs subjects: each of them becomes a partition")
        if len(set(map(partition_name, self.subjects))) < len(self.subjects) and self.partition_by_subject:
            raise ValueError("two of the subjects would be the same partition: *, > and the like become _; use two sources")
        return self

    @property
    def partitions(self) -> dict[str, tuple[str, ...]]:
        """The subjects that each partition reads, none for all of them."""
        if self.partition_by_subject:
            return {partition_name(subject): (subject,) for subject in self.subjects}
        return {self.partition: self.subjects}


class NatsConsumerParameters(NatsConnection, ShapeParameters, JetStreamParameters, BadRecordParameters):
    """Stream a JetStream stream of work-queue or interest retention by a durable consumer, at least once.

    Messages are acknowledged once the checkpoint has them. What was not acknowledged when a connection is lost comes again.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be taken, such as one above the gateway's max_frame_bytes: fail; "
        "skip, which is counted and logged, and tells the server to give it up; or dead-letter, which keeps it first.",
    )
    source: str = Field(description="Streams are called SOURCE/<stream>.", examples=["jobs"])
    consumer: str = Field(pattern=_NAME, description="The durable pull consumer.", examples=["headrace"])
    subjects: tuple[Subject, ...] = Field((), description="Read only these; wildcards are fine.", examples=["jobs.>"])
    create: bool = Field(True, description="Create the consumer where there is none.")
    ack_wait_seconds: float = Field(
        30.0,
        ge=1,
        description="For a consumer that is created: after how long messages come again whose reader was killed. "
        "One that lives asks for more time by itself.",
    )
    max_ack_pending: int = Field(
        20_000, ge=1, description="For a consumer that is created: how many messages may be unacknowledged."
    )


class NatsCoreParameters(NatsConnection, ShapeParameters, BadRecordParameters):
    """Stream subjects of core NATS, at most once: what is sent while the connector is away, or too fast for it, is lost."""

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be taken, such as one above the gateway's max_frame_bytes: fail; "
        "skip, which is counted and logged; or dead-letter.",
    )
    source: str = Field(description="The stream is called SOURCE/0.", examples=["metrics"])
    subjects: tuple[Subject, ...] = Field(
        min_length=1, description="The subjects to subscribe to; wildcards are fine.", examples=["metrics.>"]
    )
    queue_group: str | None = Field(None, pattern=r"^\S+$", description="Share the messages with all subscribers of this group.")
    buffer_messages: int = Field(100_000, ge=1, description="How many messages may wait for Spark; more are dropped.")
    buffer_bytes: int = Field(64 << 20, ge=1024, description="How many bytes may wait for Spark; more are dropped.")


class NatsSinkParameters(NatsConnection):
    """Publish to JetStream, at least once; exactly once where Spark delivers again within the stream's duplicate window."""

    sink: str = Field(description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"])
    subject: str = Field(
        description="Where messages go. {key} stands for the key, {header:NAME} for a header.", examples=["alerts.{key}"]
    )
    stream: str | None = Field(None, pattern=_NAME, description="The stream that must take them; any one where not given.")
    domain: str | None = Field(None, pattern=_NAME, description="The JetStream domain, where it is not the server's own.")
    key_header: str | None = Field(None, pattern=_HEADER, description="A header that shall hold the key.")
    deduplicate: Literal["all", "given", "none"] = Field(
        "all",
        description="Which messages get a Nats-Msg-Id: all, made of their batch and place where they have no message_id; "
        "or those alone that have one.",
    )
    nats_headers: bool = Field(
        False,
        description="Send headers whose names begin with Nats-, too: the server takes them for instructions, such as Nats-TTL.",
    )
    max_in_flight: int = Field(4000, ge=1, description="How many messages may await their acknowledgement.")
    max_in_flight_bytes: int = Field(16 << 20, ge=1024, description="How many bytes may await their acknowledgement.")
    retry_seconds: float = Field(
        60.0,
        ge=0,
        description="How long to try again where the server is away or the stream is full, before Spark's task fails.",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, subject: str) -> str:
        plain = _PLACEHOLDER.sub("x", subject)
        if re.search(r"[\s{}*>]", plain) or not all(plain.split(".")):
            raise ValueError("write a subject without spaces and wildcards, such as alerts.eu or alerts.{key}")
        for name in _PLACEHOLDER.findall(subject):
            if name != "key" and not re.fullmatch(r"header:.+", name):
                raise ValueError(f"{{{name}}} stands for nothing: write {{key}} or {{header:NAME}}")
        return subject
