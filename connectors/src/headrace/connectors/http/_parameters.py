"""What the HTTP connectors can be told."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from headrace.connectors._bad_records import BadRecordParameters, BadRecords
from headrace.connectors._listening import Listening
from headrace.connectors._parameters import Parameters

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

HeaderName = Annotated[str, StringConstraints(pattern=f"^{_TOKEN}$")]
"""The name of an HTTP header."""
PATH = ":path"
"""Stands for the path of a request where headers are named."""
HeaderOrPath = Annotated[str, StringConstraints(pattern=f"^({PATH}|{_TOKEN})$")]
"""The name of an HTTP header, or `PATH`."""
UrlPath = Annotated[str, StringConstraints(pattern=r"^/[^?#\s{}]*$")]
"""The path of a URL."""


class HttpParameters(Listening, BadRecordParameters):
    """Receive webhooks: each POST is a message, answered once it is in the checkpoint of every query that reads it.

    A client that got no 2xx answer sends again; with id_header a query can drop what it has seen. Put a proxy in front of it
    where strangers can reach it.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be taken, such as one above the gateway's max_frame_bytes: fail; "
        "skip, which is counted and logged; or dead-letter. In either case its request is answered with 413.",
    )
    listen: str = Field("127.0.0.1:8080", description="Where to listen, HOST:PORT.")
    source: str = Field(description="Streams are called SOURCE/<path>, and SOURCE/0 for the path /.", examples=["hooks"])
    paths: tuple[UrlPath, ...] = Field(("/",), min_length=1, description="The paths to receive at.", examples=["/orders"])
    streams: Literal["by-path", "one"] = Field("by-path", description="A stream for each path, or SOURCE/0 for all of them.")
    answer: Literal["committed", "received"] = Field(
        "committed",
        description="When to answer: once it is in the checkpoint; or at once, which loses with this process what is not in it.",
    )
    body: Literal["message", "lines"] = Field("message", description="What is a message: a whole body, or each line of it.")
    id_header: HeaderName | None = Field(
        None, description="The header that has the id of the message, and must be there.", examples=["Idempotency-Key"]
    )
    key_header: HeaderName | None = Field(None, description="The header that has the key of the message.")
    headers: tuple[HeaderOrPath, ...] = Field(
        (), description="Headers that become headers of the message; :path is the path that it came by."
    )
    token: SecretStr | None = Field(None, description="What clients must send as `Authorization: Bearer TOKEN`.")
    health_path: UrlPath = Field("/health", description="Where a GET tells whether queries read all streams: 200 or 503.")
    max_body_bytes: int = Field(
        1 << 20, ge=1, description="Larger bodies are answered with 413. Keep it below max_frame_bytes of the gateway."
    )
    max_waiting_messages: int = Field(
        1000, ge=1, description="How many messages may wait for the checkpoint; then 503. Each is an open connection."
    )
    max_waiting_bytes: int = Field(64 << 20, ge=1, description="How many bytes may wait for the checkpoint; then 503.")
    answer_seconds: float = Field(30.0, gt=0, description="How long a request waits for the checkpoint; then 503.")
    receive_seconds: float = Field(30.0, gt=0, description="How long a body may take to arrive; then 408.")
    retry_after_seconds: int = Field(1, ge=0, description="What a 503 says about when to try again.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.health_path in self.paths:
            raise ValueError("health_path is one of the paths: give it another one")
        names: dict[str, str] = {}
        for path in self.paths:
            name = partition_name(path)
            if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise ValueError("a path becomes the name of a stream: use letters, digits and /._- in it")
            if name in names:
                raise ValueError(f"the paths {names[name]} and {path} would be the same stream: leave one of them out")
            names[name] = path
        return self

    def partition(self, path: str) -> str:
        """The partition that a path belongs to."""
        return partition_name(path) if self.streams == "by-path" else "0"

    @property
    def partitions(self) -> tuple[str, ...]:
        """All partitions."""
        return tuple(dict.fromkeys(map(self.partition, self.paths)))


def partition_name(path: str) -> str:
    """What the partition of a path is called."""
    return path.strip("/").replace("/", ".") or "0"


class HttpSinkParameters(Parameters):
    """Send messages to a URL, at least once, each with a header by which the receiver can tell repeats."""

    url: str = Field(description="Where to send to, http:// or https://.", examples=["https://example.org/alerts"])
    sink: str = Field(description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"])
    method: Literal["POST", "PUT", "PATCH"] = Field("POST", description="The method of the requests.")
    batch: Literal["message", "json-array", "ndjson"] = Field(
        "message", description="What is in a request: one value as it is, or many JSON values, as an array or in lines."
    )
    batch_messages: int = Field(100, ge=1, description="How many messages a request holds at most, where it holds many.")
    batch_bytes: int = Field(1 << 20, ge=1, description="How many bytes they have at most; a single one may have more.")
    content_type: str | None = Field(
        None, description="The content type; by default application/octet-stream, application/json or application/x-ndjson."
    )
    headers: dict[HeaderName, str] = Field({}, description="Headers of every request.")
    secret_headers: dict[HeaderName, SecretStr] = Field({}, description="More headers of every request, which are never shown.")
    token: SecretStr | None = Field(None, description="Sent as `Authorization: Bearer TOKEN`.")
    idempotency_header: HeaderName | None = Field(
        "Idempotency-Key", description="The header that has PIPELINE/BATCH/PARTITION/SEQUENCE, the same for each try."
    )
    key_header: HeaderName | None = Field(None, description="A header that takes the key of the message.")
    id_header: HeaderName | None = Field(None, description="A header that takes the id of the message.")
    carry_headers: tuple[HeaderName, ...] = Field((), description="Headers of the message that become headers of its request.")
    concurrency: int = Field(
        1, ge=1, le=256, description="How many requests at a time. Above 1, only messages of the same key keep their order."
    )
    timeout_seconds: float = Field(30.0, gt=0, description="How long a request may take.")
    retry_seconds: float = Field(60.0, ge=0, description="For how long a request is tried again before the task fails.")
    max_backoff_seconds: float = Field(10.0, gt=0, description="The longest wait between two tries that is not asked for.")
    tls_ca: Path | None = Field(None, description="Certificates to trust, PEM; those of the system where not given.")

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            complete = False
        if not complete:
            raise ValueError("write it as http://HOST/PATH or https://HOST/PATH")
        if "@" in parts.netloc:
            raise ValueError("leave user and password out of it, where they would be shown: use token or secret_headers")
        return url

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not is_header_value(value):
                raise ValueError(f"the value of {name} has a control character in it, which no header may have")
        return headers

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.batch != "message" and (self.key_header or self.id_header or self.carry_headers):
            raise ValueError("key_header, id_header and carry_headers are for batch = message: one request has only one of each")
        secrets = (self.token, *self.secret_headers.values())
        if not all(is_header_value(secret.get_secret_value()) for secret in secrets if secret is not None):
            raise ValueError("a secret has a control character in it, such as a line feed at its end, which no header may have")
        return self


def is_header_value(text: str) -> bool:
    """Whether a header may have this value."""
    return not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text)
